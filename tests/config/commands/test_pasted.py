"""Launches as they stand in public threads and scripts, with other names: what bash would start, and what was meant."""

from __future__ import annotations

import pytest

from console.config.commands.imported import Imported, import_text
from console.domain.profile import Secret
from console.engines.registry import engine


def said(found: Imported) -> list[str]:
    return [note.sentence() for note in found.notes if note.severity != "note"]


def test_a_comment_behind_the_backslash() -> None:
    found = import_text("python3 -m sglang.launch_server \\\n  --tp-size 8 \\  # all of them\n  --page-size 64\n")
    assert found.profile.launch.args == {"tp-size": 8, "page-size": 64}
    assert said(found) == [
        "line 2: a comment behind the backslash: a shell would end the command here; read as a continuation"
    ]


def test_what_only_the_host_knows_stays_in_one_piece() -> None:
    text = "IP=$(hostname -I | awk '{print $1}')\nPORT=$(( 8000 + $OFFSET ))\n"
    found = import_text(
        f"{text}python3 -m sglang.launch_server --host $IP --dist-init-addr $IP:5000 --nccl-port $PORT\n"
    )
    ip = "$(hostname -I | awk '{print $1}')"
    assert found.profile.launch.args == {
        "host": ip, "dist-init-addr": f"{ip}:5000", "nccl-port": "$((8000 + $OFFSET))",
    }  # fmt: skip
    assert [note.key for note in found.notes if note.severity == "warning"] == ["host", "dist-init-addr", "nccl-port"]


def test_a_variable_that_may_be_flags_is_no_value() -> None:
    found = import_text("vllm serve $MODEL --max-num-seqs 64 $EXTRA --enable-dbo $MORE --dtype $KIND\n")
    assert found.profile.launch.args == {
        "model": "${MODEL}", "max-num-seqs": 64, "enable-dbo": True, "dtype": "${KIND}",
    }  # fmt: skip
    assert [note.key for note in found.notes if "may hold flags" in note.text] == ["EXTRA", "MORE"]
    filled = import_text("vllm serve m --max-num-seqs 64 $EXTRA\n", known={"EXTRA": "--enforce-eager -tp 2"})
    assert filled.profile.launch.args == {
        "model": "m", "max-num-seqs": 64, "enforce-eager": True, "tensor-parallel-size": 2,
    }  # fmt: skip


def test_signs_inside_a_test_part_no_commands() -> None:
    text = "if [[ $C -eq 4 || ( $C -gt 8 && $C < 9 ) ]]; then\n  TP=8\nelif (( C > 2 )); then\n  TP=4\nfi\n"
    found = import_text(f"{text}vllm serve m -tp $TP\n")
    assert found.profile.launch.args == {"model": "m", "tensor-parallel-size": 4}
    assert said(found) == [
        "line 4: TP is set where a condition decides: its value at line 4 was taken ('4'), not '8' of line 2"
    ]
    assert len(found.notes) == 2  # this, and the port


@pytest.mark.parametrize("sign", ["&&", "||"])
def test_what_a_test_in_one_line_decides_is_told(sign: str) -> None:
    found = import_text(f'E=()\n[ -n "$X" ] {sign} E=(--enable-metrics)\nsglang serve --model-path m ${{E[@]}}\n')
    assert found.profile.launch.args == {"model-path": "m", "enable-metrics": True}
    assert said(found) == [
        "line 2: E is set where a condition decides: its value at line 2 was taken ('--enable-metrics'), not nothing of line 1"
    ]
    plain = import_text("cd /w && A=1 && export B=2 && vllm serve m --seed $A\n")
    assert (plain.profile.launch.env, said(plain)) == ({"B": "2"}, [])


def test_defaults_set_by_a_colon() -> None:
    found = import_text(': "${MODEL:=org/m}"\n: ${PORT:=8001} ${PORT:=9}\nvllm serve $MODEL --port "$PORT"\n')
    assert (found.profile.launch.args, found.profile.launch.port) == ({"model": "org/m"}, 8001)


HERE = "export A=1\nvllm serve m --seed $S --port 8002 > x.log\n"


@pytest.mark.parametrize(
    ("text", "ssh", "container"),
    [
        (f"S=7\ncat > start.sh <<END\n{HERE}END\nbash start.sh\n", "", ""),
        (f"S=7\nsudo tee start.sh >/dev/null <<-END\n\t{HERE}\tEND\n", "", ""),
        (f"S=7\nssh ada@gpu 'bash -s' <<END\n{HERE}END\n", "ada@gpu", ""),
        (f"S=7\nssh gpu <<END\n{HERE}END\n", "gpu", ""),
        (f"S=7\ndocker exec -i box bash <<END\n{HERE}END\n", "", "box"),
    ],
)
def test_here_documents_that_launch(text: str, ssh: str, container: str) -> None:
    found = import_text(text)
    assert (found.profile.host.ssh, found.profile.host.container) == (ssh, container)
    assert found.profile.launch.args == {"model": "m", "seed": 7}
    assert found.profile.launch.port == 8002
    assert (found.profile.launch.env, found.log) == ({"A": "1"}, "x.log")


def test_a_quoted_end_fills_nothing_in() -> None:
    found = import_text(f"S=7\ncat > start.sh <<'END'\n{HERE}END\n")
    assert found.profile.launch.args == {"model": "m", "seed": "${S}"}


def test_a_command_kept_in_a_variable() -> None:
    text = 'CMD="vllm serve m"\nCMD="$CMD --hf-overrides \'{\\"a\\": 1}\'"\neval "$CMD"\n'
    assert import_text(text).profile.launch.args == {"model": "m", "hf-overrides": '{"a": 1}'}
    text = "S=7\ncmd=$(cat <<-END\nvllm serve m \\\n  --seed ${S}\nEND\n)\neval $cmd\n"
    assert import_text(text).profile.launch.args == {"model": "m", "seed": 7}


def test_logs_of_inner_commands_are_told() -> None:
    assert import_text("tmux new -d 'vllm serve m 2>&1 | tee v.log'").log == "v.log"
    assert import_text("bash -c 'vllm serve m' > outer.log").log == "outer.log"


@pytest.mark.parametrize(
    "text",
    [
        'vllm serve m --speculative-config “{"method":"mtp"}” –tensor-parallel-size 2',
        "vllm serve m --speculative-config '{“method”:“mtp”}' -tp 2",
        "vllm serve m --speculative-config ‘{“method”:“mtp”}’ —tensor-parallel-size 2",
    ],
)
def test_typographic_quotes_around_json(text: str) -> None:
    args = import_text(text).profile.launch.args
    assert args == {"model": "m", "speculative-config": '{"method":"mtp"}', "tensor-parallel-size": 2}


def test_several_json_values_of_one_flag() -> None:
    found = import_text(
        """vllm serve m --lora-modules '{"name": "a", "path": "/a"}' '{"name": "b"}' c=/c --max-loras 3"""
    )
    assert found.profile.launch.args["lora-modules"] == ('{"name": "a", "path": "/a"}', '{"name": "b"}', "c=/c")
    assert found.wrong == ()


@pytest.mark.parametrize("sign", ["^", "`"])
def test_continuations_of_other_shells(sign: str) -> None:
    found = import_text(f"vllm serve m {sign}\r\n  --port 8001 {sign}\r\n  --seed 3\r\n")
    assert (found.profile.launch.args, found.profile.launch.port) == ({"model": "m", "seed": 3}, 8001)
    assert len(said(found)) == 2


def test_an_interpreter_of_an_inner_shell() -> None:
    found = import_text(
        "screen -dmS v bash -c 'cd /w; source .venv/bin/activate; python -m sglang.launch_server --model m'"
    )
    assert (found.profile.engine.python, found.profile.launch.workdir) == ("/w/.venv/bin/python", "/w")
    assert import_text("bash -lc '. /e/bin/activate; vllm serve m'").profile.engine.command == ("/e/bin/vllm", "serve")


def test_a_variable_made_longer_keeps_what_the_host_has() -> None:
    found = import_text('export PATH=/opt/bin:$PATH HF_TOKEN=$HF_TOKEN X=$Y "Z=1 2"\nvllm serve m\n')
    assert found.profile.launch.env == {
        "PATH": "/opt/bin:${PATH}", "HF_TOKEN": Secret("env"), "X": "${Y}", "Z": "1 2",
    }  # fmt: skip
    assert [note.key for note in found.notes if note.severity == "warning"] == ["X"]


def test_the_old_server_of_vllm_gets_its_model_by_name() -> None:
    """It takes a model in front, says nothing, and serves its default model."""
    for text, words in (
        ("python -m vllm.entrypoints.openai.api_server --port 9 --model m", ["--model", "m"]),
        ("vllm serve --model m --port 9", ["m"]),
    ):
        profile = import_text(text).profile
        start = len(profile.engine.command) or 4
        assert list(engine("vllm").command(profile))[start:] == [*words, "--port", "9"]


def test_a_model_without_its_flag_is_read_as_one() -> None:
    found = import_text("sglang serve /m/x --tp 4")
    assert found.profile.launch.args == {"model-path": "/m/x", "tp": 4}
    assert said(found) == ["line 1: /m/x stands without a flag: read as --model-path"]


def test_parts_of_json_values() -> None:
    text = (
        "vllm serve m -O.mode=3 -cc.cudagraph_capture_sizes+ 1,2 -cc.cudagraph_capture_sizes+=4 --a.size 4k --a.top 80G"
    )
    found = import_text(text)
    assert found.profile.launch.args == {
        "model": "m",
        "compilation-config": {"mode": 3, "cudagraph_capture_sizes": [1, 2, 4]},
        "a": {"size": 4000, "top": 80 * 1024**3},
    }
    assert "-O with more than a level is gone" in said(found)[0]


def test_a_line_between_two_commands_is_no_lost_flag() -> None:
    found = import_text("vllm serve a\n---\nvllm serve b\n")
    assert [note.text for note in found.notes if "lost" in note.text] == []


UNIT = """\
[Unit]
Description=LLM
[Service]
User=ada
Environment=CUDA_VISIBLE_DEVICES=0,1 NCCL_DEBUG=WARN
Environment="HF_HOME=/data/h f"
WorkingDirectory=/opt/v
ExecStart=/opt/v/.venv/bin/vllm serve m --port 8001 \\
  --tensor-parallel-size 2
Restart=always
"""
IMAGE = """\
FROM vllm/vllm-openai:latest
ENV NCCL_DEBUG=INFO
WORKDIR /w
ENTRYPOINT ["python3", "-m", "sglang.launch_server"]
CMD ["--model-path", "/m x", \\
     "--tp", "2"]
"""


def test_a_unit_of_systemd() -> None:
    found = import_text(UNIT)
    launch = found.profile.launch
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": "WARN", "HF_HOME": "/data/h f"}
    assert (launch.args, launch.port, launch.workdir) == ({"model": "m", "tensor-parallel-size": 2}, 8001, "/opt/v")
    assert said(found) == []
    written = import_text(f"sudo tee /etc/systemd/system/v.service <<'EOF'\n{UNIT}EOF\n")
    assert written.profile.launch.args == launch.args


def test_the_last_lines_of_an_image() -> None:
    found = import_text(IMAGE)
    launch = found.profile.launch
    assert (launch.args, launch.env, launch.workdir) == ({"model-path": "/m x", "tp": 2}, {"NCCL_DEBUG": "INFO"}, "/w")


def test_a_program_of_supervisord_whose_settings_come_behind_its_command() -> None:
    text = '[program:v]\ncommand=/e/bin/vllm serve m --port 8001\nenvironment=A="0,1",B="x y"\ndirectory=/opt\nautostart=true\n'
    launch = import_text(f'{text}[program:w]\ncommand=sleep 1\nenvironment=A="2"\n').profile.launch
    assert (launch.args, launch.env, launch.workdir) == ({"model": "m"}, {"A": "0,1", "B": "x y"}, "/opt")


def test_a_script_that_writes_a_unit_keeps_its_variables() -> None:
    found = import_text(
        "M=/m\nsudo tee /etc/systemd/system/v.service <<EOF\n[Service]\nExecStart=/e/vllm serve $M\nEOF\n"
    )
    assert found.profile.launch.args == {"model": "/m"}


@pytest.mark.parametrize(
    "call",
    [
        'start() {\n  local m=$1 tp="$2"; shift 2\n  vllm serve $m -tp $tp "$@" &\n}\nstart org/m 4 --enforce-eager',
        "function start {\n  vllm serve $1 -tp ${2:-1} $3\n}\nexport A=1; start org/m 4 --enforce-eager\n",
        'start () {\n  vllm serve "$@"\n}\nstart org/m -tp 4 --enforce-eager\nstart org/m -tp 4 --enforce-eager',
    ],
)
def test_what_a_call_gives_to_a_function(call: str) -> None:
    found = import_text(call)
    assert found.profile.launch.args == {"model": "org/m", "tensor-parallel-size": 4, "enforce-eager": True}
    assert said(found) == []


def test_a_second_call_is_told() -> None:
    found = import_text("f() { vllm serve m --port $1; }\nf 8001\nf 8002\n")
    assert found.profile.launch.port == 8001
    assert said(found) == ["line 3: f is called more than once: what its first call gives was read"]


@pytest.mark.parametrize("line", ["set -gx A 0,1", "set -x A 0,1", "setenv A 0,1", 'setenv A "0,1"'])
def test_variables_of_fish_and_csh(line: str) -> None:
    found = import_text(f"{line}\nset -x\nset -euo pipefail\nvllm serve m\n")
    assert (found.profile.launch.env, found.profile.launch.args) == ({"A": "0,1"}, {"model": "m"})


@pytest.mark.parametrize(
    "text",
    [
        "> vllm serve m \\\n>   --port 8001\n",
        "$ vllm serve m \\\n> --port 8001\n",
        "1. vllm serve m --port 8001",
        "- vllm serve m --port 8001",
        "!vllm serve m --port 8001",
        "%%bash\nvllm serve m --port 8001",
        "`vllm serve m --port 8001`",
        "vllm serve m --port 8001 &gt; x.log 2&gt;&amp;1 &amp;",
        "root  12345  0.5  0.1 12345 6789 pts/0 Sl+ 10:00 0:10 vllm serve m --port 8001",
        "root  12345  1  0 10:00 ?  00:00:10 vllm serve m --port 8001",
        "case $M in\n  fast) X=1 ;;\n  (slow|*) X=2 ;;\nesac\nvllm serve m --port 8001\n",
    ],
)
def test_what_stands_around_a_command_where_it_was_copied(text: str) -> None:
    found = import_text(text)
    assert (found.profile.launch.args, found.profile.launch.port) == ({"model": "m"}, 8001)


def test_switches_with_a_value() -> None:
    found = import_text("vllm serve m --trust-remote-code true --enable-prefix-caching=False --enforce-eager=True")
    assert found.profile.launch.args == {
        "model": "m", "trust-remote-code": True, "no-enable-prefix-caching": True, "enforce-eager": True,
    }  # fmt: skip
    assert said(found)[1] == (
        "line 1: --enable-prefix-caching takes no value: False was read as --no-enable-prefix-caching"
    )
    plain = import_text("sglang serve --model-path m --enable-metrics false --disable-cuda-graph true")
    assert plain.profile.launch.args == {"model-path": "m", "disable-cuda-graph": True}


def test_what_docker_run_shares_is_the_hosts() -> None:
    found = import_text("docker run -v $HOME/m:/m -v ${D}:/d:ro img:$TAG vllm serve /m --chat-template '{{ a }}'")
    docker = found.profile.launch.docker
    assert (docker.options, docker.image) == (("-v", "~/m:/m", "-v", "${D}:/d:ro"), "img:${TAG}")
    assert [note.key for note in found.notes if note.severity == "warning"] == ["image", "-v"]
    assert found.wrong == ()


def test_json_in_an_unquoted_variable() -> None:
    text = 'C=\'{"method": "mtp", "n": 2}\'\nvllm serve -- m --speculative-config $C --port 1\n'
    [note] = import_text(text).wrong
    assert (
        note.text
        == "--speculative-config: the shell parts an unquoted variable at its blanks, the engine gets 4 arguments"
    )
    repaired = import_text(text, repair=True)
    assert repaired.profile.launch.args == {"model": "m", "speculative-config": '{"method": "mtp", "n": 2}'}
    assert (repaired.wrong, said(repaired)) == ((), [])


def test_an_empty_line_behind_a_backslash() -> None:
    assert said(import_text("vllm serve m \\\n\n  --seed 1\n")) == [
        "line 3: looks like a lost continuation: an empty line below line 1 ends the command; not included · meant: --seed 1"
    ]


def test_a_password_in_an_address_is_a_secret() -> None:
    found = import_text("http_proxy=http://ada:pw@proxy:3128 https_proxy=http://proxy:3128 vllm serve m")
    assert found.profile.launch.env == {"http_proxy": Secret("env"), "https_proxy": "http://proxy:3128"}

"""What stands around a launch: it is taken off, kept where a profile has a place for it, and told otherwise."""

from __future__ import annotations

import pytest

from console.config.commands.imported import Imported, import_text
from console.domain.profile import DockerSection, Secret

SERVE = "python3 -m sglang.launch_server --model-path m --tp 2"
ARGS = {"model-path": "m", "tp": 2}


def said(found: Imported) -> str:
    return "\n".join(note.sentence() for note in found.notes)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("""bash -c 'exec python3 -m sglang.launch_server --model-path m "$@"' launch --tp 2""", ARGS),
        ("""sh -c 'python3 -m sglang.launch_server --model-path "$1" --tp $2' _ m 2""", ARGS),
        ("""bash -c 'python3 -m sglang.launch_server --model-path $0 "${@:2}"' m x --tp 2""", ARGS),
        ("""bash -c 'python3 -m sglang.launch_server "${@:1:2}" --tp $#' x --model-path m""", ARGS),
        ("""A=(x --tp 2 y)\npython3 -m sglang.launch_server --model-path m "${A[@]:1:2}\"""", ARGS),
    ],
)
def test_words_behind_the_text_of_a_shell_are_its_arguments(text: str, args: dict[str, object]) -> None:
    assert import_text(text).profile.launch.args == args


@pytest.mark.parametrize(
    "before",
    [
        "nohup",
        "exec",
        "time",
        "setsid -w",
        "stdbuf -oL -eL",
        "env",
        "sudo -E",
        "sudo -u ada --",
        "nice -n 5",
        "timeout -k 5 1h",
        "taskset -c 0-31",
        "numactl --cpunodebind=0 --membind=0",
        "numactl -N 0 -m 0",
        "srun -N 1 --gres=gpu:8 -p gpu",
        "srun --jobid=1 nohup env -u X",
        "mpirun -np 1 --allow-run-as-root",
        "uv run --with flashinfer --python 3.12",
        "conda run -n sgl --no-capture-output",
        "poetry run",
        "nsys profile -o trace -t cuda,nvtx --force-overwrite true",
        "systemd-run --user --scope -p MemoryMax=1G",
        "/usr/bin/env",
    ],
)
def test_wrappers_are_taken_off(before: str) -> None:
    found = import_text(f"{before} {SERVE}")
    assert found.profile.launch.args == ARGS
    assert found.profile.engine.kind == "sglang"


@pytest.mark.parametrize(
    "text",
    [
        f"bash -lc '{SERVE}'",
        f'sh -c "cd /w; exec {SERVE}"',
        f"tmux new-session -d -s s '{SERVE} 2>&1 | tee x.log'",
        f"screen -dmS s bash -c '{SERVE}'",
        f"ssh -p 2222 ada@gpu '{SERVE}'",
        f"kubectl exec -it pod -- {SERVE}",
        f"apptainer exec --nv --bind /m:/m img.sif {SERVE}",
    ],
)
def test_commands_in_commands(text: str) -> None:
    assert import_text(text).profile.launch.args == ARGS


def test_ssh_becomes_the_host() -> None:
    found = import_text(f'ssh -p 2222 ada@gpu "cd /w && HF_TOKEN=$HF_TOKEN {SERVE}"')
    assert found.profile.host.ssh == "ada@gpu:2222"
    assert found.profile.launch.workdir == "/w"
    assert found.profile.launch.env == {"HF_TOKEN": Secret("env")}


def test_what_changes_the_run_and_has_no_place_is_a_warning() -> None:
    found = import_text(f"mpirun -np 1 {SERVE}")
    [note] = [note for note in found.notes if note.severity == "warning"]
    assert note.text == "mpirun -np 1 is not kept: it changes where or how the server runs"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (SERVE, ()),
        (f"numactl -N 0 -m 0 nice -n 5 {SERVE}",
         ("numactl", "-N", "0", "-m", "0", "nice", "-n", "5", "python3", "-m", "sglang.launch_server")),
        ("python3 -u -m sglang.launch_server --model-path m --tp 2", ("python3", "-u", "-m", "sglang.launch_server")),
        ("sglang serve --model-path m", ("sglang", "serve")),
        (". /e/bin/activate && sglang serve --model-path m", ("/e/bin/sglang", "serve")),
        ("/e/bin/vllm serve m", ("/e/bin/vllm", "serve")),
        ("python3 -m vllm.entrypoints.openai.api_server --model m",
         ("python3", "-m", "vllm.entrypoints.openai.api_server")),
        ("/opt/llama.cpp/llama-server -m x.gguf", ("/opt/llama.cpp/llama-server",)),
        ("/e/bin/python3 /e/bin/llama-server -m x.gguf", ("/e/bin/python3", "/e/bin/llama-server")),
        ("uv run --python 3.12 vllm serve m", ("uv", "run", "--python", "3.12", "vllm", "serve")),
    ],
)  # fmt: skip
def test_the_words_that_start_it_are_kept(text: str, command: tuple[str, ...]) -> None:
    assert import_text(text).profile.engine.command == command


def test_env_sets_unsets_and_later_values_win() -> None:
    found = import_text(f"A=1 B=2 env -u C A=3 D='x y' {SERVE}")
    assert found.profile.launch.env == {"A": "3", "B": "2", "D": "x y"}
    assert found.profile.launch.unset == ("C",)


def test_docker_run() -> None:
    text = """\
docker run -d --gpus all --ipc=host --shm-size 32g -p 8000:30000 -v /data:/models:ro \\
    -e NCCL_DEBUG=INFO --env HF_TOKEN=hf_0123456789abcdefghijklmn -e VLLM_CACHE --name sgl -w /srv \\
    lmsysorg/sglang:v0.5.9 python3 -m sglang.launch_server --model-path /models/m --host 0.0.0.0
"""
    found = import_text(text)
    profile = found.profile
    assert (profile.host.container, profile.launch.via, profile.launch.workdir) == ("", "docker-run", "/srv")
    options = ["--gpus", "all", "--ipc=host", "--shm-size", "32g", "-p", "8000:30000", "-v", "/data:/models:ro"]
    assert profile.launch.docker == DockerSection("lmsysorg/sglang:v0.5.9", tuple(options), "sgl")
    assert profile.launch.args == {"model-path": "/models/m", "host": "0.0.0.0"}
    assert profile.launch.env == {"NCCL_DEBUG": "INFO", "HF_TOKEN": Secret("env"), "VLLM_CACHE": Secret("host-env")}
    told = said(found)
    for expected in (
        'docker run of lmsysorg/sglang:v0.5.9 became via = "docker-run"',
        "-p 8000:30000: outside of the container the server is at port 8000",
        "HF_TOKEN is a secret: its value is not kept",
    ):
        assert expected in told
    assert "hf_0123" not in told


def test_docker_images_whose_entry_point_is_the_server() -> None:
    found = import_text("docker run --rm -it --runtime nvidia vllm/vllm-openai:v0.11.0 --model m -tp 4 --enforce-eager")
    assert found.profile.engine.kind == "vllm"
    assert found.profile.launch.args == {"model": "m", "tensor-parallel-size": 4, "enforce-eager": True}
    assert found.profile.launch.docker == DockerSection(
        "vllm/vllm-openai:v0.11.0", ("--runtime", "nvidia"), entrypoint="engine"
    )
    found = import_text(
        "podman run --entrypoint python3 vllm/vllm-openai -m vllm.entrypoints.openai.api_server --model m"
    )
    assert found.profile.launch.args == {"model": "m"}
    assert found.profile.launch.docker == DockerSection("vllm/vllm-openai", (), "", "replace", "podman")
    found = import_text("docker run ghcr.io/ggml-org/llama.cpp:server-cuda -m /m/x.gguf -ngl 99 -c 8192 --port 9000")
    assert (found.profile.engine.kind, found.profile.launch.port) == ("llamacpp", 9000)
    assert found.profile.launch.args == {"model": "/m/x.gguf", "n-gpu-layers": 99, "ctx-size": 8192}


def test_compose_names_a_service() -> None:
    for text in (f"docker compose -f x.yml exec -T sgl {SERVE}", f"docker-compose run --rm sgl {SERVE}"):
        found = import_text(text)
        assert (found.profile.host.container, found.profile.launch.args) == ("sgl", ARGS)
        assert "sgl is a service of compose" in said(found)


def test_arguments_as_a_json_array() -> None:
    found = import_text('["python3", "-m", "sglang.launch_server", "--model-path", "/m", "--x", "{\\"a\\": $B}"]')
    assert found.profile.launch.args == {"model-path": "/m", "x": '{"a": $B}'}


def test_docker_exec_is_a_container_of_the_profile() -> None:
    found = import_text(f"docker exec -it -e A=1 -w /srv box bash -lc 'B=2 {SERVE}'")
    assert (found.profile.host.container, found.profile.launch.workdir) == ("box", "/srv")
    assert found.profile.launch.env == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    ("command", "kind", "python", "args", "port"),
    [
        ("sglang serve --model-path m", "sglang", "", {"model-path": "m"}, 30000),
        ("/e/bin/python3.11 -u -m sglang.launch_server --model m", "sglang", "/e/bin/python3.11", {"model": "m"}, 30000),
        ("python -X dev -m sglang.launch_server --model m", "sglang", "python", {"model": "m"}, 30000),
        ("vllm serve org/m --port 9", "vllm", "", {"model": "org/m"}, 9),
        ("/e/bin/vllm serve --max-num-seqs 4 --enforce-eager m", "vllm", "/e/bin/python3",
         {"model": "m", "max-num-seqs": 4, "enforce-eager": True}, 8000),
        ("python -m vllm.entrypoints.openai.api_server --model=m", "vllm", "python", {"model": "m"}, 8000),
        ("python3 -m vllm.entrypoints.cli.main serve m --max_num_seqs 4", "vllm", "",
         {"model": "m", "max-num-seqs": 4}, 8000),
        ("vllm serve m -O3 -tp=2 -cc.mode 3", "vllm", "",
         {"model": "m", "optimization-level": 3, "tensor-parallel-size": 2, "compilation-config": {"mode": 3}}, 8000),
        ("./llama-server -m x.gguf -np 4 --temp -1 -fa on", "llamacpp", "",
         {"model": "x.gguf", "parallel": 4, "temp": -1, "flash-attn": "on"}, 8080),
        (". /e/bin/activate; python -m sglang.launch_server --model m", "sglang", "/e/bin/python", {"model": "m"}, 30000),
    ],
)  # fmt: skip
def test_ways_to_start_an_engine(command: str, kind: str, python: str, args: dict[str, object], port: int) -> None:
    profile = import_text(command).profile
    assert (profile.engine.kind, profile.engine.python) == (kind, python)
    assert profile.launch.args == args
    assert profile.launch.port == port


def test_secrets_are_never_kept() -> None:
    text = (
        "HF_TOKEN=hf_0123456789abcdefghijklmn OPENAI_API_KEY=$KEY "
        "python3 -m sglang.launch_server --model-path m --api-key s3cret --admin-api-key=$ADMIN --note sk-0123456789abcdefghij"
    )
    found = import_text(text)
    launch = found.profile.launch
    assert launch.env == {"HF_TOKEN": Secret("env"), "OPENAI_API_KEY": Secret("env", "KEY")}
    assert launch.args == {"model-path": "m"}
    assert launch.secret_args == {
        "api-key": Secret("env", "SGLANG_API_KEY"),
        "admin-api-key": Secret("env", "ADMIN"),
        "note": Secret("env", "SGLANG_NOTE"),
    }
    for secret in ("s3cret", "hf_0123", "sk-0123"):
        assert secret not in said(found)


def test_vllms_key_has_a_variable() -> None:
    launch = import_text("vllm serve m --api-key s3cret").profile.launch
    assert (launch.env, launch.secret_args) == ({"VLLM_API_KEY": Secret("env")}, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), ("0.9", 0.9), ("0.90", "0.90"), ("1e-5", "1e-5"), ("007", "007"), ("-1", -1), ("''", ""),
        ("True", "True"), ("1 2 4", (1, 2, 4)), ("99999999999999999999", "99999999999999999999"),
    ],
)  # fmt: skip
def test_values_are_written_back_as_they_stood(text: str, value: object) -> None:
    assert import_text(f"vllm serve m --some-flag {text}").profile.launch.args["some-flag"] == value

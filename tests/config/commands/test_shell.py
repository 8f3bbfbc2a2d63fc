"""Shell text is read as a shell reads it, and nothing of it runs."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from console.config.commands.imported import import_text
from console.config.commands.lexer import Lexer
from console.config.commands.script import read_script
from console.errors import UsageError

BEFORE = "A='xyz yz'\nB=(one 'two three')\nE=\nN=4\n"
PIECES = st.sampled_from(
    [
        "a", "b c", "'x y'", '"p q"', "\\\n", '"$A"', "${A}", "${U:-d}", "${A:-d}", '"${U:-d e}"', "${A%z}", "${A#x}",
        '"${B[@]}"', '"${B[0]}"', "${B[1]}", "=", "-", "--x", "\\$", "\\\\", '"\\$A"', "$'a\\tb'", " ", "#", " #c\n",
        '"{\\"a\\":1}"', "'{\"a\": 1}'", ",", ":", "${A/y/Q}", "${A//y/Q}", "$((2*3))", "$((N+1))", '""', "''", "${E}",
        "~", "!", "%",
    ]
)  # fmt: skip


def words(text: str) -> list[str]:
    [command] = [each for each in read_script(text).commands if each.words[0].text == "cmd"]
    return [word.text for word in command.words[1:]]


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=7).map("".join))
@example("--cuda-graph-bs {1,2,4} x{1..3}")
def test_arguments_are_those_of_bash(body: str) -> None:
    shell = f"set -f\n{BEFORE}cmd() {{ printf '%s\\0' \"$@\"; }}\ncmd x {body}\n"
    env = {"HOME": "~", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, env=env)
    if done.stderr:
        return  # no program for bash either
    assert words(f"{BEFORE}cmd x {body}\n") == done.stdout.split("\0")[:-1]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=20), max_size=6))
def test_quoted_arguments_arrive_unchanged(given_words: list[str]) -> None:
    assert words(shlex.join(["cmd", *given_words])) == given_words


@given(st.text(st.sampled_from("ab '\"\\$`(){}[]<>|&;#=\n-*!~%:,@?"), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    Lexer(text).tokens()
    try:
        import_text(f"{text}\nvllm serve m {text}")
    except UsageError:
        return


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"touch {mark}\nX=$(touch {mark}) `touch {mark}`\nvllm serve m --x $(touch {mark}) --y `touch {mark}`\n"
    found = import_text(text)
    assert not mark.exists()
    assert found.profile.launch.args["x"] == f"$(touch {mark})"


def test_what_the_text_does_not_define_is_named_with_its_line() -> None:
    found = import_text("vllm serve $MODEL \\\n  --x $(nproc) \\\n  --tp ${TP:-4} --y '$Z'\n")
    said = [note.sentence() for note in found.notes if note.severity == "warning"]
    assert said == [
        "line 1: ${MODEL} is not defined in this text: kept as it stands; --set MODEL=… fills it in",
        "line 2: $(nproc) is not run and not known: kept as it stands, write its result",
    ]
    assert found.profile.launch.args == {"model": "${MODEL}", "x": "$(nproc)", "tp": 4, "y": "$Z"}
    filled = import_text("vllm serve $MODEL", known={"MODEL": "/m/x"})
    assert filled.profile.launch.args == {"model": "/m/x"}


def test_the_home_folder_is_the_hosts() -> None:
    found = import_text('A=$HOME/a vllm serve "$HOME/models/x" --download-dir=~/d --x ~/y --z "a:$HOME/b"')
    launch = found.profile.launch
    assert launch.env == {"A": "~/a"}
    assert launch.args == {"model": "~/models/x", "download-dir": "~/d", "x": "~/y", "z": "a:${HOME}/b"}
    assert [note.key for note in found.notes if note.severity == "warning"] == ["z"]


def test_variables_arrays_and_functions_of_a_script() -> None:
    text = """\
#!/usr/bin/env bash
set -euo pipefail
MODEL=${1:-/models/a}
ARGS=(--tp-size 8)
ARGS+=(--page-size "$((16 * 4))")
if [[ -n "$DEBUG" ]]; then
  export NCCL_DEBUG=INFO
fi
launch() {
  exec python3 -m sglang.launch_server --model-path "${MODEL%/}" "${ARGS[@]}" "$@"
}
launch
"""
    found = import_text(text)
    assert found.profile.launch.args == {"model-path": "/models/a", "tp-size": 8, "page-size": 64}
    assert found.profile.launch.env == {"NCCL_DEBUG": "INFO"}
    assert (found.first_line, found.profile.launch.port) == (7, 30000)
    said = "NCCL_DEBUG is set where a condition decides: its value at line 7 was taken"
    assert [note.text for note in found.notes if note.severity == "warning"] == [said]


@pytest.mark.parametrize("quotes", ["“”", "‘’", "„“"])
def test_typographic_quotes_and_dashes(quotes: str) -> None:
    found = import_text(f"vllm serve m —served-model-name {quotes[0]}my model{quotes[1]} –-tp\u00a08\u200b")
    assert found.profile.launch.args == {"model": "m", "served-model-name": "my model", "tp": 8}
    assert any("typographic quotes" in note.text for note in found.notes)


def test_prompts_fences_and_foreign_line_ends() -> None:
    text = "```bash\r\n(venv) ada@gpu:~$ vllm serve m \\\r\n    --max-model-len 4096\r\n```\r\n"
    assert import_text(text).profile.launch.args == {"model": "m", "max-model-len": 4096}


def test_a_blank_behind_a_backslash_and_a_comment_inside() -> None:
    found = import_text("vllm serve m \\ \n  --a 1 \\\n  # --b 2 \\\n  --c 3 \\\n  --d 4 > x.log\n")
    assert found.profile.launch.args == {"model": "m", "a": 1, "c": 3, "d": 4}
    assert found.log == "x.log"
    said = [note.sentence() for note in found.notes if note.severity == "warning"]
    assert said[0].startswith("line 1: a blank behind the backslash")
    assert said[1].startswith("line 3: a comment inside the command: a shell would end it there")


def test_several_launches_are_told_and_one_is_picked() -> None:
    text = "vllm serve a --port 8001 &\nvllm serve b --port 8002 &\n"
    found = import_text(text)
    assert (found.launches, found.profile.launch.args["model"]) == ((1, 2), "a")
    assert any("2 launches, at lines 1, 2" in note.text for note in found.notes)
    assert import_text(text, pick=2).profile.launch.port == 8002
    with pytest.raises(UsageError, match="there are 2 launches, not 3"):
        import_text(text, pick=3)


def test_a_text_without_a_launch() -> None:
    with pytest.raises(UsageError, match=r"^a.sh: nothing in it starts an engine"):
        import_text("echo hello\npython train.py\nvllm bench serve --model m\n", place="a.sh")

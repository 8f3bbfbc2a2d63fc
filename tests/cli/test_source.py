"""Reading code in a shell: exact bytes in a pipe, safe text on a terminal, documents with --json."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheels import commit_all

CODE = """\
class Runner:
    def first(self) -> int:
        return 1

    @property
    def second(self) -> int:
        return 2


def third() -> None: ...
"""


def tokwatt(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a shell would."""
    command = [sys.executable, "-m", "console", "--host", "local", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, capture_output=True, cwd=cwd, env=env)


def documents(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, object]]:
    """What --json printed."""
    parsed = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(document["schema"] == 1 for document in parsed)
    return parsed


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An engine package in a checkout."""
    folder = tmp_path / "sglang"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "runner.py").write_text(CODE)
    (folder / "mixed.txt").write_bytes(b"a\r\nb\n\xff\x00c")
    commit_all(tmp_path)
    return folder


def test_a_whole_file_in_a_pipe_is_the_file(package: Path) -> None:
    done = tokwatt("cat", package / "mixed.txt")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a\r\nb\n\xff\x00c", b"")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("runner.py:3", "        return 1\n"),
        ("runner.py:2-3", "    def first(self) -> int:\n        return 1\n"),
        ("runner.py:9-", "\ndef third() -> None: ...\n"),
        ("runner.py:Runner.second", "    @property\n    def second(self) -> int:\n        return 2\n"),
        ("runner.py:third", "def third() -> None: ...\n"),
    ],
)
def test_lines_and_symbols_relative_to_the_package(package: Path, place: str, text: str) -> None:
    done = tokwatt("cat", "--package", package, place)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, text, b"")


def test_the_whole_def_around_a_line(package: Path) -> None:
    done = tokwatt("cat", "--def", f"{package}/runner.py:7")
    assert done.stdout.decode() == "    @property\n    def second(self) -> int:\n        return 2\n"


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["cat", "/nowhere.py"], 1, "/nowhere.py"),
        (["cat", "{package}"], 1, "folder"),
        (["cat", "{package}/runner.py:99"], 1, "no line 99"),
        (["cat", "{package}/runner.py:Runner.secnd"], 1, "Runner.second"),
        (["cat", "--def", "{package}/runner.py"], 2, "--def"),
        (["cat", "--def", "{package}/runner.py:8"], 1, "no def"),
        (["cat"], 2, "cat"),
        (["grep", "[a-z", "{package}"], 2, "pattern"),
        (["grep", "-FE", "x", "{package}"], 2, "not allowed"),
        (["grep", "-C-1", "x", "{package}"], 2, "negative"),
        (["grep", "no such text", "{package}"], 1, ""),
        (["ls", "/nowhere"], 1, "/nowhere"),
        (["which", "--package", "/nowhere"], 1, "/nowhere"),
    ],
)
def test_faults_are_one_line_with_the_right_exit_code(
    package: Path, arguments: list[str], code: int, word: str
) -> None:
    done = tokwatt(*[argument.format(package=package) for argument in arguments])
    assert (done.returncode, done.stdout) == (code, b"")
    said = done.stderr.decode().splitlines()
    assert len(said) == (1 if word else 0)
    assert not word or word in said[0]


def test_a_document_tells_all_that_one_open_knows(package: Path) -> None:
    (package / "runner.py").write_text(CODE + "x = 1\n")
    found = documents(tokwatt("cat", "--json", f"{package}/runner.py:2-3"))[0]
    assert found["sha256"] == hashlib.sha256((package / "runner.py").read_bytes()).hexdigest()
    assert found["lines"] == ["    def first(self) -> int:", "        return 1"]
    assert (found["git"], found["first_line"], found["total_lines"], found["complete"]) == ("M", 2, 11, False)


def test_grep_prints_what_grep_prints(package: Path) -> None:
    for flags in ([], ["-C2"], ["-i"], ["-w"]):
        theirs = subprocess.run(["grep", "-rnI", *flags, "second", package], capture_output=True).stdout
        assert tokwatt("grep", *flags, "second", package).stdout == theirs


def test_grep_json_is_one_object_a_line_and_nothing_else(package: Path) -> None:
    done = tokwatt("grep", "--json", "-C1", "return 2", package)
    assert documents(done) == [
        {
            "schema": 1,
            "file": str(package / "runner.py"),
            "line": 7,
            "text": "        return 2",
            "before": ["    def second(self) -> int:"],
            "after": [""],
        }
    ]
    assert tokwatt("grep", "--json", "no such text", package).returncode == 1


def test_outline_ls_diff_and_which(package: Path) -> None:
    assert tokwatt("outline", package / "runner.py").stdout.decode().splitlines() == [
        "1-7\tclass Runner",
        "2-3\t  def first",
        "5-7\t  def second",
        "10-10\tdef third",
    ]
    symbols = documents(tokwatt("outline", "--json", package / "runner.py"))[0]["symbols"]
    assert isinstance(symbols, list) and symbols[2]["qualified"] == "Runner.second"
    listed = tokwatt("ls", package).stdout.decode().splitlines()
    assert [line.split()[-1] for line in listed] == ["__init__.py", "mixed.txt", "runner.py"]
    assert tokwatt("diff", package).stdout == b""
    (package / "runner.py").write_text(CODE.replace("return 1", "return 11"))
    patch = tokwatt("diff", package).stdout
    assert b"+        return 11\n" in patch
    subprocess.run(["git", "apply", "-R", "-"], input=patch, cwd=package.parent, check=True)
    assert (package / "runner.py").read_text() == CODE
    found = documents(tokwatt("which", "--json", "--package", package))[0]
    assert (found["folder"], found["origin"], found["version"]) == (str(package), "folder", None)
    git = found["git"]
    assert isinstance(git, dict) and git["top"] == str(package.parent) and git["dirty"] == []


def test_relative_names_without_a_package_are_below_this_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("here\n")
    assert tokwatt("cat", "notes.txt", cwd=tmp_path).stdout == b"here\n"
    assert tokwatt("grep", "here", cwd=tmp_path).stdout == f"{tmp_path}/notes.txt:1:here\n".encode()


def test_nothing_that_acts_reaches_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "evil.log").write_bytes(b"\x1b]52;c;aGk=\x07\x1b[31m needle \xe2\x80\xae\n[/bold]\n")
    for arguments in (
        ["cat", f"{tmp_path}/evil.log"],
        ["cat", f"{tmp_path}/evil.log:1"],
        ["grep", "needle", f"{tmp_path}"],
    ):
        printed = _on_a_terminal(*arguments)
        assert b"needle" in printed
        assert b"\x1b" not in printed and b"\x07" not in printed and b"\xe2\x80\xae" not in printed


def _on_a_terminal(*arguments: str) -> bytes:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "console", "--host", "local", *arguments]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    printed = os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0, done.stderr
    return printed

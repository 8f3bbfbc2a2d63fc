"""Where the output goes, whatever the shell did with it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli.output import Output

DATA = Path(__file__).parent.parent / "data"


def shell(text: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `text` with `$@` as `tokwatt` and its arguments."""
    argv = ["bash", "-c", text, "sh", sys.executable, "-m", "console", *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "args", [("profile", "list"), ("--json", "profile", "list"), ("gpus", DATA / "gpus" / "B01.csv")]
)
def test_a_full_disk_behind_standard_output_is_told_in_one_line(args: tuple[str | Path, ...]) -> None:
    done = shell('"$@" > /dev/full', *args)
    said = "tokwatt: standard output cannot be written · No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize("args", [("profile", "list"), ("--json", "profile", "list")])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_closed_streams_do_no_harm(args: tuple[str, ...], closed: str) -> None:
    done = shell(f'"$@" {closed}', *args)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("search", [("grep", "x"), ("--json", "grep", "x")])
def test_a_reader_that_leaves_a_search_ends_it_without_a_word(tmp_path: Path, search: tuple[str, ...]) -> None:
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text("x of some length that fills the pipe\n" * 2000)
    done = shell('"$@" | head -1; exit ${PIPESTATUS[0]}', "--host", "local", *search, tmp_path)
    assert (done.returncode, done.stderr) == (141, "")
    assert len(done.stdout.splitlines()) == 1


def test_why_there_are_no_gpu_readings_is_no_data() -> None:
    done = shell('"$@"', "gpus", DATA / "gpus" / "B06.txt")
    assert done.returncode == 1 and done.stdout == ""
    assert all(": no GPU readings: " in line for line in done.stderr.splitlines()) and done.stderr


def test_json_on_a_terminal_carries_no_control_and_no_bidi_override() -> None:
    told = "\x1b]52;c;aGk=\x07 \x9b31m \u202e \udcff ä"
    stdout = io.StringIO()
    out = Output(json=True, stdout=stdout)
    out.record({"text": told})
    assert stdout.getvalue().removesuffix("\n").isprintable()
    assert json.loads(stdout.getvalue())["text"] == told


def test_a_file_without_results_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("nothing of ours\n")
    done = shell('"$@"', "bench", "import", tmp_path / "x.jsonl")
    assert done.returncode == 1 and done.stderr.endswith("x.jsonl: no results in it\n")


def test_a_name_that_is_not_utf8_leaves_a_pipe_as_its_bytes(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).touch()
    done = subprocess.run(
        [sys.executable, "-m", "console", "--host", "local", "ls", str(tmp_path)], capture_output=True, check=True
    )
    assert b"caf\xe9" in done.stdout

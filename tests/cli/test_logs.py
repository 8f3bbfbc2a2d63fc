"""`logs FILE`, as a shell sees it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "engines"


def run(*argv: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "console", "logs", *map(str, argv)], input=given, capture_output=True, timeout=60
    )


def objects(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_object_a_record_and_the_failure_last(tmp_path: Path) -> None:
    path = tmp_path / "sent.log.gz"
    path.write_bytes(gzip.compress((DATA / "G04.log").read_bytes()))
    done = run(path, "--json")
    found = objects(done)
    assert done.returncode == 0 and len(found) == 8
    assert all(record["schema"] == 1 for record in found)
    assert found[1]["source"] == {"ranks": {"TP": 6}} and found[1]["kind"] == "failure"
    assert found[0]["time"] is None and found[0]["clock"] == "2025-03-09 01:02:15"
    assert "stalled since 2025-03-09 00:57:15" in found[-1]["cause"]
    assert found[-1]["lines"] == ["Watchdog timeout (self.watchdog_timeout=300)"]


def test_filters_and_standard_input() -> None:
    given = (DATA / "A01.log").read_bytes() + (DATA / "G04.log").read_bytes()
    assert {record["kind"] for record in objects(run("-", "--json", "--kind", "decode,prefill", given=given))} == {
        "decode",
        "prefill",
    }
    assert [record["source"]["ranks"] for record in objects(run("-", "--json", "--rank", "TP3", given=given))] == [
        {"TP": 3}
    ]
    text = run("-", "--grep", "sigquit", given=given).stdout
    assert text.startswith(b"[2025-03-09 01:02:20] Received sigquit") and text.count(b"\n") == 1


def test_what_is_wrong_is_usage_with_the_word_that_is_wrong(tmp_path: Path) -> None:
    for argv, told in (
        (["/nope"], "/nope: cannot be read"),
        (["nope.log"], "nope.log: cannot be read"),
        (["nope"], "nope: no file of that name here, and no host was named that could have a run of that name"),
        ([tmp_path], "Is a directory"),
        ([DATA / "G04.log", "--grep", "[a-z"], "[a-z: not a regular expression"),
        ([DATA / "G04.log", "--kind", "decoded"], "'decoded' is not a valid LogKind"),
        ([DATA / "G04.log", "--follow"], "--follow needs a run"),
    ):
        done = run(*argv)
        assert (done.returncode, done.stdout) == (2, b"")
        assert told in done.stderr.decode()

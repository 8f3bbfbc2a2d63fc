"""The journal: whole entries only, whatever happens to the console; found again with all they had."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from console.domain.measurement import Measurement, Percentiles
from console.domain.patch import WriteReceipt
from console.errors import ConsoleError
from console.journal.book import MIGRATIONS, Journal, default_path
from console.journal.records import RunEntry
from console.journal.remarks import remark
from console.journal.requests import packed, requests_of

ROOT = Path(__file__).parent.parent.parent
NONE = Percentiles(0)
ONE = Measurement(
    "2026-12-02-1", 256, 0, 1000.0, 12.5, 1024, 1024, 0, 1 << 20, 262144, 1950.5, 7.6,
    Percentiles(1024, 100.0, 90.0, 150.0, 300.0), NONE, NONE, NONE, tainted=("a", "b"), protocol={"flushed": True},
)  # fmt: skip
RUN = RunEntry("2026-12-02-1", "demo", "glm5", "sglang", 900.0, "DEMO", {"hashes": {"/x": "ab"}, "patches_on": ["p"]})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "deep" / "journal.sqlite")


async def test_a_run_comes_back_with_its_measurements(journal: Journal) -> None:
    await journal.record_run(RUN)
    number = await journal.record_measurement("demo", ONE, badge="DEMO", telemetry=[[1000.1, [250.0, None]]])
    await journal.record_measurement("demo", replace(ONE, concurrency_limit=512, tainted=()))
    await journal.record_measurement("other", replace(ONE, run_id="another"))
    (entry,) = await journal.runs()
    assert entry == replace(RUN, measurements=(ONE, replace(ONE, concurrency_limit=512, tainted=())))
    assert entry.best_tok_s == 1950.5
    assert await journal.telemetry(number) == [[1000.1, [250.0, None]]]
    assert await journal.telemetry(number + 1) == []


async def test_runs_are_named_by_id_and_host(journal: Journal) -> None:
    await journal.record_run(RUN)
    await journal.record_run(replace(RUN, host="other", started_at=950.0))
    newest, named, none = await asyncio.gather(
        journal.run(RUN.id), journal.run(f"demo:{RUN.id}"), journal.run("2020-01-01-1")
    )
    assert newest is not None and newest.host == "other" and named is not None and named.host == "demo" and none is None
    assert [entry.host for entry in await journal.runs(host="demo")] == ["demo"]
    assert [entry.host for entry in await journal.runs()] == ["other", "demo"]


async def test_a_run_that_is_kept_again_is_one_run(journal: Journal) -> None:
    await journal.record_run(RUN)
    await journal.record_run(replace(RUN, identity={"more": 1}))
    assert [entry.identity for entry in await journal.runs()] == [{"more": 1}]


async def test_writes(journal: Journal) -> None:
    receipt = WriteReceipt("p", "apply", (("f.py", "aa", "bb", 1, 1),), "python3", 3, 12.5, ("note",))
    await journal.record_write("demo", receipt, operator="ada@laptop as root", badge="DEMO")
    (entry,) = await journal.writes()
    assert (entry.host, entry.operator, entry.badge) == ("demo", "ada@laptop as root", "DEMO")
    assert entry.receipt["files"] == [["f.py", "aa", "bb", 1, 1]] and entry.receipt["verb"] == "apply"


async def test_many_at_once_lose_nothing(journal: Journal) -> None:
    await journal.record_run(RUN)
    await asyncio.gather(*(journal.record_measurement("demo", replace(ONE, repeat=n)) for n in range(24)))
    (entry,) = await journal.runs()
    assert sorted(one.repeat for one in entry.measurements) == list(range(24))


async def test_the_file_of_a_newer_version_is_left_alone(journal: Journal) -> None:
    await journal.record_run(RUN)
    with sqlite3.connect(journal.path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(ConsoleError, match="cannot be used") as caught:
        await journal.runs()
    assert "newer tokwatt" in caught.value.detail and str(journal.path) in caught.value.title


async def test_a_file_that_is_no_journal(journal: Journal) -> None:
    journal.path.parent.mkdir()
    journal.path.write_bytes(b"not a database, but long enough to be looked at" * 40)
    with pytest.raises(ConsoleError, match="cannot be used"):
        await journal.record_run(RUN)


def test_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    assert default_path() == tmp_path / "journal.sqlite"
    monkeypatch.delenv("TOKWATT_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert default_path() == tmp_path / "share" / "tokwatt" / "journal.sqlite"


WRITER = """
import asyncio, sys
from pathlib import Path
from dataclasses import replace
from console.journal.book import Journal
from tests.journal.test_book import ONE, RUN

async def main():
    journal = Journal(Path(sys.argv[1]))
    await journal.record_run(RUN)
    for number in range(100000):
        await journal.record_measurement("demo", replace(ONE, repeat=number), telemetry=[[0.0, [1.0] * 8]] * 500)
        print(number, flush=True)

asyncio.run(main())
"""


async def test_a_journal_cut_by_kill_loads_all_its_whole_entries(journal: Journal) -> None:
    for _ in range(3):
        journal.path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(journal.path)], stdout=subprocess.PIPE, cwd=ROOT)
        assert writer.stdout is not None
        told = -1
        while told < 20:
            told = int(writer.stdout.readline())
        time.sleep(0.003 * (os.getpid() % 3))
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        told = int(rest[-1]) if rest else told
        (entry,) = await journal.runs()
        repeats = [one.repeat for one in entry.measurements]
        assert repeats == list(range(len(repeats))) and len(repeats) >= told + 1
        for place in range(1, len(repeats) + 1):
            assert len(await journal.telemetry(place)) == 500


async def test_a_new_journal_that_another_console_is_making_is_waited_for(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says at once that it is locked when its mode is to change, whatever the time-out."""
    journal.path.parent.mkdir(parents=True)
    other = sqlite3.connect(journal.path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waited: list[float] = []

    def let_go(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            other.execute("COMMIT")

    monkeypatch.setattr("console.journal.book.time.sleep", let_go)
    await journal.record_run(RUN)
    assert len(waited) >= 3 and [entry.id for entry in await journal.runs()] == [RUN.id]
    other.close()


async def test_requests_and_their_course_are_kept_beside_the_measurement(journal: Journal) -> None:
    load = {"columns": ["sent_s"], "rows": [[0.5], [0.75]], "course": {"bin_s": 0.25}, "errors": {"x": 1}, "itl": {}}
    await journal.record_run(RUN)
    await journal.record_measurement("demo", ONE)
    await journal.record_measurement("demo", replace(ONE, repeat=1), load=load)
    (kept,) = await requests_of(journal, "demo", RUN.id)
    assert kept == {
        "concurrency": ONE.concurrency_limit, "repeat": 1, "columns": ["sent_s"], "rows": [[0.5], [0.75]],
        "course": {"bin_s": 0.25}, "errors": {"x": 1},
    }  # fmt: skip
    rows = [[0.001 * n, 0.1, 1.0, 256, 0.004, 1024, 0] for n in range(4096)]
    assert len(packed({"rows": rows})) < 20 * len(rows)


async def test_tags_and_a_note_stay_when_the_run_is_kept_again(journal: Journal) -> None:
    await journal.record_run(RUN)
    await remark(journal, "demo", RUN.id, tags=["base", "quiet"], note="after the reboot")
    await remark(journal, "demo", RUN.id, tags=["won"], untag=["quiet"])
    await journal.record_run(replace(RUN, identity={"more": 1}))
    (entry,) = await journal.runs()
    assert (entry.tags, entry.note) == (("base", "won"), "after the reboot")


async def test_a_journal_of_every_older_version_is_brought_up_to_date(journal: Journal) -> None:
    for version in range(1, len(MIGRATIONS)):
        path = journal.path.with_name(f"v{version}.sqlite")
        path.parent.mkdir(exist_ok=True)
        with sqlite3.connect(path) as db:
            for step in MIGRATIONS[:version]:
                db.executescript(step)
            db.execute("INSERT INTO runs VALUES ('demo', 'r-1', 'p', 'sglang', 1.0, '', '{}')")
            db.execute(f"PRAGMA user_version = {version}")
        db.close()
        old = Journal(path)
        (entry,) = await old.runs()
        assert (entry.id, entry.tags) == ("r-1", ())
        await old.record_measurement("demo", replace(ONE, run_id="r-1"), load={"rows": []})
        assert len(await requests_of(old, "demo", "r-1")) == 1


async def test_what_is_read_is_of_one_moment(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "tokwatt.sqlite")
    await journal.record_run(RUN)

    def twice(db: sqlite3.Connection) -> list[int]:
        count = "SELECT count(*) FROM runs"
        before = db.execute(count).fetchone()[0]
        asyncio.run(Journal(journal.path).record_run(replace(RUN, id="another")))
        return [before, db.execute(count).fetchone()[0]]

    assert await journal.read(twice) == [1, 1]
    assert len(await journal.runs()) == 2

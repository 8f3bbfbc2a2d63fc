"""Recordings in the journal: written once by however many consoles, whole after a kill, thinner the longer they are past."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from console.errors import ConsoleError
from console.journal.book import MIGRATIONS, Journal
from console.journal.packing import MAX, Block
from console.journal.recordings import (
    AT_ONCE,
    LEVELS,
    SPAN_S,
    KeptMark,
    append,
    blocks_of,
    introduce,
    keep_marks,
    marks_of,
    recorded_s,
)

ROOT = Path(__file__).parent.parent.parent
T0 = 1_796_200_000


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def block(began: float, seconds: float, hz: int = 10, watts: int = 2500, shift_ms: int = 0) -> Block:
    count = round(seconds * hz)
    times = [round((T0 + began) * 1000) + shift_ms + place * 1000 // hz for place in range(count)]
    return Block(
        times, {"power_w.0": [watts + place % 7 for place in range(count)]}, meta={"gpus": [[0, "a", "", None]]}
    )


async def times_of(journal: Journal, run_id: str = "r") -> list[int]:
    return [time for kept in await blocks_of(journal, "h", run_id) for time in kept.block().times]


async def test_rows_that_come_bit_by_bit_lie_in_blocks_of_a_minute(journal: Journal) -> None:
    for place in range(30):
        assert await append(journal, "h", "r", block(place * 5, 5)) == 50
    kept = await blocks_of(journal, "h", "r")
    assert [one.rows for one in kept] == [600, 600, 300]
    assert all(one.ended - one.began <= SPAN_S for one in kept)
    assert await times_of(journal) == block(0, 150).times
    assert await recorded_s(journal) == {("h", "r"): pytest.approx(149.7, abs=0.2)}


async def test_two_consoles_that_watch_one_run_write_it_once(journal: Journal) -> None:
    """Each sends its own samples at its own moments: what both saw is kept from the one that came first."""

    async def console(shift_ms: int) -> None:
        for place in range(12):
            await append(journal, "h", "r", block(place * 5, 5, shift_ms=shift_ms))

    await asyncio.gather(console(0), console(37))
    times = await times_of(journal)
    assert all(a < b for a, b in pairwise(times))
    assert 590 <= len(times) <= 640  # as one of them alone, and what both have around a change from one to the other


async def test_pauses_and_other_cards_begin_a_block(journal: Journal) -> None:
    await append(journal, "h", "r", block(0, 5))
    await append(journal, "h", "r", block(500, 5))
    other = Block([(T0 + 506) * 1000], {"power_w.0": [1]}, meta={"gpus": [[0, "b", "", None]]})
    await append(journal, "h", "r", other)
    assert [one.rows for one in await blocks_of(journal, "h", "r")] == [50, 50, 1]


async def test_a_damaged_block_is_told_and_spoils_no_other(journal: Journal) -> None:
    await append(journal, "h", "r", block(0, 5))
    with sqlite3.connect(journal.path) as db:
        db.execute("UPDATE recordings SET data = x'00'")
    db.close()
    await append(journal, "h", "r", block(5, 5))
    bad, good = await blocks_of(journal, "h", "r")
    with pytest.raises(ConsoleError, match="cannot be read"):
        bad.block()
    assert len(good.block()) == 50


async def test_what_is_long_past_is_thinned_and_keeps_its_extremes(journal: Journal) -> None:
    await append(journal, "h", "old", block(0, 60))
    await append(journal, "h", "old", block(60, 60, watts=9000))
    fine = await blocks_of(journal, "h", "old")
    assert [one.step_s for one in fine] == [0, 0]
    await append(journal, "h", "new", block(LEVELS[0].older_than_s + 200, 1))
    (thin,) = await blocks_of(journal, "h", "old")
    assert thin.step_s == 1.0 and thin.rows == 120
    assert max(value or 0 for value in thin.block().columns["power_w.0" + MAX]) == 9006
    await append(journal, "h", "new", block(LEVELS[1].older_than_s + 1000, 1))
    (thinner,) = await blocks_of(journal, "h", "old")
    assert thinner.step_s == 10.0 and thinner.rows == 12
    assert max(value or 0 for value in thinner.block().columns["power_w.0" + MAX]) == 9006
    assert [one.step_s for one in await blocks_of(journal, "h", "new")] == [1.0, 0]


async def test_thinning_takes_few_blocks_at_a_time(journal: Journal) -> None:
    for place in range(2 * AT_ONCE):
        await append(journal, "h", "old", block(place * 60, 59.9))
    await append(journal, "h", "new", block(LEVELS[0].older_than_s + 5000, 1))
    assert [one.step_s for one in await blocks_of(journal, "h", "old")].count(0) == AT_ONCE


WRITER = """
import asyncio, sys
from pathlib import Path
from console.journal.book import Journal
from console.journal.recordings import append
from tests.journal.test_recordings import block

async def main():
    journal = Journal(Path(sys.argv[1]))
    for number in range(100000):
        await append(journal, "h", "r", block(number, 1))
        print(number, flush=True)

asyncio.run(main())
"""


async def test_a_killed_console_loses_nothing_that_was_written(journal: Journal) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(journal.path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert writer.stdout is not None
    told = -1
    while told < 70:
        told = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.wait()
    writer.stdout.close()
    told = int(rest[-1]) if rest else told
    times = await times_of(journal)
    assert len(times) % 10 == 0 and len(times) >= 10 * (told + 1)
    assert times == block(0, len(times) / 10).times
    assert await append(journal, "h", "r", block(len(times) / 10, 1)) == 10


async def test_marks_are_kept_once(journal: Journal) -> None:
    marks = [KeptMark(T0 + 3.0004, "patch", "apply x"), KeptMark(T0, "restart", "r p")]
    await keep_marks(journal, "h", "r", marks)
    await keep_marks(journal, "h", "r", [*marks, KeptMark(T0 + 9, "end", "exited")])
    assert [(mark.time - T0, mark.kind) for mark in await marks_of(journal, "h", "r")] == [
        (0, "restart"), (3, "patch"), (9, "end"),
    ]  # fmt: skip


async def test_a_run_is_introduced_once(journal: Journal) -> None:
    entry = {"host": "h", "id": "r", "profile": "p", "engine": "sglang", "started_at": 1.0, "badge": "", "identity": {}}
    await introduce(journal, {**entry, "identity": {"patches_on": ["x"]}})
    await introduce(journal, entry)
    (found,) = await journal.runs()
    assert found.identity == {"patches_on": ["x"]} and found.measurements == ()


async def test_journals_of_every_older_version_take_recordings(tmp_path: Path) -> None:
    for version in range(1, len(MIGRATIONS)):
        path = tmp_path / f"v{version}.sqlite"
        with sqlite3.connect(path) as db:
            for step in MIGRATIONS[:version]:
                db.executescript(step)
            db.execute("INSERT INTO runs VALUES ('h', 'r', 'p', 'sglang', 1.0, '', '{}')")
            db.execute(f"PRAGMA user_version = {version}")
        db.close()
        old = Journal(path)
        assert await blocks_of(old, "h", "r") == ()
        assert await append(old, "h", "r", block(0, 1)) == 10
        assert len(await times_of(old)) == 10 and len(await old.runs()) == 1

"""A journal that cannot be written is read all the same, and each trouble comes with what helps."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from console.errors import ConsoleError
from console.journal import book, trouble
from console.journal.book import MIGRATIONS, Journal
from console.journal.remarks import remark
from tests.journal.test_book import ONE, RUN


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def _unwritable(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refused(db: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("no writing here")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(book, "_write_ahead", refused)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY | 3 << 8])
async def test_a_journal_that_cannot_be_written_is_read(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    await journal.record_run(RUN)
    await journal.record_measurement("demo", ONE)
    _unwritable(monkeypatch, code)
    (entry,) = await journal.runs()
    assert entry.measurements == (ONE,) and await journal.run(RUN.id) == entry
    assert [one.id for one in await journal.listed()] == [RUN.id]
    with pytest.raises(ConsoleError, match="cannot be used"):
        await journal.record_run(RUN)


async def test_entries_still_in_the_write_ahead_log_are_read_too(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal.record_run(RUN)
    keeper = sqlite3.connect(journal.path)  # as long as somebody has it open the log is not written back
    keeper.execute("SELECT * FROM runs").fetchall()
    await journal.record_measurement("demo", ONE)
    assert journal.path.with_name("journal.sqlite-wal").stat().st_size
    _unwritable(monkeypatch, sqlite3.SQLITE_READONLY)
    (entry,) = await journal.runs()
    keeper.close()
    assert entry.measurements == (ONE,)


async def test_an_older_journal_that_cannot_be_written_is_read_and_stays_as_it_is(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(sqlite3.connect(journal.path)) as db, db:
        db.executescript(f"{MIGRATIONS[0]}; PRAGMA user_version = 1")
        db.execute("INSERT INTO runs VALUES ('h', 'r-1', 'p', 'sglang', 1.0, '', '{}')")
    before = journal.path.read_bytes()
    _unwritable(monkeypatch, sqlite3.SQLITE_READONLY)
    assert [one.id for one in await journal.runs()] == [one.id for one in await journal.listed()] == ["r-1"]
    with pytest.raises(ConsoleError, match="cannot be used"):
        await journal.record_run(RUN)
    assert journal.path.read_bytes() == before


@pytest.mark.parametrize("writable", [True, False])
async def test_a_newer_journal_is_refused_before_anything_is_written(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    with contextlib.closing(sqlite3.connect(journal.path)) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = journal.path.read_bytes()
    if not writable:
        monkeypatch.setattr(Journal, "_open", lambda self: sqlite3.connect(self.path / "no"))
    for use in (journal.runs(), journal.record_run(RUN)) if writable else (journal.runs(),):
        with pytest.raises(ConsoleError) as caught:
            await use
        assert "newer tokwatt" in caught.value.detail
    assert journal.path.read_bytes() == before and not journal.path.with_name("journal.sqlite-wal").exists()


def test_each_trouble_has_its_own_way_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"

    def told(error: sqlite3.Error | OSError, code: int = 0) -> str:
        if code:
            error.sqlite_errorcode = code  # type: ignore[union-attr]
        said = trouble.trouble(path, error)
        assert str(path) in said.title
        return f"{said.detail} {said.hint}"

    assert "TOKWATT_DATA" in told(trouble.NewerError("newer")) and "move" not in told(trouble.NewerError("newer"))
    assert ".recover" in told(sqlite3.DatabaseError("malformed"), sqlite3.SQLITE_CORRUPT)
    assert "disk is full" in told(sqlite3.OperationalError("full"), sqlite3.SQLITE_FULL)
    assert "disk is full" in told(OSError(errno.ENOSPC, "No space left on device"))
    assert "may write to" in told(sqlite3.OperationalError("unable to open"), sqlite3.SQLITE_CANTOPEN)
    assert "another console" in told(sqlite3.OperationalError("locked"), sqlite3.SQLITE_BUSY)
    path.mkdir()
    assert "it is a folder" in told(sqlite3.OperationalError("unable to open"), sqlite3.SQLITE_CANTOPEN)


async def test_tags_of_many_consoles_at_once_are_all_kept(journal: Journal) -> None:
    await journal.record_run(RUN)
    await asyncio.gather(*(remark(journal, "demo", RUN.id, tags=[f"t{n}"]) for n in range(12)))
    (entry,) = await journal.runs()
    assert sorted(entry.tags) == sorted(f"t{n}" for n in range(12))


async def test_a_list_tells_in_brief_what_the_whole_runs_tell(journal: Journal) -> None:
    await journal.record_run(RUN)
    await journal.record_run(replace(RUN, id="2026-12-02-2", host="other", started_at=950.0, identity={}))
    for one in (ONE, replace(ONE, concurrency_limit=64, tainted=(), output_throughput_tok_s=7.5)):
        await journal.record_measurement("demo", one)
    await remark(journal, "demo", RUN.id, tags=["best"], note="=1")
    for host in (None, "demo", "nobody"):
        brief, whole = await journal.listed(host=host), await journal.runs(host=host)
        for line, other in zip(brief, whole, strict=True):
            assert (line.key, line.measured, line.rungs, line.best_tok_s, line.tags, line.note) == (
                (other.key, other.measured, other.rungs, other.best_tok_s, other.tags, other.note)
            )
        assert brief[:1] == await journal.listed(host=host, limit=1)
        assert await journal.whole([("no", "such"), *(one.key for one in reversed(brief))]) == whole[::-1]
        for line, other in zip(brief, whole, strict=True):
            assert line.identity.get("patches_on") == other.identity.get("patches_on") and not line.measurements

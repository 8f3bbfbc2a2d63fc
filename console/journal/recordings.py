"""Recordings: what the gauges showed of a run, for as long as a console watched it; thinner the longer it is past."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.errors import ConsoleError
from console.journal.packing import Block, joined, packed, thinned, unpacked

if TYPE_CHECKING:
    from console.journal.book import Journal

SPAN_S = 60.0
"""Rows as they came are kept in blocks of this length."""


@dataclass(frozen=True, slots=True)
class Level:
    """How what is past is kept."""

    older_than_s: float
    step_s: float
    span_s: float
    """Length of a block."""


LEVELS = (Level(6 * 3600.0, 1.0, 600.0), Level(14 * 86_400.0, 10.0, 6000.0))
"""Six hours as they came, two weeks by the second, then by ten seconds; a run's measurements keep their own power."""

AT_ONCE = 3
"""Blocks made thinner in one transaction: another console may be waiting."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One block as it lies in the journal."""

    began: float
    ended: float
    step_s: float
    rows: int
    data: bytes

    def block(self, only: Callable[[str], bool] = lambda name: True) -> Block:
        """Return its rows, or some columns of them.

        Raises:
            ConsoleError: It is damaged.
        """
        try:
            return unpacked(self.data, only)
        except ValueError as error:
            raise ConsoleError("a block of this recording cannot be read", str(error)) from error


@dataclass(frozen=True, slots=True)
class KeptMark:
    """A moment of a run: a patch, a launch, an end."""

    time: float
    kind: str
    text: str


async def append(journal: Journal, host: str, run_id: str, block: Block) -> int:
    """Keep what came since the last time, and return how many rows that was.

    Rows that are not later than what is kept of this run are left out: two consoles that watch one run write it once.
    A host's clock that is set back therefore leaves a gap until it has caught up.
    """

    def write(db: sqlite3.Connection) -> int:
        db.execute("BEGIN IMMEDIATE")  # what is read here must still be true when it is written
        last = db.execute(
            "SELECT * FROM recordings WHERE host = ? AND run_id = ? ORDER BY ended DESC LIMIT 1", (host, run_id)
        ).fetchone()
        fresh = block.after(round(last["ended"] * 1000)) if last is not None else block
        if len(fresh):
            _add(db, host, run_id, fresh, last, SPAN_S)
            _thin(db, fresh.times[-1] / 1000)
        return len(fresh)

    return await journal.transact(write) if len(block) else 0


def _add(db: sqlite3.Connection, host: str, run_id: str, block: Block, last: sqlite3.Row | None, span_s: float) -> None:
    """Add rows to the last block while that is short and alike, else as a block of their own."""
    began, ended = block.times[0] / 1000, block.times[-1] / 1000
    if last is not None and last["step_s"] == block.step_s and ended - last["began"] <= span_s:
        try:
            whole = joined(unpacked(last["data"]), block)
        except ValueError:  # a damaged block stays as it is
            whole = None
        if whole is not None:
            row = (ended, len(whole), packed(whole), last["number"])
            db.execute("UPDATE recordings SET ended = ?, rows = ?, data = ? WHERE number = ?", row)
            return
    db.execute(
        "INSERT INTO recordings (host, run_id, began, ended, step_s, rows, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (host, run_id, began, ended, block.step_s, len(block), packed(block)),
    )


def _thin(db: sqlite3.Connection, now: float) -> None:
    """Make some of the blocks thinner that are old enough, of whatever run."""
    for level in LEVELS:
        old = db.execute(
            "SELECT * FROM recordings WHERE step_s < ? AND ended < ? ORDER BY ended LIMIT ?",
            (level.step_s, now - level.older_than_s, AT_ONCE),
        ).fetchall()
        for row in old:
            db.execute("DELETE FROM recordings WHERE number = ?", (row["number"],))
            try:
                block = thinned(unpacked(row["data"]), level.step_s)
            except ValueError:
                continue
            before = db.execute(
                "SELECT * FROM recordings WHERE host = ? AND run_id = ? AND step_s = ? AND ended <= ?"
                " ORDER BY ended DESC LIMIT 1",
                (row["host"], row["run_id"], level.step_s, row["began"]),
            ).fetchone()
            _add(db, row["host"], row["run_id"], block, before, level.span_s)


async def blocks_of(journal: Journal, host: str, run_id: str) -> tuple[Kept, ...]:
    """Return what is kept of a run, in the order of time."""

    def read(db: sqlite3.Connection) -> tuple[Kept, ...]:
        found = db.execute(
            "SELECT began, ended, step_s, rows, data FROM recordings WHERE host = ? AND run_id = ? ORDER BY began",
            (host, run_id),
        )
        return tuple(Kept(*row) for row in found.fetchall())

    return await journal.read(read)


async def recorded_s(journal: Journal) -> dict[tuple[str, str], float]:
    """Return for how long each run was recorded, by host and id, its gaps left out."""

    def read(db: sqlite3.Connection) -> dict[tuple[str, str], float]:
        found = db.execute("SELECT host, run_id, SUM(ended - began) AS lasted FROM recordings GROUP BY host, run_id")
        return {(row["host"], row["run_id"]): row["lasted"] for row in found.fetchall()}

    return await journal.read(read)


async def keep_marks(journal: Journal, host: str, run_id: str, marks: Iterable[KeptMark]) -> None:
    """Keep moments of a run; those that are known already are kept once."""
    rows = [(host, run_id, round(mark.time, 3), mark.kind, mark.text) for mark in marks]
    await journal.transact(lambda db: db.executemany("INSERT OR IGNORE INTO run_marks VALUES (?, ?, ?, ?, ?)", rows))


async def marks_of(journal: Journal, host: str, run_id: str) -> tuple[KeptMark, ...]:
    """Return the moments of a run in the order of time."""

    def read(db: sqlite3.Connection) -> tuple[KeptMark, ...]:
        found = db.execute(
            "SELECT time, kind, text FROM run_marks WHERE host = ? AND run_id = ? ORDER BY time", (host, run_id)
        )
        return tuple(KeptMark(*row) for row in found.fetchall())

    return await journal.read(read)


async def introduce(journal: Journal, entry: Mapping[str, Any]) -> None:
    """Keep what is known of a run that is recorded before it was measured; one that is known already stays as it is."""
    row = [entry[name] for name in ("host", "id", "profile", "engine", "started_at", "badge")]
    row.append(json.dumps(entry["identity"], ensure_ascii=False, default=str, separators=(",", ":")))
    await journal.transact(lambda db: db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row))

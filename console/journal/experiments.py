"""Experiments in the journal: one entry each, and what happened in it, in order; nothing is ever rewritten."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.journal.book import Journal


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    at: float
    """Wall clock here, seconds since the epoch."""
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExperimentEntry:
    """One experiment with everything that happened in it."""

    number: int
    id: str
    host: str
    name: str
    path: str
    digest: str
    created_at: float
    badge: str
    operator: str
    plan: Mapping[str, Any]
    """What was planned: arms in words, what is measured and what decides."""
    where: str
    """State of the host, as last told."""
    finished: bool
    events: tuple[Event, ...]


async def begin(
    journal: Journal,
    *,
    host: str,
    name: str,
    path: str,
    digest: str,
    badge: str,
    operator: str,
    plan: Mapping[str, Any],
) -> ExperimentEntry:
    """Begin an entry under the next number of the day."""
    now = time.time()
    day = time.strftime("%Y-%m-%d", time.localtime(now))

    def write(db: sqlite3.Connection) -> str:
        db.execute("BEGIN IMMEDIATE")
        found = db.execute("SELECT COUNT(*) FROM experiments WHERE id LIKE ?", (f"x-{day}-%",)).fetchone()
        made = f"x-{day}-{int(found[0]) + 1}"
        db.execute(
            "INSERT INTO experiments (id, host, name, path, digest, created_at, badge, operator, plan, place, finished)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0)",
            (made, host, name, path, digest, now, badge, operator, json.dumps(plan, ensure_ascii=False)),
        )
        return made

    made = await journal.transact(write)
    entry = await find(journal, made)
    assert entry is not None
    return entry


async def happened(
    journal: Journal,
    entry: ExperimentEntry,
    kind: str,
    data: Mapping[str, Any] | None = None,
    *,
    where: str = "",
    finished: bool = False,
) -> Event:
    """Add an event, and with it, in the same transaction, the state that the host is in."""
    event = Event(time.time(), kind, dict(data or {}))

    def write(db: sqlite3.Connection) -> None:
        db.execute(
            "INSERT INTO experiment_events (experiment, at, kind, data) VALUES (?, ?, ?, ?)",
            (entry.number, event.at, kind, json.dumps(event.data, ensure_ascii=False)),
        )
        if where or finished:
            db.execute(
                "UPDATE experiments SET place = CASE WHEN ? = '' THEN place ELSE ? END, finished = MAX(finished, ?)"
                " WHERE number = ?",
                (where, where, int(finished), entry.number),
            )

    await journal.transact(write)
    return event


async def find(journal: Journal, id_or_name: str, *, host: str | None = None) -> ExperimentEntry | None:
    """Return the newest experiment of an id, a name or a file's path."""

    def read(db: sqlite3.Connection) -> ExperimentEntry | None:
        row = db.execute(
            "SELECT * FROM experiments WHERE (id = ? OR name = ? OR path = ?) AND (? IS NULL OR host = ?)"
            " ORDER BY number DESC LIMIT 1",
            (id_or_name, id_or_name, id_or_name, host, host),
        ).fetchone()
        return None if row is None else _entry(db, row)

    return await journal.read(read)


async def unfinished(journal: Journal, host: str) -> tuple[ExperimentEntry, ...]:
    """Return the experiments on a host that were not finished, the newest first."""

    def read(db: sqlite3.Connection) -> tuple[ExperimentEntry, ...]:
        found = db.execute("SELECT * FROM experiments WHERE host = ? AND finished = 0 ORDER BY number DESC", (host,))
        return tuple(_entry(db, row) for row in found.fetchall())

    return await journal.read(read)


async def listed(journal: Journal, *, limit: int = 100) -> tuple[ExperimentEntry, ...]:
    """Return experiments, the newest first."""

    def read(db: sqlite3.Connection) -> tuple[ExperimentEntry, ...]:
        found = db.execute("SELECT * FROM experiments ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
        return tuple(_entry(db, row) for row in found)

    return await journal.read(read)


def _entry(db: sqlite3.Connection, row: sqlite3.Row) -> ExperimentEntry:
    found = db.execute("SELECT * FROM experiment_events WHERE experiment = ? ORDER BY number", (row["number"],))
    return ExperimentEntry(
        number=row["number"],
        id=row["id"],
        host=row["host"],
        name=row["name"],
        path=row["path"],
        digest=row["digest"],
        created_at=row["created_at"],
        badge=row["badge"],
        operator=row["operator"],
        plan=json.loads(row["plan"]),
        where=row["place"],
        finished=bool(row["finished"]),
        events=tuple(Event(one["at"], one["kind"], json.loads(one["data"])) for one in found.fetchall()),
    )

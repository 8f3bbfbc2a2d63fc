"""Remarks: what the operator says of a run, tags and a note."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from console.journal.book import Journal


def remarks_of(db: sqlite3.Connection, host: str, run_id: str) -> dict[str, Any]:
    """Return `tags` and `note` of a run."""
    row = db.execute("SELECT tags, note FROM remarks WHERE host = ? AND run_id = ?", (host, run_id)).fetchone()
    return {"tags": tuple(json.loads(row["tags"])), "note": row["note"]} if row else {"tags": (), "note": ""}


async def remark(
    journal: Journal,
    host: str,
    run_id: str,
    *,
    tags: Iterable[str] = (),
    untag: Iterable[str] = (),
    note: str | None = None,
) -> dict[str, Any]:
    """Add and take tags, and set the note unless it is `None`; return what stands there now."""

    def write(db: sqlite3.Connection) -> dict[str, Any]:
        db.execute("BEGIN IMMEDIATE")  # what is read here is what is written below, whoever else tags
        known = remarks_of(db, host, run_id)
        gone = set(untag)
        kept = [tag for tag in dict.fromkeys((*known["tags"], *tags)) if tag not in gone]
        said = known["note"] if note is None else note
        db.execute(
            "INSERT OR REPLACE INTO remarks VALUES (?, ?, ?, ?)",
            (host, run_id, json.dumps(kept, ensure_ascii=False), said),
        )
        return {"tags": tuple(kept), "note": said}

    return await journal.transact(write)

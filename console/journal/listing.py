"""Runs for a list: thousands of them, without reading what was measured of each."""

from __future__ import annotations

import json
import sqlite3

from console.journal.records import Brief, RunEntry, entry_from

BRIEF = (
    "SELECT host, run_id, COUNT(*) AS many, GROUP_CONCAT(DISTINCT concurrency) AS rungs,"
    " MAX(CASE WHEN COALESCE(json_array_length(data, '$.tainted'), 0) = 0 THEN output_tok_s END) AS best"
    " FROM measurements WHERE {} GROUP BY host, run_id"
)
RUNS = (
    "SELECT runs.host, id, profile, engine, started_at, badge, json_extract(identity, '$.patches_on') AS patches,"
    " tags, note FROM runs LEFT JOIN remarks ON remarks.host = runs.host AND run_id = id"
    " WHERE {} ORDER BY started_at DESC"
)
NEWEST = "SELECT {} FROM runs WHERE ?1 IS NULL OR host = ?1 ORDER BY started_at DESC LIMIT ?2"
"""A part of the runs is found by its keys, all of them faster by reading the tables through."""


def listed(db: sqlite3.Connection, host: str | None, limit: int | None = None) -> tuple[RunEntry, ...]:
    """Return the runs of a host, or of all; the newest ones alone where there is a limit."""
    asked = (host,) if limit is None else (host, limit)
    measured, runs = "?1 IS NULL OR host = ?1", "?1 IS NULL OR runs.host = ?1"
    if limit is not None:
        measured = f"(host, run_id) IN ({NEWEST.format('host, id')})"
        runs = f"runs.rowid IN ({NEWEST.format('rowid')})"
    brief = {
        (row["host"], row["run_id"]): Brief(row["many"], tuple(sorted(map(int, row["rungs"].split(",")))), row["best"])
        for row in db.execute(BRIEF.format(measured), asked)
    }
    return tuple(
        entry_from(
            row,
            identity={"patches_on": json.loads(row["patches"])} if row["patches"] else {},
            tags=tuple(json.loads(row["tags"] or "[]")),
            note=row["note"] or "",
            brief=brief.get((row["host"], row["id"]), Brief(0, (), None)),
        )
        for row in db.execute(RUNS.format(runs), asked)
    )

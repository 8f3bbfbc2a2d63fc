"""Runs for a list: thousands of them, without reading what was measured of each."""

from __future__ import annotations

import json
import sqlite3

from console.journal.records import Brief, RunEntry

BRIEF = (
    "SELECT host, run_id, COUNT(*) AS many, GROUP_CONCAT(DISTINCT concurrency) AS rungs,"
    " MAX(CASE WHEN COALESCE(json_array_length(data, '$.tainted'), 0) = 0 THEN output_tok_s END) AS best"
    " FROM measurements WHERE ? IS NULL OR host = ? GROUP BY host, run_id"
)
RUNS = (
    "SELECT runs.host, id, profile, engine, started_at, badge, json_extract(identity, '$.patches_on') AS patches,"
    " tags, note FROM runs LEFT JOIN remarks ON remarks.host = runs.host AND run_id = id"
    " WHERE ? IS NULL OR runs.host = ? ORDER BY started_at DESC"
)


def listed(db: sqlite3.Connection, host: str | None) -> tuple[RunEntry, ...]:
    """Return the runs of a host, or of all."""
    brief = {
        (row["host"], row["run_id"]): Brief(row["many"], tuple(sorted(map(int, row["rungs"].split(",")))), row["best"])
        for row in db.execute(BRIEF, (host, host))
    }
    return tuple(
        RunEntry(
            id=row["id"],
            host=row["host"],
            profile=row["profile"],
            engine=row["engine"],
            started_at=row["started_at"],
            badge=row["badge"],
            identity={"patches_on": json.loads(row["patches"])} if row["patches"] else {},
            tags=tuple(json.loads(row["tags"] or "[]")),
            note=row["note"] or "",
            brief=brief.get((row["host"], row["id"]), Brief(0, (), None)),
        )
        for row in db.execute(RUNS, (host, host))
    )

"""The requests of a measurement: a row for each, and the course of the load, compressed."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from console.journal.book import Journal

KEPT = ("columns", "rows", "course", "errors")
"""What of a load's result is kept beside the measurement made of it."""


def packed(load: Mapping[str, Any]) -> bytes:
    """Return the requests of a load result as they are kept: about 20 bytes each."""
    return zlib.compress(json.dumps({name: load.get(name) for name in KEPT}, separators=(",", ":")).encode())


async def requests_of(journal: Journal, host: str, run_id: str) -> list[dict[str, Any]]:
    """Return the requests of each measurement of a run, in their order.

    Each has `concurrency`, `repeat`, and what `KEPT` names; measurements from before requests were kept are left out.
    """

    def read(db: sqlite3.Connection) -> list[dict[str, Any]]:
        found = db.execute(
            "SELECT concurrency, repeat, requests.data AS packed FROM measurements JOIN requests USING (number)"
            " WHERE host = ? AND run_id = ? ORDER BY number",
            (host, run_id),
        )
        return [
            {"concurrency": row["concurrency"], "repeat": row["repeat"], **json.loads(zlib.decompress(row["packed"]))}
            for row in found.fetchall()
        ]

    return await journal.read(read)


async def recorded(journal: Journal, host: str, run_id: str) -> list[dict[str, Any]]:
    """Return what each measurement of a run recorded over time, in their order.

    Each has `concurrency`, `repeat`, `started_at`, `power` (rows of time and W by GPU) and `course`; what was not kept
    is empty.
    """

    def read(db: sqlite3.Connection) -> list[dict[str, Any]]:
        found = db.execute(
            "SELECT concurrency, repeat, started_at, telemetry.rows AS power, requests.data AS packed FROM measurements"
            " LEFT JOIN telemetry USING (number) LEFT JOIN requests USING (number)"
            " WHERE host = ? AND run_id = ? ORDER BY number",
            (host, run_id),
        )
        return [
            {
                "concurrency": row["concurrency"],
                "repeat": row["repeat"],
                "started_at": row["started_at"],
                "power": json.loads(zlib.decompress(row["power"])) if row["power"] else [],
                "course": json.loads(zlib.decompress(row["packed"])).get("course") if row["packed"] else None,
            }
            for row in found.fetchall()
        ]

    return await journal.read(read)

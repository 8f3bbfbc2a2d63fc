"""Consoles killed at any moment, beside a reader and another writer: every file whole, every measurement with its requests."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from console.journal import experiments, recordings
from console.journal.book import Journal
from console.journal.remarks import remark
from console.journal.requests import recorded, requests_of
from tests.journal.test_book import ONE, RUN
from tests.journal.test_recordings import block

ROOT = Path(__file__).parent.parent.parent
KILLS = 5
LOAD = {"columns": ["sent_s", "ttft_s"], "rows": [[0.001 * n, 0.1] for n in range(300)], "course": {"bin_s": 0.25}}
POWER = [[0.1 * n, [250.0] * 8] for n in range(100)]
TORN = (
    "SELECT number FROM measurements WHERE number NOT IN (SELECT number FROM requests)",
    "SELECT number FROM measurements WHERE number NOT IN (SELECT number FROM telemetry)",
    "SELECT number FROM requests WHERE number NOT IN (SELECT number FROM measurements)",
    "SELECT number FROM telemetry WHERE number NOT IN (SELECT number FROM measurements)",
    "SELECT number FROM experiment_events WHERE experiment NOT IN (SELECT number FROM experiments)",
    "SELECT x.id FROM experiments x WHERE place <> ''"
    " AND place <> (SELECT 'at ' || (COUNT(*) - 1) FROM experiment_events WHERE experiment = x.number)",
)


async def write(journal: Journal, host: str) -> None:
    """Write as a console does, and tell of each turn that is done."""
    print("ready", flush=True)
    plan = {"arms": ["base", "wide"]}
    entry = await experiments.begin(
        journal, host=host, name=host, path="x.toml", digest="d", badge="", operator="o", plan=plan
    )
    for turn in range(1_000_000):
        await journal.record_run(replace(RUN, host=host, identity={"turn": turn}))
        await journal.record_measurement(host, replace(ONE, repeat=turn), telemetry=POWER, load=LOAD)
        await recordings.append(journal, host, RUN.id, block(turn, 1))
        await experiments.happened(journal, entry, "measured", {"turn": turn}, where=f"at {turn}")
        await remark(journal, host, RUN.id, tags=[f"t{turn % 3}"], note=str(turn))
        print(turn, flush=True)


async def read(journal: Journal) -> None:
    """Read until nobody listens any more; whatever is half or locked ends it."""
    print("ready", flush=True)
    while True:
        for line in await journal.listed():
            entry = await journal.run(f"{line.host}:{line.id}")
            assert entry is not None and entry.measured >= line.measured
            assert all(len(one["rows"]) == 300 for one in await requests_of(journal, line.host, line.id))
            whole = await recorded(journal, line.host, line.id)
            assert all(len(one["power"]) == 100 and one["course"] for one in whole)
            for kept in await recordings.blocks_of(journal, line.host, line.id):
                kept.block()
            await experiments.find(journal, line.host)
        print("read", flush=True)


@contextlib.contextmanager
def started(role: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.journal.test_killed", role, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> list[str]:
    """Kill a console, and return what it told."""
    process.send_signal(signal.SIGKILL)
    told, complaint = process.communicate()
    assert process.returncode == -signal.SIGKILL, complaint
    return told.split()


def look(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [db.execute(query).fetchall() for query in TORN] == [[]] * len(TORN)


async def test_killed_consoles_leave_whole_entries_to_readers_and_writers(tmp_path: Path) -> None:
    path, moment = tmp_path / "journal.sqlite", random.Random(7)
    told: dict[str, int] = {}
    with started("reader", path) as reader, started("second", path) as second:
        for kill in range(KILLS):
            with started(f"killed-{kill}", path) as killed:
                time.sleep(moment.uniform(0.0, 0.3))
                told[f"killed-{kill}"] = len(end(killed))
            look(path)
        told["second"] = len(end(second))
        assert len(end(reader)) > 1 and told["second"] > 1
    look(path)
    for host, turns in told.items():
        kept = await requests_of(Journal(path), host, RUN.id)
        assert [one["repeat"] for one in kept][:turns] == list(range(turns)) and len(kept) <= turns + 1


if __name__ == "__main__":
    where = Journal(Path(sys.argv[2]))
    asyncio.run(read(where) if sys.argv[1] == "reader" else write(where, sys.argv[1]))

"""The Runs screen over 10,000 runs with 90,000 measurements, beside one bare query over the same file."""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.domain.measurement import Measurement, Percentiles
from console.journal.book import Journal
from console.journal.records import RunEntry, measurement_data
from console.ui.widgets.runs import RunLines
from tests.ui.conftest import Bench, cockpit, still
from tests.ui.waiting import open_cockpit, shown, until

__all__ = ["cockpit", "still"]

RUNS, RUNGS, REPEATS = 10_000, (256, 512, 1024), 3
BUDGET_MS = 100.0
"""From a key to the painted list, what a key costs that moves the cursor alone taken off: most of that is the Pilot's."""

BARE = "SELECT host, run_id, COUNT(*), MAX(output_tok_s) FROM measurements GROUP BY host, run_id"
IDENTITY = json.dumps(
    {
        "argv": ["python3", "-m", "sglang.launch_server", "--model-path", "/m"],
        "resolved": {f"argument_{n}": f"value {n}" for n in range(380)},
        "patches_on": ["flashinfer-cutlass-autotune"],
        "gpus": [{"name": "G", "power_limit_w": 600}] * 8,
        "versions": {f"package-{n}": f"1.{n}" for n in range(60)},
    }
)


async def _fill(journal: Journal) -> None:
    some = Percentiles(1024, 100.0, 90.0, 150.0, 300.0)
    one = Measurement("", 256, 0, 0.0, 30.0, 1024, 1024, 0, 1 << 20, 262_144, 0.0, 7.6, some, some, some, some)

    def write(db: sqlite3.Connection) -> None:
        for number in range(RUNS):
            name, began = f"2026-12-03-{number}", 1.79e9 + 60 * number
            run = ("blackwell", name, f"glm5-{number % 7}", "sglang", began, "", IDENTITY)
            db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", run)
            for rung in RUNGS:
                speed = 800.0 + (number * 7919 + rung) % 3000
                made = replace(one, run_id=name, concurrency_limit=rung, output_throughput_tok_s=speed)
                row = ("blackwell", name, rung, began, speed, json.dumps(measurement_data(made)))
                db.executemany(
                    "INSERT INTO measurements (host, run_id, concurrency, repeat, started_at, output_tok_s, badge, data)"
                    " VALUES (?, ?, ?, ?, ?, ?, '', ?)",
                    [(*row[:3], repeat, *row[3:]) for repeat in range(REPEATS)],
                )

    await journal.transact(write)


async def test_keys_over_ten_thousand_runs(cockpit: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    await _fill(Journal())
    began = time.perf_counter()
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        assert len(db.execute(BARE).fetchall()) == RUNS
    db.close()
    bare_ms = 1000 * (time.perf_counter() - began)
    filled: list[float] = []
    fill = RunLines.fill

    def noted(self: RunLines, entries: Sequence[RunEntry], *, whole: bool = True) -> None:
        fill(self, entries, whole=whole)
        filled.append(time.perf_counter())

    monkeypatch.setattr(RunLines, "fill", noted)
    async with cockpit()[0].run_test(size=(120, 40)) as pilot:
        await open_cockpit(pilot)
        app: Any = pilot.app
        began = time.perf_counter()
        await pilot.press("6")
        await until(pilot, lambda: len(filled) == 2)
        rows = [(name, 1000 * (at - began)) for name, at in zip(("first rows", "all rows"), filled, strict=True)]

        async def key_ms(*keys: str) -> float:
            took = []
            for key in keys:
                started = time.perf_counter()
                await pilot.press(key)
                took.append(1000 * (time.perf_counter() - started))
            return statistics.median(took)

        idle_ms = await key_ms(*"jkjkjkjk")
        keys = [("sort", await key_ms(*"ssss"))]
        await pilot.press("slash")
        keys.append(("filter", await key_ms(*"glm5-6")))
        await pilot.press("escape", "t")
        await until(pilot, lambda: "tags of" in shown(app))
        await pilot.press(*"won")
        started = time.perf_counter()
        await pilot.press("enter")
        await until(pilot, lambda: "#won" in shown(app))
        keys.append(("tag", 1000 * (time.perf_counter() - started)))
    print(f"\nbare query {bare_ms:.0f} ms, a key that moves the cursor {idle_ms:.0f} ms")
    keys = [(name, ms - idle_ms) for name, ms in keys]
    for name, ms in (*rows, *keys):
        print(f"{name}: {ms:.0f} ms, {ms / bare_ms:.2f} of the bare query")
    assert all(ms < BUDGET_MS for _, ms in keys), keys

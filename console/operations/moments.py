"""The moments of a recorded run as rows for other tools."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from console.journal.packing import MAX, MIN, ROWS, Block
from console.operations.recording import ENGINE_VALUES, FIELDS, GPU_VALUES
from console.operations.tape import Tape, sample_of, speed_of

EXTREMES = {"power_w": "power_w", "tok_s": "output_tok_s"}
"""Columns whose least and most are told where a row stands for several, with their names there."""


def rows(tape: Tape) -> Iterator[dict[str, Any]]:
    """Yield a row for each recorded moment, GPUs as a list."""
    for block, row in tape.moments():
        sample, speed = sample_of(block, row), speed_of(block, row)
        told: dict[str, Any] = {
            **_head(tape, block, row),
            "power_w": block.value("power_w", row),
            "limit_w": sample.limit_w,
            "output_tok_s": speed.output_tok_s,
            **{name: getattr(speed, name) for name in ENGINE_VALUES},
            "idle": speed.idle if speed.source else None,
        }
        if block.step_s:
            told |= _extremes(block, row)
        told["gpus"] = [
            {
                "index": gpu.index,
                **{FIELDS.get(name, name): getattr(gpu, FIELDS.get(name, name)) for name in GPU_VALUES},
                "throttle": None if gpu.throttle is None else list(gpu.throttle),
                "lost": gpu.lost,
            }
            for gpu in sample.gpus
        ]
        yield told


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without lists: `gpu0_power_draw_w`."""
    told = {name: value for name, value in row.items() if name != "gpus"}
    for name in (f"{stem}_{word}" for stem in EXTREMES.values() for word in ("min", "max")):
        told.setdefault(name, None)
    for gpu in row["gpus"]:
        for name, value in gpu.items():
            if name != "index":
                told[f"gpu{gpu['index']}_{name}"] = " + ".join(value) if isinstance(value, list) else value
    return told


def old_rows(tape: Tape) -> Iterator[dict[str, Any]]:
    """Yield a row for each moment as `runs replay --json` has them."""
    for block, row in tape.moments():
        window = tape.window(block.times[row] / 1000)
        rung = block.meta.get("rung") or ([window.concurrency, window.repeat] if window else [None, None])
        gpus = [gpu[0] for gpu in block.meta.get("gpus", ())]
        yield {
            **_head(tape, block, row),
            "concurrency": rung[0],
            "repeat": rung[1],
            "power_w": block.value("power_w", row),
            "output_tok_s": block.value("tok_s", row),
            "running": block.value("running", row),
            "gpu_power_w": [block.value(f"power_w.{gpu}", row) for gpu in gpus],
        }


def _head(tape: Tape, block: Block, row: int) -> dict[str, Any]:
    return {
        "run": tape.entry.id,
        "host": tape.entry.host,
        "badge": tape.entry.badge,
        "time": datetime.fromtimestamp(block.times[row] / 1000, UTC).isoformat(timespec="milliseconds"),
        "stands_for_s": block.step_s or None,
        "samples": block.value(ROWS, row) or 1,
    }


def _extremes(block: Block, row: int) -> dict[str, Any]:
    return {
        f"{told}_{word}": block.value(name + end, row)
        for name, told in EXTREMES.items()
        for word, end in (("min", MIN), ("max", MAX))
    }

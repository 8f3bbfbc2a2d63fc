"""What is exported of runs: rows of measurements and moments, as CSV and Markdown."""

from __future__ import annotations

import csv
import dataclasses
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.cli.output import when
from console.domain.text import dash

if TYPE_CHECKING:
    from console.journal.records import RunEntry
    from console.operations.replay import Frame


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV under a head of their names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


TABLE = (
    ("run", "run_id", 0),
    ("concurrency", "concurrency_limit", 0),
    ("repeat", "repeat", 0),
    ("output tok/s", "output_throughput_tok_s", 1),
    ("TTFT p50 ms", "ttft_p50_ms", 0),
    ("ITL p50 ms", "itl_p50_ms", 1),
    ("W", "power_mean_w", 0),
    ("J/token", "energy_j_per_token", 3),
    ("failed", "failed", 0),
    ("not to be compared", "tainted", 0),
)
"""Columns of the table for people: title, field, digits."""


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """Return rows of measurements as a table for people."""
    lines = ["| " + " | ".join(title for title, _, _ in TABLE) + " |", "|" + " --- |" * len(TABLE)]
    for row in rows:
        cells = []
        for _, name, digits in TABLE:
            value = row[name]
            cells.append(dash(value, digits) if isinstance(value, float) or value is None else str(value))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def measurement_row(entry: RunEntry, one: Any) -> dict[str, Any]:
    """Return a measurement as one flat row, its distributions as columns."""
    row: dict[str, Any] = {"host": entry.host, "badge": entry.badge, "profile": entry.profile}
    for name, value in dataclasses.asdict(one).items():
        if name.endswith("_ms") and isinstance(value, dict):
            row |= {f"{name[:-3]}_{statistic}": number for statistic, number in value.items()}
        elif name == "tainted":
            row[name] = "; ".join(value)
        elif name == "started_at":
            row[name] = when(value)
        elif name != "protocol":
            row[name] = value
    return row


def moment_row(entry: RunEntry, frame: Frame) -> dict[str, Any]:
    """Return a recorded moment as one row."""
    return {
        "run": entry.id,
        "host": entry.host,
        "badge": entry.badge,
        "time": datetime.fromtimestamp(frame.time, UTC).isoformat(timespec="milliseconds"),
        "concurrency": frame.concurrency,
        "repeat": frame.repeat,
        "power_w": None if frame.total_w is None else round(frame.total_w, 2),
        "output_tok_s": None if frame.output_tok_s is None else round(frame.output_tok_s, 2),
        "running": frame.running,
        "gpu_power_w": list(frame.power_w),
    }

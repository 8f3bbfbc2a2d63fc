"""What is exported of runs: rows of measurements and moments, as CSV, Markdown, JSON lines or engines' results."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.domain.text import dash
from console.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from console.journal.records import RunEntry


def rows_of(entries: Sequence[RunEntry], form: str) -> list[dict[str, Any]]:
    """Return a row for each measurement of some runs; `bench` has the engines' own names."""
    if form == "bench":
        from console.operations.measure import engine_names

        return [engine_names(one) for entry in entries for one in entry.measurements]
    return [measurement_row(entry, one) for entry in entries for one in entry.measurements]


def as_text(rows: list[dict[str, Any]], form: str) -> str:
    """Return rows in a format: `jsonl` and `bench` have one object a line."""
    if form == "csv":
        return as_csv(rows)
    if form == "markdown":
        return as_markdown(rows)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def write(entries: Sequence[RunEntry], form: str, file: str) -> Path:
    """Write the measurements of runs into a new file, and return where.

    Raises:
        RefusedError: The file is there already.
        UsageError: Nothing was measured of them, or it cannot be written.
    """
    rows = rows_of(entries, form)
    if not rows:
        raise UsageError("nothing was measured of these runs")
    path = Path(file).expanduser()
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(as_text(rows, form))
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already", hint="choose another name") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written", error.strerror or str(error)) from error
    return path


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV under a head of their names; what a spreadsheet would compute is marked as text."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return a value for a cell: a text that begins like a formula behind an apostrophe, what is nested as JSON."""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


FORMULA = ("=", "+", "-", "@", "\t", "\r")


TABLE = (
    ("host", "host", 0),
    ("profile", "profile", 0),
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
            value = f"{row[name]} [{row['badge']}]" if name == "host" and row["badge"] else row[name]
            cells.append(dash(value, digits) if isinstance(value, float) or value is None else str(value))
        lines.append("| " + " | ".join(_markdown_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _markdown_cell(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def measurement_row(entry: RunEntry, one: Any) -> dict[str, Any]:
    """Return a measurement as one flat row, its distributions as columns."""
    row: dict[str, Any] = {"host": entry.host, "badge": entry.badge, "profile": entry.profile}
    for name, value in dataclasses.asdict(one).items():
        if name.endswith("_ms") and isinstance(value, dict):
            row |= {f"{name[:-3]}_{statistic}": number for statistic, number in value.items()}
        elif name == "tainted":
            row[name] = "; ".join(value)
        elif name == "started_at":
            row[name] = datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")
        else:
            row[name] = value
    return row | {"tags": list(entry.tags), "note": entry.note}

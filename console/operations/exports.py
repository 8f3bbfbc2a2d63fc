"""What is exported of runs: rows of measurements and moments, as CSV, Markdown, JSON lines or engines' results."""

from __future__ import annotations

import asyncio
import csv
import dataclasses
import io
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.domain.measurement import Percentiles
from console.domain.text import dash
from console.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from console.journal.records import RunEntry


SCHEMA = 1
"""Of the records and documents of an export."""

PART = 100
"""Runs that are in memory at once: an export may be of ten thousand."""


async def pieces(entries: Sequence[RunEntry], form: str, *, requests: bool = False) -> AsyncIterator[str]:
    """Yield the text of an export bit by bit; nothing when nothing was measured.

    Args:
        entries: Runs, in brief or whole.
        form: `jsonl`, `json`, `csv`, `markdown` or `bench`.
        requests: A row for each request instead of each measurement.
    """
    names: dict[str, None] = {}
    if requests and form == "csv":  # a table has one head, and clients of other versions told other columns
        async for rows in _rows(entries, form, requests=True):
            names.update(dict.fromkeys(name for row in rows for name in row))
    begun = False
    async for rows in _rows(entries, form, requests=requests):
        yield await asyncio.to_thread(_piece, rows, form, begun, tuple(names))
        begun = True
    if begun and form == "json":
        yield "\n]}\n"


async def _rows(entries: Sequence[RunEntry], form: str, *, requests: bool) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the rows of some runs at a time."""
    from console.operations import compare

    if requests:
        for entry in entries:
            if rows := await compare.requests_of(entry):
                yield rows
        return
    for place in range(0, len(entries), PART):
        whole = await compare.whole(entries[place : place + PART])
        if rows := await asyncio.to_thread(rows_of, whole, form):
            yield rows


def _piece(rows: list[dict[str, Any]], form: str, begun: bool, names: Sequence[str]) -> str:
    if form == "json":
        told = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        return f",\n{told}" if begun else f'{{"schema": {SCHEMA}, "measurements": [\n{told}'
    return as_text(rows, form, head=not begun, names=names)


def rows_of(entries: Sequence[RunEntry], form: str) -> list[dict[str, Any]]:
    """Return a row for each measurement of whole runs; `bench` has the engines' own names."""
    if form == "bench":
        from console.operations.measure import engine_names

        return [engine_names(one) for entry in entries for one in entry.measurements]
    return [measurement_row(entry, one) for entry in entries for one in entry.measurements]


def as_text(rows: list[dict[str, Any]], form: str, *, head: bool = True, names: Sequence[str] = ()) -> str:
    """Return rows in a format, tables under their head: `jsonl` and `bench` have one object a line."""
    if form == "csv":
        return as_csv(rows, head=head, names=names)
    if form == "markdown":
        return as_markdown(rows, head=head)
    schema = {"schema": SCHEMA} if form == "jsonl" else {}
    return "".join(f"{json.dumps({**schema, **row}, ensure_ascii=False)}\n" for row in rows)


async def write(entries: Sequence[RunEntry], form: str, file: str) -> Path:
    """Write the measurements of runs into a new file, and return where.

    Raises:
        RefusedError: The file is there already.
        UsageError: Nothing was measured of them, or it cannot be written.
    """
    path = Path(file).expanduser()
    told = pieces(entries, form)
    first = await anext(told, None)
    if first is None:
        raise UsageError("nothing was measured of these runs")
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(first)
            async for piece in told:
                out.write(piece)
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already", hint="choose another name") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written", error.strerror or str(error)) from error
    return path


def as_csv(rows: list[dict[str, Any]], *, head: bool = True, names: Sequence[str] = ()) -> str:
    """Return rows as CSV under a head of their names; what a spreadsheet would compute is marked as text."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text, names or list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n"
    )
    if head:
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


def as_markdown(rows: list[dict[str, Any]], *, head: bool = True) -> str:
    """Return rows of measurements as a table for people."""
    lines = ["| " + " | ".join(title for title, _, _ in TABLE) + " |", "|" + " --- |" * len(TABLE)] if head else []
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
    for name, value in _fields(one).items():
        if isinstance(value, Percentiles):
            row |= {f"{name[:-3]}_{statistic}": number for statistic, number in _fields(value).items()}
        elif name == "tainted":
            row[name] = "; ".join(value)
        elif name == "started_at":
            row[name] = datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")
        else:
            row[name] = value
    return row | {"tags": list(entry.tags), "note": entry.note}


def _fields(value: Any) -> dict[str, Any]:
    """Return a dataclass as `asdict` does, but for the copies, which take most of a long export's time."""
    return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}

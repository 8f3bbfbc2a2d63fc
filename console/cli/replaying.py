"""`runs replay` and the telemetry of `runs export`: what was recorded of a run, played again or handed on."""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import itertools
import json
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from console.domain.text import dash
from console.errors import UsageError

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.operations.desk import Desk
    from console.operations.tape import Tape

LONGEST_S = 1.0
"""A gap takes no longer to replay."""

PICTURES = ("svg", "png")


async def replay_run(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Play a recorded run in the cockpit, or print its moments at their own pace; 1 when nothing was recorded."""
    tape = await _tape(args, out)
    if tape is None:
        return 1
    if args.plot:
        return await _draw(tape, args.plot, out)
    if args.csv:
        await put(_pieces(tape, "csv"), None, out)
        return 0
    if not out.json and not args.text and sys.stdin.isatty() and sys.stdout.isatty():
        args.tape = tape  # the other front door opens
        return 0
    await _told(tape, 0.0 if out.json else args.speed, out)
    return 0


async def export_telemetry(args: argparse.Namespace, form: str, out: Output) -> int:
    """Print or write what was recorded of a run, or draw it; 1 when nothing was recorded."""
    if not args.run:
        raise UsageError("runs export: telemetry and pictures are of one RUN", hint="tokwatt runs list")
    if form not in (*PICTURES, "csv", "json", "jsonl"):
        raise UsageError(f"runs export: --telemetry has no form {form}", hint="json, jsonl or csv")
    tape = await _tape(args, out)
    if tape is None:
        return 1
    if form not in PICTURES:
        await put(_pieces(tape, form), args.output, out)
        if tape.damaged:
            out.say(f"left out: {len(tape.damaged)} of {len(tape.kept)} blocks are damaged")
    elif args.output:
        return await _draw(tape, args.output, out)
    elif form == "svg":
        out.raw((await asyncio.to_thread(run_picture().svg, tape)).encode())
    elif sys.stdout.isatty():
        raise UsageError("runs export: a PNG is no text for a terminal", hint="--output FILE.png")
    else:
        out.raw(await asyncio.to_thread(run_picture().png, tape))
    return 0


async def put(pieces: AsyncIterator[str], file: str | None, out: Output) -> bool:
    """Print text, or write it into a file, and return whether there was any.

    Raises:
        UsageError: The file cannot be written.
    """
    first = await anext(pieces, None)
    if first is None or file is None:
        out.raw((first or "").encode())
        async for piece in pieces:
            out.raw(piece.encode())
        return first is not None
    path = Path(file).expanduser()
    try:
        with path.open("w", encoding="utf-8", newline="") as target:
            target.write(first)
            async for piece in pieces:
                target.write(piece)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written", error.strerror or str(error)) from error
    out.say(f"wrote {path}")
    return True


def run_picture() -> ModuleType:
    """Return what draws, loaded when something is drawn."""
    from console.operations import run_picture

    return run_picture


async def _tape(args: argparse.Namespace, out: Output) -> Tape | None:
    from console.operations import tape
    from console.operations.compare import find_run

    entry = await find_run(args.run, host=(args.host or [""])[0])
    found = await tape.load(entry)
    if not found.kept:
        out.say(f"run {entry.id}: nothing was recorded over time")
        return None
    return found


async def _draw(tape: Tape, file: str, out: Output) -> int:
    out.say(f"wrote {await asyncio.to_thread(run_picture().write, tape, file)}")
    return 0


async def _told(tape: Tape, speed: float, out: Output) -> None:
    from console.operations import moments

    last = 0.0
    for row in moments.old_rows(tape):
        at = datetime.fromisoformat(row["time"]).timestamp()
        if speed > 0 and last:
            await asyncio.sleep(min(LONGEST_S, max(0.0, at - last) / speed))
        last = at
        if out.json:
            out.record(row)
        else:
            rung = "" if row["concurrency"] is None else f"  concurrency {row['concurrency']}"
            out.line(
                f"{row['time']}  {row['badge'] or 'REPLAY'}{rung}"
                f"  {dash(row['power_w'])} W  {dash(row['output_tok_s'])} tok/s"
            )


async def _pieces(tape: Tape, form: str) -> AsyncIterator[str]:
    """Yield a table, JSON lines or one JSON document, a moment at a time: a run may have a million."""
    from console.operations import moments

    rows = moments.rows(tape)
    if form == "csv":
        for piece in _table(moments.flat(row) for row in rows):
            yield piece
    elif form == "json":
        head: dict[str, Any] = {
            "schema": 1,
            "run": tape.entry.id,
            "host": tape.entry.host,
            "badge": tape.entry.badge,
            "target_tok_s": tape.target_tok_s,
            "marks": [{"time": _iso(mark.time), "kind": mark.kind, "text": mark.text} for mark in tape.marks],
            "gaps": [[_iso(began), _iso(ended)] for began, ended in tape.gaps],
        }
        yield json.dumps(head, ensure_ascii=False)[:-1] + ', "moments": ['
        for place, row in enumerate(rows):
            yield (",\n" if place else "\n") + json.dumps(row, ensure_ascii=False)
        yield "\n]}\n"
    else:
        for row in rows:
            yield json.dumps({"schema": 1, **row}, ensure_ascii=False) + "\n"


def _table(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    first = next(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(first), lineterminator="\n", extrasaction="ignore", restval="")
    writer.writeheader()
    for row in itertools.chain([first], rows):
        writer.writerow(row)
        if text.tell() > 1 << 16:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")

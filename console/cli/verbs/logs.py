"""Logs: `logs [RUN | FILE | -] [--follow] [--kind K,K] [--grep RE] [--rank R] [--level L]`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.domain.run import LogKind, LogRecord, Run
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.operations.log_filter import RecordFilter

LINES = 1000
ENDINGS = (".log", ".txt", ".out", ".err", ".gz", ".bz2", ".xz")
"""A name that ends so is a file's, there or not; runs have none."""

RAW_SHOWN = 16 * 1024
"""Characters of a line on a terminal."""


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    logs = verbs.add_parser("logs", parents=parents, help="records of a run's log, or of a log file from anywhere")
    logs.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="RUN | FILE",
        help="the living run when none is named; - is standard input",
    )
    logs.add_argument("--follow", action="store_true", help="go on as the log grows")
    logs.add_argument("--kind", default="", metavar="K,K", help=", ".join(LogKind))
    logs.add_argument("--grep", default="", metavar="RE", help="records that match; small letters match both cases")
    logs.add_argument("--invert", action="store_true", help="records that --grep does not match")
    logs.add_argument("--rank", default="", metavar="R", help="records of a rank: TP3, 'DP1 TP0' or 3")
    logs.add_argument("--level", default="", metavar="L", help="info, warning (and worse) or error")
    logs.add_argument(
        "--lines",
        type=int,
        default=None,
        metavar="N",
        help=f"how much of a run's past, 0 for all (default: {LINES}; all that a filter wants)",
    )
    logs.add_argument("--engine", default="", metavar="E", help="whose log a FILE is (default: what it looks like)")
    logs.set_defaults(act=show_logs, needs=_needs, prepare=_look_for_file)


def _needs(args: argparse.Namespace) -> str:
    what = args.what
    return (
        "nothing" if what == "-" or "/" in what or what.endswith(ENDINGS) or (what and Path(what).is_file()) else "host"
    )


async def _look_for_file(args: argparse.Namespace) -> None:
    """Say that a name is no file's, where no host is named whose run it could be."""
    if args.what and _needs(args) == "host" and not args.host and not args.profile:
        raise UsageError(
            f"{args.what}: no file of that name here, and no host was named that could have a run of that name",
            hint=f"the path of a file, or tokwatt --host HOST logs {args.what}",
        )


async def show_logs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `logs`."""
    from console.operations import log_filter

    if args.lines is not None and args.lines < 0:
        raise UsageError("logs: --lines takes no negative number")
    wanted = log_filter.make(kinds=args.kind, pattern=args.grep, inverse=args.invert, rank=args.rank, level=args.level)
    if desk is None:
        return _file(args, wanted, out)
    return await _run(args, desk, wanted, out)


def _file(args: argparse.Namespace, wanted: RecordFilter, out: Output) -> int:
    from console.operations import log_files, logs

    if args.follow and args.what != "-":
        raise UsageError(
            "--follow needs a run on a host; a FILE is read as it is", hint=f"tail -F {args.what} | tokwatt logs -"
        )
    stdin = sys.stdin.buffer if args.what == "-" else None
    hits = 0
    for record in logs.records(log_files.chunks(args.what, stdin), engine=args.engine):
        if wanted.accepts(record):
            _print(record, out)
            hits += 1
    return _code(wanted, hits)


def _code(wanted: RecordFilter, hits: int) -> int:
    """Return the exit code: as with grep, no hit of a pattern is 1."""
    return 1 if wanted.pattern is not None and not hits else 0


def _lines(args: argparse.Namespace) -> int:
    return LINES if args.lines is None else int(args.lines)


async def _run(args: argparse.Namespace, desk: Desk, wanted: RecordFilter, out: Output) -> int:
    from console.operations import log_search, logs, server

    run = await _found(desk, args.what) if args.what else await server.status(desk)
    if run is None or not run.log:
        raise ConsoleError(f"{desk.link.host.name}: no run of ours has a log here", hint="tokwatt serve status --all")
    if not args.follow:
        whole = args.lines is None and not wanted.wants_all
        past = log_search.past(desk, run, wanted) if whole else logs.past(desk, run, lines=_lines(args))
        hits = 0
        async for record in past:
            if wanted.accepts(record):
                _print(record, out)
                hits += 1
        return _code(wanted, hits)
    last: LogRecord | None = None
    async with contextlib.aclosing(logs.to_end(desk, run, lines=_lines(args))) as stream:
        async for last in stream:
            if wanted.accepts(last):
                _print(last, out)
    ended = await server.find_run(desk, run.id)
    verdict = logs.failure_record(ended)
    if verdict is not None and not logs.tells(last, verdict):
        _print(verdict, out)
    out.say(f"run {ended.id} has {ended.phase.value}")
    return 0 if verdict is None else 1


async def _found(desk: Desk, name: str) -> Run:
    from console.operations import server

    try:
        return await server.find_run(desk, name)
    except UsageError as error:
        raise UsageError(error.title, "no file of that name is here either", error.hint) from error


def _print(record: LogRecord, out: Output) -> None:
    from console.operations.logs import as_json

    if out.json:
        out.record(as_json(record))
        return
    shown = out.stdout.isatty()
    for line in record.raw.split("\n"):
        more = len(line) - RAW_SHOWN
        out.line(f"{line[:RAW_SHOWN]} (+{more:,} characters)" if shown and more > 0 else line)
    if record.kind is LogKind.FAILURE:
        times = record.values.get("times")
        out.line(f"  ✗ {record.cause}" + (f" ({times} ranks)" if times else ""))

"""Logs: `logs [RUN | FILE] [--follow] [--kind K,K]`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.domain.run import LogKind, LogRecord
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk

CHUNK = 1 << 20
LINES = 1000


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    logs = verbs.add_parser("logs", parents=parents, help="records of a run's log, or of a log file from anywhere")
    logs.add_argument("what", nargs="?", default="", metavar="RUN | FILE", help="the living run when none is named")
    logs.add_argument("--follow", action="store_true", help="go on as the log grows")
    logs.add_argument("--kind", default="", metavar="K,K", help=", ".join(LogKind))
    logs.add_argument("--lines", type=int, default=LINES, metavar="N", help="how much of a run's past (0: all)")
    logs.add_argument("--engine", default="", metavar="E", help="whose log a FILE is, when it is not SGLang's")
    logs.set_defaults(act=show_logs, needs=_needs)


def _needs(args: argparse.Namespace) -> str:
    return "nothing" if "/" in args.what or (args.what and Path(args.what).is_file()) else "host"


async def show_logs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `logs`."""
    kinds = _kinds(args.kind)
    if desk is None:
        return _file(args, kinds, out)
    return await _run(args, desk, kinds, out)


def _kinds(text: str) -> frozenset[LogKind]:
    try:
        return frozenset(LogKind(word.strip()) for word in text.split(",") if word.strip()) or frozenset(LogKind)
    except ValueError as error:
        raise UsageError(f"--kind: {error}", hint=f"one of {', '.join(LogKind)}") from error


def _file(args: argparse.Namespace, kinds: frozenset[LogKind], out: Output) -> int:
    from console.operations import logs

    if args.follow:
        raise UsageError("--follow needs a run on a host; a FILE is read as it is")
    for record in logs.records(_chunks(Path(args.what)), engine=args.engine):
        if record.kind in kinds:
            _print(record, out)
    return 0


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise ConsoleError(f"{path}: cannot be read", error.strerror or str(error)) from error


async def _run(args: argparse.Namespace, desk: Desk, kinds: frozenset[LogKind], out: Output) -> int:
    from console.operations import logs, server

    run = await server.find_run(desk, args.what) if args.what else await server.status(desk)
    if run is None or not run.log:
        raise ConsoleError(f"{desk.link.host.name}: no run of ours has a log here", hint="tokwatt serve status --all")
    if not args.follow:
        async for record in logs.past(desk, run, lines=args.lines):
            if record.kind in kinds:
                _print(record, out)
        return 0
    last: LogRecord | None = None
    async with contextlib.aclosing(logs.to_end(desk, run, lines=args.lines)) as stream:
        async for last in stream:
            if last.kind in kinds:
                _print(last, out)
    ended = await server.find_run(desk, run.id)
    verdict = logs.failure_record(ended)
    if verdict is not None and (last is None or last.kind is not LogKind.FAILURE):
        _print(verdict, out)
    out.say(f"run {ended.id} has {ended.phase.value}")
    return 0 if verdict is None else 1


def _print(record: LogRecord, out: Output) -> None:
    from console.operations.logs import as_json

    if out.json:
        out.record(as_json(record))
        return
    for line in record.raw.split("\n"):
        out.line(line)
    if record.kind is LogKind.FAILURE:
        out.line(f"  ✗ {record.cause}")

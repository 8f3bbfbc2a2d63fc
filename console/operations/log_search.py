"""Looking for records in the whole of a run's log: the host finds the lines, the records around them are read here."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from console.domain.run import LogKind, LogRecord, Run
from console.engines.protocol import Grammar
from console.engines.records import LogParser
from console.engines.registry import engine
from console.errors import RemoteError
from console.operations.desk import Desk
from console.operations.log_filter import RecordFilter
from console.operations.log_parts import LogFile, parser_of
from console.operations.logs import failure_record, tells

TAKEN_BYTES = 128 * 1024
"""How much is taken before the host is told, so that it sends more."""

TAKEN_PARTS = 16
"""The same in parts: the host waits after so many that nobody has told of, however small they were."""

FLOOD = frozenset((LogKind.DECODE, LogKind.PREFILL, LogKind.ACCESS))

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found since the last time."""

    records: tuple[LogRecord, ...]
    at: int
    """Offset up to which the log has been searched."""
    whole: bool = False
    """Whether this is all up to there; a record at its end may still come with the next."""
    size: int = 0
    """Of the file, in bytes."""


async def search(
    desk: Desk,
    run: Run,
    wanted: RecordFilter,
    *,
    first: int = 0,
    last: int | None = None,
    backward: bool = False,
    limit: int = 0,
    block: int = 0,
    file: LogFile | None = None,
) -> AsyncGenerator[Found, None]:
    """Yield the wanted records of a stretch of a run's log, in one round trip, while the host searches.

    Args:
        desk: The host.
        run: Whose log.
        wanted: Which records.
        first: Offset to begin at.
        last: Offset to end at; by default the end of the log as it is now.
        backward: Whether the latest come first; those of one `Found` are in their order all the same.
        limit: Lines that are enough, 0 for all; a few more may come.
        block: Bytes that the host searches at once; by default several millions.
        file: Which file is meant where the log was rotated; `RemoteError` of kind `gone` when it is nowhere any more.
    """
    file = file or LogFile()
    grammar = engine(run.engine or "sglang").grammar()
    key = secrets.token_hex(8)
    args: dict[str, object] = {"path": run.log, "key": key, "first": first, "last": last}
    args |= {"backward": backward, "limit": limit, "block": block, "inode": file.inode, **question(wanted, grammar)}
    reader = _Reader(run, wanted)
    stream = desk.link.stream("seek_log", args, file.head)
    size = parts = known = 0
    at = first if last is None or not backward else last
    async with contextlib.aclosing(stream):
        async for reply in stream:
            if not reply.more:
                known = int(reply.result["size"])
                if not reply.result["limited"]:
                    at = first if backward else known if last is None else min(last, known)
                break
            records = reader.read(reply.result["stretches"], reply.body)
            if reply.result["whole"] and backward:
                records += reader.close()  # what comes next stands before it
            at, whole, known = int(reply.result["at"]), bool(reply.result["whole"]), int(reply.result["size"])
            yield Found(tuple(records), at, whole, known)
            size, parts = size + len(reply.body), parts + 1
            if size >= TAKEN_BYTES or parts >= TAKEN_PARTS:
                with contextlib.suppress(RemoteError):  # it has ended meanwhile
                    await desk.link.call("followed", {"key": key, "bytes": size, "parts": parts})
                size = parts = 0
    yield Found(tuple(reader.close()), at, True, known)


async def past(desk: Desk, run: Run, wanted: RecordFilter) -> AsyncGenerator[LogRecord, None]:
    """Yield the wanted records of the whole of a run's log as it is now; a failed run's failure comes last."""
    record: LogRecord | None = None
    async with contextlib.aclosing(search(desk, run, wanted)) as source:
        async for found in source:
            for record in found.records:
                yield record
    verdict = failure_record(run)
    if verdict is not None and wanted.accepts(verdict) and not tells(record, verdict):
        yield verdict


def question(wanted: RecordFilter, grammar: Grammar) -> Mapping[str, object]:
    """Return what a host is asked for: at least the lines of all records that a filter accepts."""
    if wanted.pattern is not None:
        text = wanted.pattern.pattern
        plain = text.isascii() and not _SPECIAL.search(text)
        told = {"literal" if plain else "pattern": text}
        return {**told, "ignore_case": bool(wanted.pattern.flags & re.IGNORECASE), "inverse": wanted.inverse}
    if wanted.ranks:
        name, number = wanted.ranks[0]
        return {"pattern": rf"{name or '[A-Z_]'}_?0*{number}(?!\d)", "ignore_case": True}
    if wanted.kinds and wanted.kinds <= FLOOD:
        return {"pattern": grammar.flood_words}
    if (wanted.kinds and not wanted.kinds & FLOOD) or wanted.level in ("warning", "error"):
        return {"skip": grammar.flood}
    return {}


class _Reader:
    """Reads the records of stretches; none is told twice, although stretches may overlap."""

    def __init__(self, run: Run, wanted: RecordFilter) -> None:
        self._run = run
        self._wanted = wanted
        self._parser: LogParser | None = None
        self._told: set[int] = set()

    def read(self, stretches: list[list[int]], body: bytes) -> list[LogRecord]:
        """Return the wanted records of some stretches of the log."""
        records: list[LogRecord] = []
        at = 0
        for offset, length in stretches:
            if self._parser is None or self._parser.fed != offset:
                records += self.close()
                self._parser = parser_of(self._run, offset)
            records += self._fresh(self._parser.feed(body[at : at + length]))
            at += length
        return records

    def close(self) -> list[LogRecord]:
        """Return what the last stretch ended with."""
        return self._fresh(self._parser.close()) if self._parser is not None else []

    def _fresh(self, records: list[LogRecord]) -> list[LogRecord]:
        fresh = [record for record in records if self._wanted.accepts(record) and record.offset not in self._told]
        self._told.update(record.offset for record in fresh)
        return fresh

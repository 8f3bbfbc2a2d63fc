"""A run's log read for what it tells of the run: its start-up, its failure, its last lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.domain.run import LogKind, LogRecord, Run
from console.domain.starting import Usual
from console.engines.protocol import Engine, Watch
from console.engines.records import LogParser
from console.engines.registry import engine
from console.errors import RemoteError
from console.operations import log_parts, starting
from console.operations.desk import Desk

HEAD_BYTES = 4 * 1024 * 1024
"""Read from the start of a log: the start-up."""

TAIL_BYTES = 256 * 1024
"""Read from its end when it is longer than that: the failure."""

SLICE = 16 * 1024
"""Bytes parsed at a time: a few milliseconds."""

LAST_LINES = 5


@dataclass(slots=True)
class Reading:
    """A run's log read so far."""

    watch: Watch
    parser: LogParser
    patterns: tuple[str, ...] = ()
    """Evidence texts to look for."""
    inode: int = 0
    offset: int = 0
    """Where reading goes on."""
    evidence: set[str] = field(default_factory=set)
    resolved: Mapping[str, object] = field(default_factory=dict)
    last_lines: list[str] = field(default_factory=list)
    adapter: Engine | None = None
    progress: starting.Progress = field(default_factory=starting.Progress)
    usual: Usual = field(default_factory=Usual)
    adopted: bool = False
    """Whether it was started otherwise: a rotation may have put its start-up among logs of servers before it."""

    @property
    def by_http(self) -> bool:
        """Whether HTTP decides that the server is ready, since its log need not say it."""
        return self.adopted or (self.adapter is not None and self.adapter.ready_by_http)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.offset += len(data)
        self.take(self.parser.feed(data))

    async def absorb(self, data: bytes) -> None:
        """Take many bytes, and let the screen be drawn in between."""
        for start in range(0, len(data), SLICE):
            self.feed(data[start : start + SLICE])
            await asyncio.sleep(0)

    def take(self, records: Sequence[LogRecord]) -> None:
        """Take the next records."""
        for record in records:
            self.watch.see(record)
            self.progress.see(record)
            self.evidence.update(text for text in self.patterns if text in record.raw)
            if record.kind is LogKind.PHASE and self.adapter is not None:
                told = self.adapter.resolved_from_log(record.raw)
                self.resolved = {**self.resolved, **told} if told else self.resolved
        if records:
            lines = [line for record in records[-LAST_LINES:] for line in record.raw.split("\n") if line.strip()]
            self.last_lines = (self.last_lines + lines)[-LAST_LINES:]


def reading_of(run: Run, patterns: Sequence[str] = (), offset: int = 0) -> Reading:
    """Return a reading that has seen nothing of the run's log yet."""
    adapter = engine(run.engine)
    parser = LogParser(adapter.grammar(), offset=offset, utc_offset_s=run.utc_offset_s)
    adopted = not run.launched
    return Reading(adapter.watch(), parser, tuple(patterns), offset=offset, adapter=adapter, adopted=adopted)


async def read_through(desk: Desk, run: Run, patterns: Sequence[str] = ()) -> Reading:
    """Read a run's log: its first megabytes, those before a rotation too, and the end where it is longer than those."""
    reading = reading_of(run, patterns)
    try:
        head = await desk.link.call("read_log", {"path": run.log, "offset": 0, "length": HEAD_BYTES, "beside": run.log})
    except RemoteError as error:
        if error.kind == "enoent":
            return reading
        raise
    if run.folder and run.log.startswith(f"{run.folder}/"):  # elsewhere it may be that of a server before
        await _read_before(desk, run, reading, str(head.result.get("older") or ""))
    reading.inode = int(head.result["inode"])
    await reading.absorb(head.body)
    if int(head.result["size"]) > HEAD_BYTES + TAIL_BYTES:
        tail = await desk.link.call("read_log", {"path": run.log, "offset": -TAIL_BYTES, "length": TAIL_BYTES})
        start = tail.body.find(b"\n") + 1
        adapter = engine(run.engine)
        reading.offset = int(tail.result["offset"]) + start
        reading.parser = LogParser(adapter.grammar(), offset=reading.offset, utc_offset_s=run.utc_offset_s)
        await reading.absorb(tail.body[start:])
    return reading


async def _read_before(desk: Desk, run: Run, reading: Reading, older: str) -> None:
    """Read the start-up in the oldest file that rotations have left of a log."""
    oldest = ""
    while older:
        oldest = older
        older, _ = await log_parts.beside(desk, run, path=older)
    if oldest:
        first = await desk.link.call("read_log", {"path": oldest, "offset": 0, "length": HEAD_BYTES})
        await reading.absorb(first.body)
        reading.take(reading.parser.close())
        reading.offset, reading.parser = 0, reading_of(run).parser

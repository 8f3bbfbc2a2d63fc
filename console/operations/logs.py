"""Logs: records of a file that people were sent, and of a run on the host, followed without loss."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from console.domain.run import LogKind, LogRecord, Run
from console.engines import registry
from console.engines.protocol import Engine, Watch
from console.engines.records import LogParser
from console.errors import ConsoleError, LinkLostError
from console.operations.desk import Desk
from console.operations.following import BACKLOG_LINES, Batch, batches
from console.operations.log_files import recognised
from console.operations.log_parts import SETTLE_S, LogFile, Part, link_up, parser_of, parts, settled
from console.operations.running import run_of

RUNS_LOOKED_AT = 100
_WORK = (LogKind.DECODE, LogKind.PREFILL)
_FALLS = frozenset(["child", "killed", "native"])
"""Signatures of a process that is gone."""

__all__ = ["SETTLE_S", "Part", "follow", "link_up", "parts", "records", "to_end"]


def records(data: Iterable[bytes], *, engine: str = "") -> Iterator[LogRecord]:
    """Return the records of a whole log; the last one of a run that failed is its failure.

    Args:
        data: Its bytes, cut anywhere.
        engine: Whose log it is; by default what its first bytes look like.
    """
    chunks = iter(data)
    first = next(chunks, b"")
    adapter = _adapter(engine or _known(recognised(first)))
    parser, watch = LogParser(adapter.grammar()), adapter.watch()
    last: LogRecord | None = None
    held, end = False, _End()
    for record in _all(parser, itertools.chain((first,), chunks)):
        if held and last is not None:
            yield last
        watch.see(last := record)
        end.see(record)
        if not (held := record.kind is LogKind.FAILURE):  # only a failure may have more to tell at the end
            yield record
    verdict = verdict_record(watch, ended=watch.ended or held or end.fell)
    if verdict is not None and not (watch.ended or held or end.tells(verdict)):
        verdict = None
    if held and last is not None:
        whole = verdict is not None and verdict.offset == last.offset
        yield verdict._replace(raw=last.raw) if whole and verdict is not None else last
        if whole or not (watch.ended or end.life):
            return  # told, or a choice of lines, each told by itself
    if verdict is not None:
        yield verdict


@dataclass(slots=True)
class _End:
    """What a file's records say of its end."""

    life: bool = False
    """Whether it is the log of a run."""
    signatures: set[str] = field(default_factory=set)
    _worked: int = -1
    _went_on: int = -1
    _ready: bool = False
    _uncaught: int = -1

    @property
    def fell(self) -> bool:
        """Whether a process is gone, or a start ended in an exception that nothing but noise came after."""
        return bool(self.signatures & _FALLS) or (self._uncaught > self._went_on and not self._ready)

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        if record.kind is LogKind.FAILURE:
            name = str(record.values.get("signature"))
            self.signatures.add(name)
            self._uncaught = record.offset if name == "uncaught" else self._uncaught
        elif record.kind in _WORK:
            self._worked = self._went_on = record.offset
            self.life = self._ready = True
        elif record.kind is LogKind.PHASE:
            name = str(record.values.get("phase"))
            self.life, self._ready = True, self._ready or name == "ready"
            self._went_on = record.offset if name != "stopping" else self._went_on

    def tells(self, verdict: LogRecord) -> bool:
        """Return whether a file that does not say that its run has ended ends with this failure all the same."""
        if verdict.values.get("signature") == "nccl" and not self.fell:
            return False  # said by a watchdog, that ends the process in words of its own
        return verdict.offset > self._worked and (self.life or len(self.signatures) == 1)


def _all(parser: LogParser, chunks: Iterable[bytes]) -> Iterator[LogRecord]:
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.close()


def verdict_record(watch: Watch, *, ended: bool) -> LogRecord | None:
    """Return the failure of a run as the record that ends its log."""
    first, failure = watch.failure_record(ended=ended), watch.failure(ended=ended)
    if first is None or failure is None:
        return None
    return LogRecord(
        LogKind.FAILURE,
        raw="\n".join(first.lines),
        time=first.time,
        clock=first.clock,
        source=first.source,
        values={**first.values, "hint": failure.hint} if failure.hint else first.values,
        severity="error",
        cause=failure.cause,
        lines=first.lines,
        offset=first.offset,
    )


def as_json(record: LogRecord) -> Mapping[str, object]:
    """Return a record as design section 10 writes it."""
    told: dict[str, object] = {
        "time": record.time,
        "source": dict(record.source),
        "kind": record.kind.value,
        "values": dict(record.values),
        "raw": record.raw,
        "clock": record.clock or None,
        "offset": record.offset,
    }
    if record.severity:
        told["severity"] = record.severity
    if record.kind is LogKind.FAILURE:
        told["cause"] = record.cause
        told["lines"] = list(record.lines)
    return told


async def follow(
    desk: Desk, run: Run, *, from_offset: int | None = None, tail_lines: int = BACKLOG_LINES
) -> AsyncGenerator[tuple[LogRecord, ...], None]:
    """Yield the records of a run's log as they come, for ever; nothing is lost or doubled over reconnects.

    Whoever follows the same run shares one follower: its bytes are fetched and read once.

    Args:
        desk: The host.
        run: Whose log.
        from_offset: Byte to begin at; by default the last lines.
        tail_lines: 0 when the past is not wanted.
    """
    source = followed(desk, run, from_offset=from_offset, tail_lines=tail_lines)
    async with contextlib.aclosing(source):
        async for batch in source:
            if batch.records:
                yield batch.records


async def followed(
    desk: Desk, run: Run, *, from_offset: int | None = None, tail_lines: int = BACKLOG_LINES
) -> AsyncGenerator[Batch, None]:
    """Yield what `follow` does, with the files that the records stand in, and when one began anew."""
    if not run.log:
        raise ConsoleError(f"port {run.port}: no log is known of a server that tokwatt did not start")
    source = batches(desk, run, from_offset=from_offset, tail_lines=tail_lines)
    async with contextlib.aclosing(source):
        async for batch in source:
            if batch.records or batch.anew:
                yield batch


async def to_end(desk: Desk, run: Run, *, lines: int = 1000) -> AsyncGenerator[LogRecord, None]:
    """Yield a run's records as they come until the run has ended and its log is read."""
    parser: LogParser | None = None
    ended = asyncio.create_task(_final_size(desk, run), name="run end")
    source = parts(desk, run.log, offset=None if lines else 0, lines=lines or None)
    try:
        async with contextlib.aclosing(settled(source)) as stream:
            async for part in stream:
                if part is not None and (parser is None or part.event in ("truncated", "rotated")):
                    for record in parser.close() if parser else ():
                        yield record
                    parser = parser_of(run, part.offset)
                if parser is not None:
                    for record in parser.feed(part.data) if part else parser.settle():
                        yield record
                    if ended.done() and parser.fed >= ended.result():
                        break
    finally:
        ended.cancel()
    for record in parser.close() if parser else ():
        yield record


async def _final_size(desk: Desk, run: Run) -> int:
    """Return the size of a run's log when the run has ended."""
    while True:
        try:
            async for reply in desk.link.stream("watch_run", {"folder": run.folder, "every_ms": 300}):
                if reply.result["exit"] is not None or (reply.result["pid"] and not reply.result["alive"]):
                    return int(reply.result["log_size"])
        except LinkLostError:
            await asyncio.sleep(0.3)
            await link_up(desk)


async def past(desk: Desk, run: Run, *, lines: int = 1000) -> AsyncGenerator[LogRecord, None]:
    """Yield the last records of a run's log as it is now (0: all); a failed run's failure comes last."""
    parser: LogParser | None = None
    last: LogRecord | None = None
    size = int((await desk.link.call("run_state", {"folder": run.folder})).result["log_size"])
    source = parts(desk, run.log, offset=None if lines else 0, lines=lines or None)
    async with contextlib.aclosing(source):
        async for part in source:
            parser = parser or parser_of(run, part.offset)
            for last in parser.feed(part.data):
                yield last
            if part.offset + len(part.data) >= size:
                break
    for last in parser.close() if parser else ():
        yield last
    verdict = failure_record(run)
    if verdict is not None and not tells(last, verdict):
        yield verdict


def tells(last: LogRecord | None, verdict: LogRecord) -> bool:
    """Return whether the last record of a log is the failure of its run already, and not another that came later."""
    return last is not None and last.kind is LogKind.FAILURE and verdict.cause.startswith(last.cause)


def failure_record(run: Run) -> LogRecord | None:
    """Return the failure of a run as the record that ends its log; `None` when it did not fail."""
    if run.failure is None:
        return None
    lines = tuple(str(line) for line in run.failure.lines)
    values = {"hint": run.failure.hint} if run.failure.hint else {}
    return LogRecord(
        LogKind.FAILURE, "\n".join(lines), values=values, severity="error", cause=run.failure.cause, lines=lines
    )


async def earlier_runs(desk: Desk, run_id: str) -> tuple[Run, ...]:
    """Return the runs of the host that began before one, the latest first; those that left no log are left out."""
    states = (await desk.link.call("runs", {"limit": RUNS_LOOKED_AT})).result["runs"]
    runs = sorted((run_of(state) for state in states), key=lambda run: run.started_at, reverse=True)
    began = next((run.started_at for run in runs if run.id == run_id), float("inf"))
    return tuple(run for run in runs if run.log and run.id != run_id and run.started_at <= began)


async def whole(desk: Desk, run: Run, offset: int, length: int, file: LogFile | None = None) -> str:
    """Return a stretch of a run's log, such as a record that is too long to be kept."""
    file = file or LogFile()
    args = {"path": run.log, "offset": offset, "length": length, "inode": file.inode}
    reply = await desk.link.call("read_log", args, file.head)
    return reply.body.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _known(kind: str) -> str:
    return kind if kind in registry.ENGINES else ""


def _adapter(kind: str) -> Engine:
    return registry.engine(kind or "sglang")

"""Logs: records of a file that people were sent, and of a run on the host, followed without loss."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass

from console.domain.host import Link
from console.domain.run import LogKind, LogRecord, Run
from console.engines import registry
from console.engines.protocol import Engine, Watch
from console.engines.records import LogParser
from console.errors import ConsoleError, LinkLostError, RemoteError
from console.operations.desk import Desk

SETTLE_S = 1.0
"""A record that could go on is shown when the log was quiet for so long."""

TAKEN_BYTES = 128 * 1024
TAKEN_PARTS = 16
"""How much is taken before the host is told, so that it sends more."""

SEEN = 64


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a log as they came."""

    data: bytes
    offset: int
    inode: int
    event: str = ""
    """`start`, `resumed`, `truncated` or `rotated`."""


def records(data: Iterable[bytes], *, engine: str = "") -> Iterator[LogRecord]:
    """Return the records of a whole log; the last one of a run that failed is its failure."""
    adapter = _adapter(engine)
    parser, watch = LogParser(adapter.grammar()), adapter.watch()
    last: LogRecord | None = None
    for chunk in data:
        for last in parser.feed(chunk):
            watch.see(last)
            yield last
    for last in parser.close():
        watch.see(last)
        yield last
    verdict = verdict_record(watch, ended=watch.ended)
    if verdict is not None and last is not None and verdict.offset != last.offset and watch.ended:
        yield verdict


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
    desk: Desk, run: Run, *, from_offset: int | None = None, tail_lines: int = 1000
) -> AsyncGenerator[tuple[LogRecord, ...], None]:
    """Yield the records of a run's log as they come, for ever; nothing is lost or doubled over reconnects.

    Args:
        desk: The host.
        run: Whose log.
        from_offset: Byte to begin at; by default where the last `tail_lines` lines begin.
        tail_lines: How much of the past is wanted.
    """
    if not run.log:
        raise ConsoleError(f"port {run.port}: no log is known of a server that tokwatt did not start")
    adapter = _adapter(run.engine)
    parser: LogParser | None = None
    lines = tail_lines if from_offset is None else None
    source = parts(desk, run.log, offset=from_offset, lines=lines)
    async with contextlib.aclosing(_settled(source)) as settled:
        async for part in settled:
            found: list[LogRecord] = []
            if part is None:
                found = parser.settle() if parser else []
            else:
                if parser is None or part.event in ("truncated", "rotated"):
                    found = parser.close() if parser else []
                    parser = LogParser(adapter.grammar(), offset=part.offset, utc_offset_s=run.utc_offset_s)
                found += parser.feed(part.data)
            if found:
                yield tuple(found)


async def to_end(desk: Desk, run: Run, *, lines: int = 1000) -> AsyncGenerator[LogRecord, None]:
    """Yield a run's records as they come until the run has ended and its log is read."""
    adapter = _adapter(run.engine)
    parser: LogParser | None = None
    ended = asyncio.create_task(_final_size(desk, run), name="run end")
    source = parts(desk, run.log, offset=None if lines else 0, lines=lines or None)
    try:
        async with contextlib.aclosing(_settled(source)) as settled:
            async for part in settled:
                if part is not None and (parser is None or part.event in ("truncated", "rotated")):
                    parser = LogParser(adapter.grammar(), offset=part.offset, utc_offset_s=run.utc_offset_s)
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
    adapter = _adapter(run.engine)
    parser: LogParser | None = None
    last: LogRecord | None = None
    size = int((await desk.link.call("run_state", {"folder": run.folder})).result["log_size"])
    source = parts(desk, run.log, offset=None if lines else 0, lines=lines or None)
    async with contextlib.aclosing(source):
        async for part in source:
            parser = parser or LogParser(adapter.grammar(), offset=part.offset, utc_offset_s=run.utc_offset_s)
            for last in parser.feed(part.data):
                yield last
            if part.offset + len(part.data) >= size:
                break
    for last in parser.close() if parser else ():
        yield last
    verdict = failure_record(run)
    if verdict is not None and (last is None or last.kind is not LogKind.FAILURE):
        yield verdict


def failure_record(run: Run) -> LogRecord | None:
    """Return the failure of a run as the record that ends its log; `None` when it did not fail."""
    if run.failure is None:
        return None
    lines = tuple(str(line) for line in run.failure.lines)
    values = {"hint": run.failure.hint} if run.failure.hint else {}
    return LogRecord(
        LogKind.FAILURE, "\n".join(lines), values=values, severity="error", cause=run.failure.cause, lines=lines
    )


async def parts(
    desk: Desk, path: str, *, offset: int | None = None, inode: int = 0, seen: bytes = b"", lines: int | None = None
) -> AsyncGenerator[Part, None]:
    """Yield the bytes of a growing file, for ever, continuing after a lost link where it stopped."""
    while True:
        key = secrets.token_hex(8)
        args: dict[str, object] = {"path": path, "key": key}
        args |= {"lines": lines} if offset is None else {"offset": offset, "inode": inode}
        stream = desk.link.stream("follow", args, seen)
        size = count = 0
        try:
            async for reply in stream:
                if not reply.more:
                    break
                part = Part(reply.body, int(reply.result["offset"]), int(reply.result["inode"]), reply.result["event"])
                offset, inode = part.offset + len(part.data), part.inode
                seen = b"" if part.event in ("truncated", "rotated") else (seen + part.data)[-SEEN:]
                if part.data or part.event:
                    yield part
                size, count = size + len(part.data), count + 1
                if size >= TAKEN_BYTES or count >= TAKEN_PARTS:
                    with contextlib.suppress(RemoteError):
                        await desk.link.call("followed", {"key": key, "bytes": size, "parts": count})
                    size = count = 0
        except LinkLostError:
            await asyncio.sleep(0.2)
        finally:
            await stream.aclose()
        await link_up(desk)


async def link_up(desk: Desk) -> None:
    """Return when the link is up; raise `LinkLostError` when it will not come back by itself."""
    async for state in desk.link.changes():
        if state.link is Link.UP:
            return
        if state.link in (Link.REFUSED, Link.CLOSED):
            break
    raise LinkLostError(f"{desk.link.host.name}: not connected", desk.link.state.error)


async def _settled(source: AsyncGenerator[Part, None]) -> AsyncGenerator[Part | None, None]:
    """Yield parts, and `None` whenever none came for `SETTLE_S`."""
    queue: asyncio.Queue[Part | BaseException] = asyncio.Queue(4)

    async def pump() -> None:
        try:
            async for part in source:
                await queue.put(part)
        except Exception as error:  # noqa: BLE001 - handed to the reader, who raises it
            await queue.put(error)

    task = asyncio.create_task(pump(), name="log")
    try:
        while True:
            try:
                item = await asyncio.wait_for(queue.get(), SETTLE_S)
            except TimeoutError:
                yield None
                continue
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await source.aclose()


def _adapter(kind: str) -> Engine:
    return registry.engine(kind or "sglang")

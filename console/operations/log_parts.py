"""The bytes of a growing log on a host, fetched without loss over lost links, truncation and rotation."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from console.domain.host import Link
from console.domain.run import Run
from console.engines.records import LogParser
from console.engines.registry import engine
from console.errors import LinkLostError, RemoteError
from console.operations.desk import Desk

SETTLE_S = 1.0
"""A record that could go on is shown when the log was quiet for so long."""

TAKEN_BYTES = 128 * 1024
TAKEN_PARTS = 16
"""How much is taken before the host is told, so that it sends more."""

SEEN = 64


HEAD = 256
"""Bytes at a file's start that tell it from another."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """Which file a log was when it was read: its path may be another's after a rotation."""

    inode: int = 0
    """0 when it is not known: whatever is there now is meant."""
    head: bytes = b""
    """How it begins: a truncated file keeps its inode."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a log as they came."""

    data: bytes
    offset: int
    inode: int
    event: str = ""
    """`start`, `resumed`, `truncated` or `rotated`."""
    size: int = 0
    """Of the file, with a `start`."""
    head: bytes = b""
    """How the file begins, with a `start`."""


async def beside(desk: Desk, run: Run, *, path: str = "", file: LogFile | None = None) -> tuple[str, str]:
    """Return the paths of the files before and behind one of a run's log; empty where rotations left none.

    Args:
        desk: The host.
        run: Whose log.
        path: Of the file; by default the present one's.
        file: Which file is meant, wherever a rotation has put it.
    """
    file = file or LogFile()
    args = {"path": path or run.log, "offset": 0, "length": 1, "inode": file.inode, "beside": run.log}
    told = (await desk.link.call("read_log", args, file.head)).result
    return str(told.get("older") or ""), str(told.get("newer") or "")


def parser_of(run: Run, offset: int) -> LogParser:
    """Return a reader of a run's log from a byte on."""
    grammar = engine(run.engine or "sglang").grammar()
    return LogParser(grammar, offset=offset, utc_offset_s=run.utc_offset_s, since=run.started_at)


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
                part = _part(reply.result, reply.body)
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


async def settled(source: AsyncGenerator[Part, None]) -> AsyncGenerator[Part | None, None]:
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
                async with asyncio.timeout(SETTLE_S):  # `wait_for` of Python 3.11 may swallow a cancellation
                    item = await queue.get()
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


def _part(told: Mapping[str, Any], data: bytes) -> Part:
    head = bytes.fromhex(str(told.get("head") or ""))
    return Part(data, int(told["offset"]), int(told["inode"]), str(told["event"]), int(told.get("size") or 0), head)

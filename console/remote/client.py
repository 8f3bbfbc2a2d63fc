"""The console's end of the outpost: requests by number, answers in any order, streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.errors import DeadlineError, LinkLostError, RemoteError
from console.remote.channel import Channel
from console.remote.outpost import wire

STREAM_DEPTH = 64
"""Parts of one stream that wait unread before the whole channel waits."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or one part of a streamed one."""

    result: Mapping[str, Any]
    body: bytes = b""
    more: bool = False


@dataclass(slots=True)
class _Waiter:
    queue: asyncio.Queue[Reply | Exception] = field(default_factory=lambda: asyncio.Queue(STREAM_DEPTH))
    dropped: bool = False


class OutpostClient:
    """Requests over one channel to a running outpost.

    Args:
        channel: The started program, its payload already written.
        name: Host name for messages.
    """

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel = channel
        self._name = name
        self._waiters: dict[int, _Waiter] = {}
        self._next = 1
        self._write = asyncio.Lock()
        self._ended: Exception | None = None
        self._reader = asyncio.create_task(self._read_all(), name=f"outpost {name}")

    @property
    def ended(self) -> bool:
        """Whether the channel is gone."""
        return self._ended is not None

    async def call(self, op: str, args: Mapping[str, Any], body: bytes, deadline_s: float) -> Reply:
        """Send a request and return its one answer.

        Raises:
            RemoteError: The operation failed there; `kind` and `facts` say how.
            DeadlineError: No answer within `deadline_s`.
            LinkLostError: The channel ended first.
        """
        number, waiter = await self._send(op, args, body)
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    reply = await self._next_of(waiter)
                    if not reply.more:
                        return reply
        except TimeoutError:
            raise DeadlineError(
                f"{self._name}: no answer to {op} within {deadline_s:g} s",
                hint="the host may be overloaded",
                kind="deadline",
            ) from None
        finally:
            await self._drop(number, waiter)

    async def stream(self, op: str, args: Mapping[str, Any], body: bytes) -> AsyncIterator[Reply]:
        """Send a request and yield its parts; the last one has `more` false.

        Closing the iterator early stops the operation on the host.
        """
        number, waiter = await self._send(op, args, body)
        try:
            while True:
                reply = await self._next_of(waiter)
                yield reply
                if not reply.more:
                    return
        finally:
            await self._drop(number, waiter)

    async def close(self) -> None:
        """End the outpost by closing its input."""
        await self._channel.close()
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        self._end(LinkLostError(f"{self._name}: the connection was closed"))

    async def wait_ended(self) -> Exception:
        """Return why the channel ended, when it has."""
        await asyncio.wait([self._reader])
        return self._ended or LinkLostError(f"{self._name}: the connection ended")

    async def _send(self, op: str, args: Mapping[str, Any], body: bytes) -> tuple[int, _Waiter]:
        if self._ended is not None:
            raise self._ended
        number, self._next = self._next, self._next + 1
        waiter = self._waiters[number] = _Waiter()
        frame = wire.pack({"id": number, "op": op, "args": dict(args)}, body)
        async with self._write:
            await self._channel.write(frame)
        return number, waiter

    async def _next_of(self, waiter: _Waiter) -> Reply:
        item = await waiter.queue.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def _drop(self, number: int, waiter: _Waiter) -> None:
        if self._waiters.pop(number, None) is None or self._ended is not None:
            return
        waiter.dropped = True
        while not waiter.queue.empty():  # frees a reader that waits to put
            waiter.queue.get_nowait()
        frame = wire.pack({"id": 0, "op": "cancel", "args": {"id": number}})
        with contextlib.suppress(LinkLostError, OSError):
            async with self._write:
                await self._channel.write(frame)

    async def _read_all(self) -> None:
        buffer = bytearray()
        try:
            while chunk := await self._channel.read(262144):
                buffer += chunk
                await self._take_frames(buffer)
            status = await self._channel.wait()
            said = self._channel.complaint().decode("utf-8", "replace").strip().rpartition("\n")[2]
            error: Exception = LinkLostError(f"{self._name}: the outpost ended", f"exit {status}: {said[:300]}")
        except wire.WireError as fault:
            error = RemoteError(f"{self._name}: the outpost's answer is not readable", str(fault), kind="wire")
        except LinkLostError as lost:
            error = lost
        self._end(error)

    async def _take_frames(self, buffer: bytearray) -> None:
        while (newline := buffer.find(b"\n", 0, 64)) >= 0:
            head_size, body_size = wire.sizes(bytes(buffer[: newline + 1]))
            end = newline + 1 + head_size + body_size
            if len(buffer) < end:
                return
            header = wire.header(bytes(buffer[newline + 1 : newline + 1 + head_size]))
            body = bytes(buffer[end - body_size : end])
            del buffer[:end]
            await self._deliver(header, body)
        if len(buffer) >= 64 and b"\n" not in buffer[:64]:
            raise wire.WireError("no frame where one should start")

    async def _deliver(self, header: dict[str, Any], body: bytes) -> None:
        number = int(header.get("id", 0))
        waiter = self._waiters.get(number)
        if waiter is None:
            return
        if header.get("ok"):
            item: Reply | Exception = Reply(header.get("result") or {}, body, bool(header.get("more")))
        else:
            item = self._fault(header)
        if not waiter.dropped:
            await waiter.queue.put(item)

    def _fault(self, header: dict[str, Any]) -> RemoteError:
        facts = header.get("facts") or {}
        path = facts.get("path")
        where = f"{self._name}:{path}" if path else self._name
        return RemoteError(
            f"{where}: {header.get('message')}",
            kind=str(header.get("kind")),
            facts=facts,
            detail=str(facts.get("detail", "")),
        )

    def _end(self, error: Exception) -> None:
        if self._ended is None:
            self._ended = error
            for waiter in self._waiters.values():
                while waiter.queue.full():
                    waiter.queue.get_nowait()
                waiter.queue.put_nowait(error)

"""The console's end of the outpost: requests by number, answers in any order, streams."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.errors import DeadlineError, LinkLostError, RemoteError
from console.remote.channel import Channel
from console.remote.outpost import wire

CANCEL_S = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or one part of a streamed one."""

    result: Mapping[str, Any]
    body: bytes = b""
    more: bool = False


@dataclass(slots=True)
class _Waiter:
    queue: asyncio.Queue[Reply | Exception] = field(default_factory=asyncio.Queue)
    """Bounded by the window: the outpost sends no more parts than were asked for."""
    taken: int = 0
    done: bool = False


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
        self._over = asyncio.Event()
        self.heard_at = time.monotonic()
        """When the last bytes came, whatever they were."""
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
        number, waiter = self._register()
        try:
            async with asyncio.timeout(deadline_s):
                await self._send(number, op, args, body)
                while True:
                    reply = await self._next_of(number, waiter)
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

    async def stream(self, op: str, args: Mapping[str, Any], body: bytes) -> AsyncGenerator[Reply, None]:
        """Send a request and yield its parts; the last one has `more` false.

        Closing the iterator early stops the operation on the host.
        """
        number, waiter = self._register()
        try:
            await self._send(number, op, args, body)
            while True:
                reply = await self._next_of(number, waiter)
                yield reply
                if not reply.more:
                    return
        finally:
            await self._drop(number, waiter)

    async def close(self) -> None:
        """End the outpost by closing its input."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        self._end(LinkLostError(f"{self._name}: the connection was closed"))
        await self._channel.close()

    async def wait_ended(self) -> Exception:
        """Return why the channel ended, when it has."""
        await self._over.wait()
        return self._ended or LinkLostError(f"{self._name}: the connection ended")

    def _register(self) -> tuple[int, _Waiter]:
        if self._ended is not None:
            raise self._ended
        number, self._next = self._next, self._next + 1
        waiter = self._waiters[number] = _Waiter()
        return number, waiter

    async def _send(self, number: int, op: str, args: Mapping[str, Any], body: bytes = b"") -> None:
        frame = wire.pack({"id": number, "op": op, "args": dict(args)}, body)
        async with self._write:
            await self._channel.write(frame)

    async def _next_of(self, number: int, waiter: _Waiter) -> Reply:
        item = await waiter.queue.get()
        if isinstance(item, Exception):
            waiter.done = True
            raise item
        if not item.more:
            waiter.done = True
            return item
        waiter.taken += 1
        if waiter.taken == wire.WINDOW // 2:
            waiter.taken = 0
            await self._send(0, "credit", {"id": number, "parts": wire.WINDOW // 2})
        return item

    async def _drop(self, number: int, waiter: _Waiter) -> None:
        self._waiters.pop(number, None)
        if waiter.done or self._ended is not None:
            return
        with contextlib.suppress(LinkLostError, OSError, TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                await self._send(0, "cancel", {"id": number})

    async def _read_all(self) -> None:
        buffer = bytearray()
        try:
            while chunk := await self._channel.read(262144):
                self.heard_at = time.monotonic()
                buffer += chunk
                self._take_frames(buffer)
            status = await self._channel.wait()
            said = self._channel.complaint().decode("utf-8", "replace").strip().rpartition("\n")[2]
            error: Exception = LinkLostError(f"{self._name}: the outpost ended", f"exit {status}: {said[:300]}")
            if status is None:
                error = LinkLostError(f"{self._name}: the connection is lost", said[:300])
        except wire.WireError as fault:
            error = RemoteError(f"{self._name}: the outpost's answer is not readable", str(fault), kind="wire")
        except LinkLostError as lost:
            error = lost
        except RemoteError as fault:
            error = fault
        self._end(error)

    def _take_frames(self, buffer: bytearray) -> None:
        while (newline := buffer.find(b"\n", 0, 64)) >= 0:
            head_size, body_size = wire.sizes(bytes(buffer[: newline + 1]))
            end = newline + 1 + head_size + body_size
            if len(buffer) < end:
                return
            header = wire.header(bytes(buffer[newline + 1 : newline + 1 + head_size]))
            body = bytes(buffer[end - body_size : end])
            del buffer[:end]
            self._deliver(header, body)
        if len(buffer) >= 64 and b"\n" not in buffer[:64]:
            raise wire.WireError("no frame where one should start")

    def _deliver(self, header: dict[str, Any], body: bytes) -> None:
        number = int(header.get("id", 0))
        waiter = self._waiters.get(number)
        if waiter is None:
            return
        if header.get("ok"):
            item: Reply | Exception = Reply(header.get("result") or {}, body, bool(header.get("more")))
        else:
            item = self._fault(header)
        waiter.queue.put_nowait(item)

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
            self._over.set()
            for waiter in self._waiters.values():
                waiter.queue.put_nowait(error)

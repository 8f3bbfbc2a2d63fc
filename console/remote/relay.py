"""A TCP stream through the outpost: for a container, whose ports the host need not have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from console.errors import ConsoleError, RemoteError
from console.remote.client import Reply

Send = Callable[[int, bytes], Awaitable[None]]
"""Sends bytes over the stream of a number."""


class RelayedSocket:
    """A stream that the outpost holds."""

    def __init__(self, parts: AsyncGenerator[Reply, None], send: Send, number: int) -> None:
        self._parts = parts
        self._send = send
        self._number = number
        self._rest = b""
        self._ended = False

    @classmethod
    async def open(cls, parts: AsyncGenerator[Reply, None], send: Send) -> RelayedSocket:
        """Return the stream when it is open; raise what kept it from that."""
        first = await anext(parts)
        return cls(parts, send, int(first.result["socket"]))

    async def read(self, size: int) -> bytes:
        """Return the next bytes, `b""` at the end."""
        while not self._rest and not self._ended:
            try:
                reply = await anext(self._parts)
            except StopAsyncIteration:
                self._ended = True
                break
            except RemoteError as error:
                self._ended = True
                raise ConnectionResetError(error.one_line()) from error
            self._rest = reply.body
            self._ended = not reply.more
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            await self._send(self._number, data)
        except RemoteError as error:
            self._ended = True
            raise ConnectionResetError(error.one_line()) from error

    async def close(self) -> None:
        """Close the stream; one that the host no longer has is closed."""
        self._ended = True
        try:
            await self._parts.aclose()
        except ConsoleError:
            return

    @property
    def ended(self) -> bool:
        """Whether the other side is known to have closed it."""
        return self._ended

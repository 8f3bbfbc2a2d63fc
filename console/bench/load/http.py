"""One keep-alive HTTP/1.1 connection and the events of a streamed answer, with their times."""

from __future__ import annotations

import asyncio
import time
from typing import Callable, Dict, List, Optional, Tuple

READ_SIZE = 65536
HEAD_LIMIT = 65536


class Broken(Exception):
    """The answer could not be read to its end; the message says why."""


class Events:
    """Splits a body into server-sent events; keeps their times, the last two payloads and the first error.

    Args:
        count: Is told how many events came, and when.
    """

    def __init__(self, count: Callable[[int, float], None]) -> None:
        self._rest = b""
        self._count = count
        self.stamps: List[float] = []
        self.last = b""
        self.before_last = b""
        self.error = b""
        self.done = False

    @property
    def unread(self) -> bytes:
        """The beginning of a body that held no event."""
        return b"" if self.stamps else self._rest[:200]

    def take(self, piece: bytes, now: float) -> None:
        """Take the next bytes of the body, which arrived at `now`."""
        if self._rest:
            piece = self._rest + piece  # before line ends are looked for: one may come in two pieces
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n")
        events = piece.split(b"\n\n")
        self._rest = events.pop()
        found = 0
        for event in events:
            if not event.startswith(b"data:"):
                event = b"\n".join(line for line in event.split(b"\n") if line.startswith(b"data:"))
                if not event:
                    continue
            payload = event[5:].strip()
            if payload == b"[DONE]":
                self.done = True
                continue
            self.stamps.append(now)
            self.before_last, self.last = self.last, payload
            if payload.startswith(b'{"error"') and not self.error:
                self.error = payload
            found += 1
        if found:
            self._count(found, now)


class Connection:
    """A connection that is opened when needed and kept as long as the server keeps it."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._reader: Optional[asyncio.StreamReader] = None
        self._writer: Optional[asyncio.StreamWriter] = None
        self._buffer = bytearray()
        self.headers: Dict[str, str] = {}
        """Of the last answer, names in lower case."""

    @property
    def is_open(self) -> bool:
        """Whether the next request would use a connection that is there already."""
        return self._writer is not None

    async def open(self) -> None:
        """Connect unless connected."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=2**20)
            self._buffer.clear()

    def close(self) -> None:
        """Let go at once; the server sees the end and drops the request."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def exchange(self, request: bytes, take: Callable[[bytes, float], None]) -> Tuple[int, bytes]:
        """Send a request, hand the body to `take` when the answer is 200, else return the body.

        Raises:
            Broken: The server hung up or answered something that is not HTTP.
        """
        assert self._writer is not None
        self._writer.write(request)
        status, headers = await self._head()
        self.headers = headers
        kept: List[bytes] = []
        sink = take if status == 200 else lambda piece, now: kept.append(piece)
        closing = headers.get("connection", "").lower() == "close"
        if headers.get("transfer-encoding", "").lower() == "chunked":
            await self._chunked(sink)
        elif "content-length" in headers:
            if not headers["content-length"].isdigit():
                raise Broken("the answer is not HTTP: its length is %r" % headers["content-length"][:80])
            await self._counted(int(headers["content-length"]), sink)
        else:
            await self._to_the_end(sink)
            closing = True
        if closing:
            self.close()
        return status, b"".join(kept)

    async def _more(self) -> float:
        assert self._reader is not None
        data = await self._reader.read(READ_SIZE)
        if not data:
            raise Broken("the server hung up in the middle of the answer" if self._buffer else "the server hung up")
        self._buffer += data
        return time.perf_counter()

    async def _head(self) -> Tuple[int, Dict[str, str]]:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end >= 0:
                break
            if len(self._buffer) > HEAD_LIMIT:
                raise Broken("the answer is not HTTP")
            await self._more()
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/") or not parts[1].isdigit():
            raise Broken("the answer is not HTTP: %r" % lines[0][:80])
        if parts[1] == "100":
            return await self._head()
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(parts[1]), headers

    async def _chunked(self, take: Callable[[bytes, float], None]) -> None:
        buffer = self._buffer
        now = time.perf_counter()
        while True:
            place = 0
            while True:
                end = buffer.find(b"\r\n", place)
                if end < 0:
                    break
                try:
                    size = int(bytes(buffer[place:end]).partition(b";")[0], 16)
                except ValueError:
                    size = -1
                if size < 0:
                    raise Broken("a chunk has no size: %r" % bytes(buffer[place:end])[:80].decode("latin-1"))
                after = end + 2 + size
                if len(buffer) < after + 2:
                    break
                if size == 0:
                    del buffer[:after]
                    await self._trailers()
                    return
                take(bytes(buffer[end + 2 : after]), now)
                place = after + 2
            del buffer[:place]
            now = await self._more()

    async def _trailers(self) -> None:
        """Read to the empty line that ends a chunked body."""
        while True:
            end = self._buffer.find(b"\r\n")
            if end >= 0:
                del self._buffer[: end + 2]
            if end == 0:
                return
            if end < 0:
                await self._more()

    async def _counted(self, size: int, take: Callable[[bytes, float], None]) -> None:
        now = time.perf_counter()
        while size > 0:
            if not self._buffer:
                now = await self._more()
            piece = bytes(self._buffer[:size])
            del self._buffer[: len(piece)]
            size -= len(piece)
            take(piece, now)

    async def _to_the_end(self, take: Callable[[bytes, float], None]) -> None:
        assert self._reader is not None
        now = time.perf_counter()
        while True:
            if self._buffer:
                take(bytes(self._buffer), now)
                self._buffer.clear()
            data = await self._reader.read(READ_SIZE)
            if not data:
                return
            now = time.perf_counter()
            self._buffer += data

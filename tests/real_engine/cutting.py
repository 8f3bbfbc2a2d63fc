"""A way to the host that can go dead: bytes are swallowed both ways and nobody is told, as where a cable is pulled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from console.remote.target import Target


class Way:
    """Carries connections to the host while it is whole."""

    def __init__(self, there: Target) -> None:
        self._there = there
        self._whole = asyncio.Event()
        self._whole.set()
        self._carrying: set[asyncio.Task[None]] = set()
        self.target = there

    def cut(self) -> None:
        """Let nothing through from now on; connections stay open, and new ones get no answer."""
        self._whole.clear()

    def mend(self) -> None:
        """Let everything through again, what was sent meanwhile included, as repeated packets would be."""
        self._whole.set()

    async def open(self) -> asyncio.Server:
        """Listen, and name the port in `target`, under the host's own key."""
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        known = Path(self._there.known_hosts)
        known.write_text(known.read_text() + known.read_text().replace(f":{self._there.port} ", f":{port} "))
        self.target = replace(self._there, port=port)
        return listener

    async def close(self) -> None:
        """Let go of every connection."""
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        await self._whole.wait()
        there_reader, there_writer = await asyncio.open_connection(self._there.address, self._there.port)
        try:
            await asyncio.gather(self._carry(reader, there_writer), self._carry(there_reader, writer))
        finally:
            writer.close()
            there_writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def way_to(there: Target) -> AsyncIterator[Way]:
    """A way to a host, whole at first."""
    way = Way(there)
    listener = await way.open()
    try:
        yield way
    finally:
        listener.close()
        way.mend()
        await way.close()

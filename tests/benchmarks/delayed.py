"""A long way on loopback: a TCP proxy that holds every byte back for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def delayed(port: int, delay_s: float) -> AsyncIterator[int]:
    """Yield a port that leads to `port`, each direction `delay_s` later."""
    tasks: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def deliver() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        task = asyncio.create_task(deliver())
        tasks.add(task)
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 18):
                queue.put_nowait((loop.time() + delay_s, data))
        queue.put_nowait((loop.time() + delay_s, b""))
        with contextlib.suppress(OSError):
            await task

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    for task in tasks:
        task.cancel()

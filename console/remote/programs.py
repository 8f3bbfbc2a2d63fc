"""The one place where programs are started on a host, or in its container, within a budget of channels."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

from console.errors import ConsoleError, DeadlineError, RemoteError
from console.remote.channel import Channel, Transport
from console.remote.framed import framed
from console.remote.shell_answers import Completed

CHANNEL_BUDGET = 7
"""Channels open at once beside the outpost's, below OpenSSH's `MaxSessions 10`."""

START_S = 30.0
"""How long a channel may take to open, and a program of ours to begin, slow login scripts included."""

Note = Callable[[str, float, int | None, ConsoleError | None], None]
"""Takes what was done, when it began, its exit status and its fault: for the command log."""


class Programs:
    """Starts programs of one host through its transport.

    Args:
        transport: SSH or this machine.
        prefix: Put before every argument list: a container's `docker exec -i NAME`.
        note: Called after each program.
    """

    def __init__(self, transport: Transport, prefix: Sequence[str], note: Note) -> None:
        self._transport = transport
        self._prefix = tuple(prefix)
        self._note = note
        self._budget = asyncio.Semaphore(CHANNEL_BUDGET)

    @property
    def host(self) -> str:
        """The name of the host."""
        return self._transport.host.name

    async def start(self, argv: Sequence[str]) -> Channel:
        """Start a program in a channel that its taker closes.

        Raises:
            DeadlineError: The channel did not open in time.
        """
        try:
            async with asyncio.timeout(START_S):
                return await self._transport.start([*self._prefix, *argv])
        except TimeoutError:
            raise DeadlineError(
                f"{self.host}: {argv[0]} could not be started within {START_S:g} s", kind="deadline"
            ) from None

    @contextlib.asynccontextmanager
    async def channel(self, argv: Sequence[str]) -> AsyncIterator[Channel]:
        """Hold a channel within the budget.

        Raises:
            RemoteError: Too many programs run over this connection already (kind `sessions`).
        """
        try:
            await asyncio.wait_for(self._budget.acquire(), START_S)
        except TimeoutError:
            raise RemoteError(
                f"{self.host}: {CHANNEL_BUDGET} programs run over this connection already", kind="sessions"
            ) from None
        try:
            channel = await self.start(argv)
            try:
                yield channel
            finally:
                await channel.close()
        finally:
            self._budget.release()

    async def run(self, argv: Sequence[str], input: bytes, deadline_s: float) -> Completed:
        """Run a program to its end in a channel of its own, framed and bounded by `timeout`.

        Raises:
            DeadlineError: It did not end in time; it was told to stop.
        """
        began = time.monotonic()
        frame = framed(argv, deadline_s)
        async with self.channel(frame.argv) as channel:
            try:
                async with asyncio.timeout(deadline_s + 2):
                    await channel.write(input)
                    await channel.end_input()
                    output = bytearray()
                    while chunk := await channel.read():
                        output += chunk
                    await channel.wait()
            except TimeoutError:
                self._note(" ".join(argv), began, None, None)
                raise self.late(argv, deadline_s) from None
        status, inner = frame.unpacked(bytes(output))
        self._note(" ".join(argv), began, status, None)
        if status in (124, 137) and time.monotonic() - began >= deadline_s:
            raise self.late(argv, deadline_s)
        return Completed(status, inner, channel.complaint())

    def late(self, argv: Sequence[str], deadline_s: float) -> DeadlineError:
        """Return the fault of a program that did not end in time."""
        return DeadlineError(f"{self.host}: {argv[0]} did not end within {deadline_s:g} s", kind="deadline")

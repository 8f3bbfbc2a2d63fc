"""The connection to one host kept up: dialled, the outpost begun, pinged, dialled again when it breaks."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

from console.domain.host import HostFacts, Link, LinkState
from console.errors import (
    ConnectError,
    ConsoleError,
    DeadlineError,
    HostKeyChangedError,
    HostKeyUnknownError,
    LinkLostError,
    LoginRefusedError,
    UsageError,
)
from console.remote.beginning import begin_outpost, container_fault, facts_of
from console.remote.channel import Transport
from console.remote.client import OutpostClient
from console.remote.marked import NotBegunError
from console.remote.programs import START_S, Note, Programs
from console.remote.shell_answers import Completed
from console.remote.shell_mode import ShellClient

Client = OutpostClient | ShellClient

PING_S = 2.0
DEAF_S = 20.0
"""A host from which nothing at all came for so long, though asked, is lost."""

STEADY_S = 10.0
"""A connection that held for so long starts its back-off afresh when it breaks."""

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

FINAL = (LoginRefusedError, HostKeyUnknownError, HostKeyChangedError, UsageError)
"""Faults that trying again does not cure."""


class Upkeep:
    """Holds the connection of one host and publishes its state.

    Args:
        transport: SSH or this machine.
        programs: Starts the outpost.
        interpreters: Tried in this order for the outpost.
        run_in_channel: Runs a program without an outpost, for hosts without Python.
        on_state: Called when the state of the connection has changed.
        note: Called when the connection stands.
    """

    def __init__(
        self,
        transport: Transport,
        programs: Programs,
        interpreters: Sequence[str],
        run_in_channel: Callable[[Sequence[str], bytes, float], Awaitable[Completed]],
        on_state: Callable[[LinkState], None] | None,
        note: Note,
    ) -> None:
        self._transport = transport
        self._programs = programs
        self._interpreters = tuple(interpreters)
        self._run_in_channel = run_in_channel
        self._on_state = on_state
        self._note = note
        self._client: Client | None = None
        self._changed = asyncio.Event()
        self._dialing = asyncio.Lock()
        self._supervisor: asyncio.Task[None] | None = None
        self._pinger: asyncio.Task[None] | None = None
        self._closed = False
        self._up_since = 0.0
        self.state = LinkState()
        self.facts: HostFacts | None = None
        self.python = self._interpreters[0]
        """The interpreter that the outpost runs in."""
        self.noise = b""
        """What login scripts printed before the outpost began."""
        self.begin_ms: float | None = None
        """From opening the outpost's channel to its first sign."""
        self.round_trips = 0
        """Requests sent and waited for since the connection came up."""

    async def changes(self) -> AsyncIterator[LinkState]:
        """Yield the state now and whenever it has changed; the latest, not every one."""
        while not self._closed:
            event, state = self._changed, self.state
            yield state
            if self.state is state:
                await event.wait()

    async def begin(self) -> HostFacts:
        """Bring the connection up once, and keep it up from here on.

        Raises:
            ConnectError: Host unreachable, login refused, host key unknown or changed.
        """
        name = self._transport.host.name
        await self._dial()
        if self._supervisor is None or self._supervisor.done():
            self._supervisor = asyncio.create_task(self._keep_up(), name=f"link {name}")
        if self._pinger is None:
            self._pinger = asyncio.create_task(self._ping(), name=f"ping {name}")
        assert self.facts is not None
        return self.facts

    async def close(self) -> None:
        """End our programs there and disconnect."""
        self._closed = True
        for task in (self._pinger, self._supervisor):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._client is not None:
            await self._client.close()
        await self._transport.close()
        self._set(LinkState(Link.CLOSED))

    def client(self) -> Client:
        """Return what answers on the host now.

        Raises:
            LinkLostError: Nothing does.
        """
        if self._client is None or self._client.ended:
            state = self.state
            wait = f"trying again in {max(0.0, state.retry_at - time.monotonic()):.0f} s" if state.retry_at else ""
            raise LinkLostError(f"{self._transport.host.name}: not connected", state.error, wait)
        return self._client

    def heard(self, rtt_ms: float | None = None) -> None:
        """Take note that the host has answered; a round-trip time is shown at once."""
        now = time.monotonic()
        if rtt_ms is not None:
            self._set(replace(self.state, heard_at=now, rtt_ms=rtt_ms))
        else:
            self.state = replace(self.state, heard_at=now)

    async def ping(self) -> float:
        """Return the round-trip time of a small request in ms, and show it in the state."""
        began = time.monotonic()
        await self.client().call("ping", {}, b"", 10)
        rtt_ms = (time.monotonic() - began) * 1000
        self.heard(rtt_ms)
        return rtt_ms

    async def _dial(self) -> None:
        async with self._dialing:
            if self._closed:
                raise LinkLostError(f"{self._transport.host.name}: the connection was closed")
            if self._client is not None and not self._client.ended:
                return
            self._set(replace(self.state, link=Link.CONNECTING, since=time.monotonic(), retry_at=None))
            try:
                await self._transport.dial()
                await self._open()
            except ConsoleError as error:
                link = Link.REFUSED if isinstance(error, FINAL) else Link.LOST
                self._set(LinkState(link, since=time.monotonic(), error=error.title))
                raise

    async def _open(self) -> None:
        """Start the outpost, or do without when the host has no Python for it."""
        began, wall = time.monotonic(), time.time()
        name = self._transport.host.name
        reasons: list[str] = []
        client: Client | None = None
        for python in self._interpreters:
            try:
                client, channel = await begin_outpost(self._programs.start, python, name, START_S)
                self.noise, self.begin_ms = channel.noise, channel.delay_ms
                self.python = python
                break
            except NotBegunError as error:
                reasons.append(f"{python}: {error.said or f'exit {error.status}'}")
        degraded = ""
        if client is None and (container := container_fault(reasons)):
            await self._abandon()
            raise ConnectError(
                f"{name}: {container}", "; ".join(reasons)[:400], "start it there, or change container under [host]"
            )
        if client is None:
            degraded = f"no Python 3.9 or newer on the host ({'; '.join(reasons)})"
            client = ShellClient(self._run_in_channel, self._transport.wait_closed, name)
        self._client = client
        try:
            said = (await client.call("hello", {}, b"", START_S)).result
        except ConsoleError as error:
            await self._abandon()
            raise ConnectError(f"{name}: nothing can be run there", error.one_line()) from error
        self.facts = facts_of(said, wall)
        self.round_trips = 0
        self._up_since = time.monotonic()
        self._set(LinkState(Link.UP, since=self._up_since, heard_at=self._up_since, degraded=degraded))
        self._note("connected, outpost started" if not degraded else f"connected, {degraded}", began, 0, None)

    async def _abandon(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await self._transport.close()

    async def _keep_up(self) -> None:
        tries = 0
        while not self._closed:
            if self._client is not None:
                why = await self._client.wait_ended()
                tries = 0 if time.monotonic() - self._up_since > STEADY_S else tries
                self._set(LinkState(Link.LOST, since=time.monotonic(), error=getattr(why, "title", str(why))))
                await self._abandon()
            pause = BACKOFF_S[min(tries, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)
            self._set(replace(self.state, retry_at=time.monotonic() + pause))
            await asyncio.sleep(pause)
            tries += 1
            try:
                await self._dial()
            except FINAL:
                return
            except ConsoleError:
                await self._abandon()

    async def _ping(self) -> None:
        """Measure the way every now and then, and notice a host that has gone deaf."""
        while not self._closed:
            await asyncio.sleep(PING_S)
            client = self._client
            if client is None or client.ended or isinstance(client, ShellClient):
                continue
            try:
                await self.ping()
            except DeadlineError:
                if time.monotonic() - client.heard_at > DEAF_S:
                    await client.close()  # the supervisor dials again
            except ConsoleError:
                continue

    def _set(self, state: LinkState) -> None:
        self.state = state
        event, self._changed = self._changed, asyncio.Event()
        event.set()
        if self._on_state is not None:
            self._on_state(state)

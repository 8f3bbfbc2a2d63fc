"""A link to one host: the connection kept up, the outpost on it, programs and sockets within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.domain.host import CommandRecord, Host, HostFacts, Link, LinkState
from console.domain.text import clean
from console.errors import (
    ConnectError,
    ConsoleError,
    DeadlineError,
    HostKeyChangedError,
    HostKeyUnknownError,
    LinkLostError,
    LoginRefusedError,
    RemoteError,
    UsageError,
)
from console.remote import sending
from console.remote.beginning import begin_outpost, facts_of
from console.remote.channel import Channel, Login, Socket, Transport
from console.remote.client import OutpostClient, Reply
from console.remote.framed import framed
from console.remote.marked import MarkedChannel, NotBegunError
from console.remote.shell_answers import Completed
from console.remote.shell_mode import ShellClient

CHANNEL_BUDGET = 7
"""Channels open at once beside the outpost's, below OpenSSH's `MaxSessions 10`."""

START_S = 30.0
"""How long a channel may take to open, and a program of ours to begin, slow login scripts included."""

PING_S = 2.0
DEAF_S = 20.0
"""A host from which nothing at all came for so long, though asked, is lost."""

STEADY_S = 10.0
"""A connection that held for so long starts its back-off afresh when it breaks."""

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

FINAL = (LoginRefusedError, HostKeyUnknownError, HostKeyChangedError, UsageError)
"""Faults that trying again does not cure."""


class HostLink:
    """One host, reached through a transport; survives the loss of the connection.

    Args:
        transport: SSH or this machine.
        prefix: Put before every argument list: a container's `docker exec -i NAME`.
        python: Interpreter for sent programs where the host has no `python3` of 3.9 or newer.
        on_command: Called after each remote operation, for the command log.
        on_state: Called when the state of the connection has changed.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        prefix: Sequence[str] = (),
        python: str = "",
        on_command: Callable[[CommandRecord], None] | None = None,
        on_state: Callable[[LinkState], None] | None = None,
    ) -> None:
        self._transport = transport
        self._prefix = tuple(prefix)
        self._interpreters = tuple(dict.fromkeys(name for name in ("python3", python) if name))
        self._python = self._interpreters[0]
        self._on_command = on_command
        self._on_state = on_state
        self._client: OutpostClient | ShellClient | None = None
        self._facts: HostFacts | None = None
        self._state = LinkState()
        self._changed = asyncio.Event()
        self._budget = asyncio.Semaphore(CHANNEL_BUDGET)
        self._dialing = asyncio.Lock()
        self._supervisor: asyncio.Task[None] | None = None
        self._pinger: asyncio.Task[None] | None = None
        self._closed = False
        self._up_since = 0.0
        self.noise = b""
        """What login scripts printed before the outpost began."""
        self.begin_ms: float | None = None
        """From opening the outpost's channel to its first sign."""
        self.round_trips = 0
        """Requests sent and waited for since the link came up, to be compared with budgets."""

    @property
    def host(self) -> Host:
        """The host, resolved."""
        return self._transport.host

    @property
    def state(self) -> LinkState:
        """The state of the connection now."""
        return self._state

    @property
    def facts(self) -> HostFacts:
        """What the host said of itself; only after `connect`."""
        if self._facts is None:
            raise LinkLostError(f"{self.host.name}: not connected yet")
        return self._facts

    @property
    def known_facts(self) -> HostFacts | None:
        """What the host said of itself, `None` before the first connection."""
        return self._facts

    async def changes(self) -> AsyncIterator[LinkState]:
        """Yield the state now and whenever it has changed; the latest, not every one."""
        while not self._closed:
            event, state = self._changed, self._state
            yield state
            if self._state is state:
                await event.wait()

    async def connect(self) -> HostFacts:
        """Bring the link up once, and keep it up from here on.

        Raises:
            ConnectError: Host unreachable, login refused, host key unknown or changed.
        """
        await self._dial()
        if self._supervisor is None or self._supervisor.done():
            self._supervisor = asyncio.create_task(self._keep_up(), name=f"link {self.host.name}")
        if self._pinger is None:
            self._pinger = asyncio.create_task(self._ping(), name=f"ping {self.host.name}")
        return self.facts

    async def close(self) -> None:
        """End our programs there and disconnect; servers and runs go on."""
        self._closed = True
        for task in (self._pinger, self._supervisor):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._client is not None:
            await self._client.close()
        await self._transport.close()
        self._set(LinkState(Link.CLOSED))

    async def call(
        self, op: str, args: Mapping[str, Any] | None = None, body: bytes = b"", *, deadline_s: float = 30.0
    ) -> Reply:
        """Do one operation of the outpost: one round trip.

        Raises:
            RemoteError: It failed there; `kind` and `facts` say how.
            DeadlineError: No answer in time; the host was told to stop.
            LinkLostError: The link is down or went down; nothing is repeated silently.
        """
        client = self._up()
        began = time.monotonic()
        self.round_trips += op != "ping"  # what the pinger sends between is no part of an action
        try:
            reply = await client.call(op, args or {}, body, deadline_s)
        except ConsoleError as error:
            self._note(_told(op, args), began, 1, error)
            raise
        self._heard(began if op == "ping" else None)
        if op != "ping":
            self._note(_told(op, args), began, 0)
        return reply

    async def stream(
        self, op: str, args: Mapping[str, Any] | None = None, body: bytes = b""
    ) -> AsyncGenerator[Reply, None]:
        """Do one streaming operation; closing the iterator stops it on the host."""
        client = self._up()
        began = time.monotonic()
        self.round_trips += 1
        parts = client.stream(op, args or {}, body)
        try:
            async for reply in parts:
                self._heard(None)
                yield reply
        except ConsoleError as error:
            self._note(_told(op, args), began, 1, error)
            raise
        else:
            self._note(_told(op, args), began, 0)
        finally:
            await parts.aclose()

    async def run(self, argv: Sequence[str], *, input: bytes = b"", deadline_s: float = 30.0) -> Completed:
        """Run a program to its end and return what it said; its standard input is closed.

        The outpost runs it: one round trip, no session of its own, no login script, and an end
        with the deadline. Without an outpost it gets a channel, framed and bounded by `timeout`.

        Raises:
            DeadlineError: It did not end in time; it was told to stop.
            RemoteError: It could not be started.
        """
        client = self._up()
        if isinstance(client, ShellClient):
            return await self._run_in_channel(argv, input, deadline_s)
        output = bytearray()
        began = time.monotonic()
        self.round_trips += 1
        try:
            async with asyncio.timeout(deadline_s + 2):
                async with contextlib.aclosing(
                    client.stream("run", {"argv": list(argv), "timeout_s": deadline_s}, input)
                ) as parts:
                    async for reply in parts:
                        if not reply.more:
                            break
                        output += reply.body
        except TimeoutError:
            self._note(" ".join(argv), began, None)
            raise self._late(argv, deadline_s) from None
        except RemoteError as error:
            self._note(" ".join(argv), began, None, error)
            if error.kind == "deadline":
                raise self._late(argv, deadline_s) from None
            raise
        self._heard(None)
        status = int(reply.result["status"])
        self._note(" ".join(argv), began, status)
        return Completed(status, bytes(output), reply.body)

    def _late(self, argv: Sequence[str], deadline_s: float) -> DeadlineError:
        return DeadlineError(f"{self.host.name}: {argv[0]} did not end within {deadline_s:g} s", kind="deadline")

    async def _run_in_channel(self, argv: Sequence[str], input: bytes, deadline_s: float) -> Completed:
        began = time.monotonic()
        self.round_trips += 2  # engineering fact: a channel costs one to open, one to execute
        frame = framed(argv, deadline_s)
        async with self._channel(frame.argv) as channel:
            try:
                async with asyncio.timeout(deadline_s + 2):
                    await channel.write(input)
                    await channel.end_input()
                    output = bytearray()
                    while chunk := await channel.read():
                        output += chunk
                    await channel.wait()
            except TimeoutError:
                self._note(" ".join(argv), began, None)
                raise self._late(argv, deadline_s) from None
        status, inner = frame.unpacked(bytes(output))
        self._note(" ".join(argv), began, status)
        if status in (124, 137) and time.monotonic() - began >= deadline_s:
            raise self._late(argv, deadline_s)
        return Completed(status, inner, channel.complaint())

    @contextlib.asynccontextmanager
    async def program(
        self, package: str, module: str, args: Sequence[str] = (), extra: Sequence[str] = (), python: str = ""
    ) -> AsyncIterator[Channel]:
        """Send a program of ours and hold it for as long as the context lasts.

        Args:
            package: Dotted name of the package here, sent whole.
            module: Module in it with `main()`.
            args: Its command line.
            extra: Third-party modules that travel along.
            python: Interpreter; empty takes the link's.

        Raises:
            RemoteError: The host has no Python for it (kind `degraded`), or it did not begin.
        """
        began = time.monotonic()
        if isinstance(self._up(), ShellClient) and not python:
            raise RemoteError(
                f"{self.host.name}: {package.rpartition('.')[2]} needs Python there",
                self._state.degraded,
                kind="degraded",
            )
        async with self._channel(sending.argv(python or self._python)) as raw:
            channel = MarkedChannel(raw)
            await channel.write(sending.payload(package, module, args, extra))
            self._note(f"sent {package.rpartition('.')[2]} {' '.join(args)}", began, 0)
            yield channel

    @contextlib.asynccontextmanager
    async def _channel(self, argv: Sequence[str]) -> AsyncIterator[Channel]:
        """Hold a channel within the budget."""
        try:
            await asyncio.wait_for(self._budget.acquire(), START_S)
        except TimeoutError:
            raise RemoteError(
                f"{self.host.name}: {CHANNEL_BUDGET} programs run over this connection already", kind="sessions"
            ) from None
        try:
            channel = await self._start(argv)
            try:
                yield channel
            finally:
                await channel.close()
        finally:
            self._budget.release()

    async def socket(self, address: str, port: int) -> Socket:
        """Open a TCP stream from the host to a port of its own."""
        self._up()
        return await self._transport.socket(address, port)

    @property
    def login(self) -> Login | None:
        """How the last login went; `None` on this machine."""
        return self._transport.login

    def ignored_settings(self) -> tuple[str, ...]:
        """Return what of `~/.ssh/config` is not honoured, a sentence each."""
        return self._transport.ignored_settings()

    async def measure(self) -> float:
        """Return the round-trip time of a small request in ms, and show it in the state."""
        began = time.monotonic()
        await self.call("ping", deadline_s=10)
        return (time.monotonic() - began) * 1000

    async def shell_ms(self) -> float:
        """Return how long a program that does nothing takes in a channel: what a login shell costs."""
        began = time.monotonic()
        async with self._channel(["true"]) as channel:
            while await channel.read():
                pass
        return (time.monotonic() - began) * 1000

    def _up(self) -> OutpostClient | ShellClient:
        if self._client is None or self._client.ended:
            state = self._state
            wait = f"trying again in {max(0.0, state.retry_at - time.monotonic()):.0f} s" if state.retry_at else ""
            raise LinkLostError(f"{self.host.name}: not connected", state.error, wait)
        return self._client

    async def _start(self, argv: Sequence[str]) -> Channel:
        """The one place where programs are started on a host, or in its container."""
        try:
            async with asyncio.timeout(START_S):
                return await self._transport.start([*self._prefix, *argv])
        except TimeoutError:
            raise DeadlineError(
                f"{self.host.name}: {argv[0]} could not be started within {START_S:g} s", kind="deadline"
            ) from None

    async def _dial(self) -> None:
        async with self._dialing:
            if self._closed:
                raise LinkLostError(f"{self.host.name}: the connection was closed")
            if self._client is not None and not self._client.ended:
                return
            self._set(replace(self._state, link=Link.CONNECTING, since=time.monotonic(), retry_at=None))
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
        reasons: list[str] = []
        client: OutpostClient | ShellClient | None = None
        for python in self._interpreters:
            try:
                client, channel = await begin_outpost(self._start, python, self.host.name, START_S)
                self.noise, self.begin_ms = channel.noise, channel.delay_ms
                self._python = python
                break
            except NotBegunError as error:
                reasons.append(f"{python}: {error.said or f'exit {error.status}'}")
        degraded = ""
        if client is None:
            degraded = f"no Python 3.9 or newer on the host ({'; '.join(reasons)})"
            client = ShellClient(self._run_in_channel, self._transport.wait_closed, self.host.name)
        self._client = client
        try:
            said = (await client.call("hello", {}, b"", START_S)).result
        except ConsoleError as error:
            await self._abandon()
            raise ConnectError(f"{self.host.name}: nothing can be run there", error.one_line()) from error
        self._facts = facts_of(said, wall)
        self.round_trips = 0
        self._up_since = time.monotonic()
        self._set(LinkState(Link.UP, since=self._up_since, heard_at=self._up_since, degraded=degraded))
        self._note("connected, outpost started" if not degraded else f"connected, {degraded}", began, 0)

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
            self._set(replace(self._state, retry_at=time.monotonic() + pause))
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
                await self.measure()
            except DeadlineError:
                if time.monotonic() - client.heard_at > DEAF_S:
                    await client.close()  # the supervisor dials again
            except ConsoleError:
                continue

    def _heard(self, began: float | None) -> None:
        now = time.monotonic()
        rtt = (now - began) * 1000 if began is not None else self._state.rtt_ms
        state = replace(self._state, heard_at=now, rtt_ms=rtt)
        if began is not None:
            self._set(state)
        else:
            self._state = state

    def _set(self, state: LinkState) -> None:
        self._state = state
        event, self._changed = self._changed, asyncio.Event()
        event.set()
        if self._on_state is not None:
            self._on_state(state)

    def _note(self, text: str, began: float, status: int | None, error: ConsoleError | None = None) -> None:
        if self._on_command is not None:
            ms = (time.monotonic() - began) * 1000
            said = clean(error.title if error else "")
            self._on_command(CommandRecord(time.time(), self.host.name, clean(text), ms, status, said))


def _told(op: str, args: Mapping[str, Any] | None) -> str:
    shown = " ".join(f"{key}={value!r:.120}" for key, value in (args or {}).items() if key not in ("env", "secrets"))
    return f"{op} {shown}".strip()

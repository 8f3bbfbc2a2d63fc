"""A link to one host: the connection kept up, the outpost on it, programs and sockets within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
)
from console.remote import sending
from console.remote.channel import Channel, Socket, Transport
from console.remote.client import OutpostClient, Reply

CHANNEL_BUDGET = 8
"""Channels open at once, below OpenSSH's `MaxSessions 10`."""

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

FINAL = (LoginRefusedError, HostKeyUnknownError, HostKeyChangedError)
"""Faults that trying again does not cure."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What a program left behind."""

    status: int | None
    output: bytes
    complaint: bytes


class HostLink:
    """One host, reached through a transport; survives the loss of the connection.

    Args:
        transport: SSH or this machine.
        prefix: Put before every argument list: a container's `docker exec -i NAME`.
        python: Interpreter for sent programs; empty looks for `python3`.
        on_command: Called after each remote operation, for the command log.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        prefix: Sequence[str] = (),
        python: str = "",
        on_command: Callable[[CommandRecord], None] | None = None,
    ) -> None:
        self._transport = transport
        self._prefix = tuple(prefix)
        self._python = python or "python3"
        self._on_command = on_command
        self._client: OutpostClient | None = None
        self._facts: HostFacts | None = None
        self._state = LinkState()
        self._changed = asyncio.Event()
        self._budget = asyncio.Semaphore(CHANNEL_BUDGET)
        self._dialing = asyncio.Lock()
        self._supervisor: asyncio.Task[None] | None = None
        self._closed = False
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
        if self._supervisor is None:
            self._supervisor = asyncio.create_task(self._keep_up(), name=f"link {self.host.name}")
        return self.facts

    async def close(self) -> None:
        """End our programs there and disconnect; servers and runs go on."""
        self._closed = True
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
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
        self.round_trips += 1
        try:
            reply = await client.call(op, args or {}, body, deadline_s)
        except ConsoleError as error:
            self._note(_told(op, args), began, 1, error)
            raise
        self._heard(began if op == "ping" else None)
        if op != "ping":
            self._note(_told(op, args), began, 0)
        return reply

    async def stream(self, op: str, args: Mapping[str, Any] | None = None, body: bytes = b"") -> AsyncIterator[Reply]:
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
            await parts.aclose()  # type: ignore[attr-defined]

    async def run(self, argv: Sequence[str], *, input: bytes = b"", deadline_s: float = 30.0) -> Completed:
        """Run a program to its end and return what it said; its standard input is closed.

        Raises:
            DeadlineError: It did not end in time; its input was closed.
            RemoteError: It could not be started.
        """
        began = time.monotonic()
        self.round_trips += 2  # engineering fact: a channel costs one to open, one to execute
        async with self._budget:
            channel = await self._start([*self._prefix, *argv])
            try:
                async with asyncio.timeout(deadline_s):
                    await channel.write(input)
                    await channel.end_input()
                    output = bytearray()
                    while chunk := await channel.read():
                        output += chunk
                    status = await channel.wait()
            except TimeoutError:
                self._note(" ".join(argv), began, None)
                raise DeadlineError(
                    f"{self.host.name}: {argv[0]} did not end within {deadline_s:g} s", kind="deadline"
                ) from None
            finally:
                await channel.close()
        self._note(" ".join(argv), began, status)
        return Completed(status, bytes(output), channel.complaint())

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
        """
        began = time.monotonic()
        async with self._budget:
            channel = await self._start([*self._prefix, *sending.argv(python or self._python)])
            try:
                await channel.write(sending.payload(package, module, args, extra))
                self._note(f"sent {package.rpartition('.')[2]} {' '.join(args)}", began, 0)
                yield channel
            finally:
                await channel.close()

    async def socket(self, address: str, port: int) -> Socket:
        """Open a TCP stream from the host to a port of its own."""
        self._up()
        return await self._transport.socket(address, port)

    def ignored_settings(self) -> tuple[str, ...]:
        """Return what of `~/.ssh/config` is not honoured, a sentence each."""
        return self._transport.ignored_settings()

    async def measure(self) -> float:
        """Return the round-trip time of a small request in ms, and show it in the state."""
        began = time.monotonic()
        await self.call("ping", deadline_s=10)
        return (time.monotonic() - began) * 1000

    def _up(self) -> OutpostClient:
        if self._client is None or self._client.ended:
            state = self._state
            wait = f"trying again in {max(0.0, state.retry_at - time.monotonic()):.0f} s" if state.retry_at else ""
            raise LinkLostError(f"{self.host.name}: not connected", state.error, wait)
        return self._client

    async def _start(self, argv: Sequence[str]) -> Channel:
        """The one place where programs are started on a host."""
        return await self._transport.start(argv)

    async def _dial(self) -> None:
        async with self._dialing:
            if self._client is not None and not self._client.ended:
                return
            self._set(replace(self._state, link=Link.CONNECTING, since=time.monotonic(), retry_at=None))
            try:
                await self._transport.dial()
                await self._start_outpost()
            except ConnectError as error:
                link = Link.REFUSED if isinstance(error, FINAL) else Link.LOST
                self._set(LinkState(link, since=time.monotonic(), error=error.title))
                raise

    async def _start_outpost(self) -> None:
        channel = await self._start([*self._prefix, *sending.argv(self._python)])
        await channel.write(sending.payload("console.remote.outpost", "serve"))
        client = OutpostClient(channel, self.host.name)
        began, wall = time.monotonic(), time.time()
        said = (await client.call("hello", {}, b"", 30)).result
        self._client = client
        self._facts = HostFacts(
            hostname=clean(str(said["hostname"])),
            user=str(said["user"]),
            uid=int(said["uid"]),
            home=str(said["home"]),
            system=str(said["system"]),
            python=f"{said['python']} {said['executable']}",
            state_home=str(said["state_home"]),
            boot_id=str(said["boot_id"]),
            clock_offset_s=float(said["time"]) - (wall + time.time()) / 2,
        )
        self.round_trips = 0
        self._set(LinkState(Link.UP, since=time.monotonic(), heard_at=time.monotonic()))
        self._note("connected, outpost started", began, 0)

    async def _keep_up(self) -> None:
        tries = 0
        while not self._closed:
            client = self._client
            if client is not None:
                why = await client.wait_ended()
                tries = 0
                self._set(LinkState(Link.LOST, since=time.monotonic(), error=getattr(why, "title", str(why))))
                await self._transport.close()
            pause = BACKOFF_S[min(tries, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)
            self._set(replace(self._state, retry_at=time.monotonic() + pause))
            await asyncio.sleep(pause)
            tries += 1
            try:
                await self._dial()
            except FINAL:
                return
            except (ConnectError, RemoteError):
                self._client = None

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

    def _note(self, text: str, began: float, status: int | None, error: ConsoleError | None = None) -> None:
        if self._on_command is not None:
            ms = (time.monotonic() - began) * 1000
            said = clean(error.title if error else "")
            self._on_command(CommandRecord(time.time(), self.host.name, clean(text), ms, status, said))


def _told(op: str, args: Mapping[str, Any] | None) -> str:
    shown = " ".join(f"{key}={value!r:.120}" for key, value in (args or {}).items() if key not in ("env", "secrets"))
    return f"{op} {shown}".strip()

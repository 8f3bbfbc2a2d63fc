"""A link to one host: operations of the outpost, programs and sockets over a connection that is kept up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from console.domain.host import CommandRecord, Host, HostFacts, LinkState
from console.domain.text import clean
from console.errors import ConsoleError, LinkLostError, RemoteError
from console.remote import sending
from console.remote.channel import Channel, Login, Socket, Transport
from console.remote.client import Reply
from console.remote.marked import MarkedChannel
from console.remote.programs import Programs
from console.remote.relay import RelayedSocket
from console.remote.shell_answers import Completed
from console.remote.shell_mode import ShellClient
from console.remote.upkeep import Upkeep


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
        self._on_command = on_command
        self._inside = bool(prefix)
        self._programs = Programs(transport, prefix, self._note)
        interpreters = tuple(dict.fromkeys(name for name in ("python3", python) if name))
        self._upkeep = Upkeep(transport, self._programs, interpreters, self._run_in_channel, on_state, self._note)

    @property
    def host(self) -> Host:
        """The host, resolved."""
        return self._transport.host

    @property
    def state(self) -> LinkState:
        """The state of the connection now."""
        return self._upkeep.state

    @property
    def facts(self) -> HostFacts:
        """What the host said of itself; only after `connect`."""
        if self._upkeep.facts is None:
            raise LinkLostError(f"{self.host.name}: not connected yet")
        return self._upkeep.facts

    @property
    def known_facts(self) -> HostFacts | None:
        """What the host said of itself, `None` before the first connection."""
        return self._upkeep.facts

    @property
    def noise(self) -> bytes:
        """What login scripts printed before the outpost began."""
        return self._upkeep.noise

    @property
    def begin_ms(self) -> float | None:
        """From opening the outpost's channel to its first sign."""
        return self._upkeep.begin_ms

    @property
    def round_trips(self) -> int:
        """Requests sent and waited for since the link came up, to be compared with budgets."""
        return self._upkeep.round_trips

    @property
    def login(self) -> Login | None:
        """How the last login went; `None` on this machine."""
        return self._transport.login

    def ignored_settings(self) -> tuple[str, ...]:
        """Return what of `~/.ssh/config` is not honoured, a sentence each."""
        return self._transport.ignored_settings()

    def changes(self) -> AsyncIterator[LinkState]:
        """Yield the state now and whenever it has changed; the latest, not every one."""
        return self._upkeep.changes()

    async def connect(self) -> HostFacts:
        """Bring the link up once, and keep it up from here on.

        Raises:
            ConnectError: Host unreachable, login refused, host key unknown or changed.
        """
        return await self._upkeep.begin()

    async def close(self) -> None:
        """End our programs there and disconnect; servers and runs go on."""
        await self._upkeep.close()

    async def call(
        self, op: str, args: Mapping[str, Any] | None = None, body: bytes = b"", *, deadline_s: float = 30.0
    ) -> Reply:
        """Do one operation of the outpost: one round trip.

        Raises:
            RemoteError: It failed there; `kind` and `facts` say how.
            DeadlineError: No answer in time; the host was told to stop.
            LinkLostError: The link is down or went down; nothing is repeated silently.
        """
        client = self._upkeep.client()
        began = time.monotonic()
        self._upkeep.round_trips += 1
        try:
            reply = await client.call(op, args or {}, body, deadline_s)
        except ConsoleError as error:
            self._note(_told(op, args), began, 1, error)
            raise
        self._upkeep.heard()
        self._note(_told(op, args), began, 0)
        return reply

    async def stream(
        self, op: str, args: Mapping[str, Any] | None = None, body: bytes = b""
    ) -> AsyncGenerator[Reply, None]:
        """Do one streaming operation; closing the iterator stops it on the host."""
        client = self._upkeep.client()
        began = time.monotonic()
        self._upkeep.round_trips += 1
        parts = client.stream(op, args or {}, body)
        try:
            async for reply in parts:
                self._upkeep.heard()
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
        client = self._upkeep.client()
        if isinstance(client, ShellClient):
            return await self._run_in_channel(argv, input, deadline_s)
        output = bytearray()
        began = time.monotonic()
        self._upkeep.round_trips += 1
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
            raise self._programs.late(argv, deadline_s) from None
        except RemoteError as error:
            self._note(" ".join(argv), began, None, error)
            if error.kind == "deadline":
                raise self._programs.late(argv, deadline_s) from None
            raise
        self._upkeep.heard()
        status = int(reply.result["status"])
        self._note(" ".join(argv), began, status)
        return Completed(status, bytes(output), reply.body)

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
        if isinstance(self._upkeep.client(), ShellClient) and not python:
            raise RemoteError(
                f"{self.host.name}: {package.rpartition('.')[2]} needs Python there",
                self.state.degraded,
                kind="degraded",
            )
        async with self._programs.channel(sending.argv(python or self._upkeep.python)) as raw:
            channel = MarkedChannel(raw)
            await channel.write(sending.payload(package, module, args, extra))
            self._note(f"sent {package.rpartition('.')[2]} {' '.join(args)}", began, 0)
            yield channel

    async def socket(self, address: str, port: int) -> Socket:
        """Open a TCP stream from the host, or from inside its container, to a port of its own."""
        client = self._upkeep.client()
        if not self._inside or isinstance(client, ShellClient):
            return await self._transport.socket(address, port)

        async def send(number: int, data: bytes) -> None:
            await client.call("socket_send", {"socket": number}, data, 30.0)

        parts = client.stream("socket", {"address": address, "port": port}, b"")
        return await RelayedSocket.open(parts, send)

    async def measure(self) -> float:
        """Return the round-trip time of a small request in ms, and show it in the state."""
        return await self._upkeep.ping()

    async def shell_ms(self) -> float:
        """Return how long a program that does nothing takes in a channel: what a login shell costs."""
        began = time.monotonic()
        async with self._programs.channel(["true"]) as channel:
            while await channel.read():
                pass
        return (time.monotonic() - began) * 1000

    async def _run_in_channel(self, argv: Sequence[str], input: bytes, deadline_s: float) -> Completed:
        self._upkeep.round_trips += 2  # engineering fact: a channel costs one to open, one to execute
        return await self._programs.run(argv, input, deadline_s)

    def _note(self, text: str, began: float, status: int | None, error: ConsoleError | None = None) -> None:
        if self._on_command is not None:
            ms = (time.monotonic() - began) * 1000
            said = clean(error.title if error else "")
            self._on_command(CommandRecord(time.time(), self.host.name, clean(text), ms, status, said))


def _told(op: str, args: Mapping[str, Any] | None) -> str:
    shown = " ".join(f"{key}={value!r:.120}" for key, value in (args or {}).items() if key not in ("env", "secrets"))
    return f"{op} {shown}".strip()

"""A host over SSH: hop by hop, every host key checked, programs and sockets on one connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.domain.host import Host
from console.errors import ConnectError, LinkLostError, RemoteError
from console.remote import hostkeys
from console.remote.channel import Login
from console.remote.identities import AskPassphrase, Identities, agent_socket, usual_key_files
from console.remote.quoting import command_line
from console.remote.settings import SYSTEM_CONFIG, Settings, resolve
from console.remote.ssh_channel import SshChannel, SshSocket
from console.remote.ssh_login import login_options, told_faults
from console.remote.target import Target

if TYPE_CHECKING:
    import asyncssh

CONNECT_S = 15
HOPS_LIMIT = 8

_FORBIDDEN = frozenset("'`\"$\\;&<>|(){} \t\r\n\0")


class SshTransport:
    """One SSH connection to a host, through its jump hosts.

    Args:
        target: What to dial.
        accept_key: Fingerprint of a new host's key that may be accepted and remembered.
        ask_passphrase: Asked for the passphrase of a key file when no other key logged in.
        config_files: Instead of `~/.ssh/config` and the system's.
        home: Folder of the login here, for `~`.
        connect_s: How long a silent address is waited for.
    """

    def __init__(
        self,
        target: Target,
        *,
        accept_key: str | None = None,
        ask_passphrase: AskPassphrase | None = None,
        config_files: Sequence[Path] | None = None,
        home: Path | None = None,
        connect_s: float = CONNECT_S,
    ) -> None:
        self._target = target
        self._accept_key = accept_key
        self._ask = ask_passphrase
        self._home = home or Path.home()
        self._files = config_files if config_files is not None else (self._home / ".ssh/config", SYSTEM_CONFIG)
        self._connect_s = connect_s
        self._once: set[str] = set()
        self._unlocked: dict[str, asyncssh.SSHKeyPair] = {}
        self._connections: list[asyncssh.SSHClientConnection] = []
        self._ignored: tuple[str, ...] = ()
        self.login: Login | None = None
        """The last login, `None` before the first."""
        self.host = Host(target.name, target.address, target.port or 22, target.user, target.badge)

    async def dial(self) -> None:
        """Connect and log in, hop by hop.

        Raises:
            ConnectError: Unreachable; its kinds say refused login and unknown or changed host key.
            FormatError: `ssh_config` is wrong about this host.
        """
        await self.close()
        alias = self._target.address or self._target.name
        given = {"user": self._target.user, "port": str(self._target.port or "")}
        settings = await asyncio.to_thread(self._settings, alias, given)
        self._ignored = settings.ignored()
        self.host = Host(self._target.name, settings.host, settings.port, settings.user, self._target.badge)
        try:
            await self._hop(settings, 0)
        except BaseException:
            await self.close()
            raise

    async def start(self, argv: Sequence[str]) -> SshChannel:
        """Start a program with exactly these arguments, whatever the login shell."""
        import asyncssh

        connection = self._connection()
        try:
            process = await connection.create_process(
                command_line(argv), encoding=None, stdin=asyncssh.PIPE, request_pty=False
            )
        except asyncssh.ChannelOpenError as error:
            if connection.is_closed():
                raise LinkLostError(f"{self.host.name}: the connection is lost", error.reason) from error
            raise RemoteError(
                f"{self.host.name}: the host opens no more sessions",
                error.reason,
                "its sshd allows MaxSessions of them in one connection",
                kind="sessions",
            ) from error
        except (asyncssh.Error, OSError) as error:
            raise LinkLostError(f"{self.host.name}: the connection is lost", str(error)) from error
        return SshChannel(process, self.host.name)

    async def socket(self, address: str, port: int) -> SshSocket:
        """Open a TCP stream from the host to one of its ports."""
        import asyncssh

        connection = self._connection()
        try:
            reader, writer = await connection.open_connection(address, port, encoding=None)
        except asyncssh.ChannelOpenError as error:
            if connection.is_closed():
                raise LinkLostError(f"{self.host.name}: the connection is lost", error.reason) from error
            raise RemoteError(
                f"{self.host.name}: no answer at {address}:{port} there", error.reason, kind="econnrefused"
            ) from error
        except (asyncssh.Error, OSError) as error:
            raise LinkLostError(f"{self.host.name}: the connection is lost", str(error)) from error
        return SshSocket(reader, writer, self.host.name)

    async def wait_closed(self) -> None:
        """Return when the connection has ended."""
        if self._connections:
            await self._connections[-1].wait_closed()

    async def close(self) -> None:
        """Disconnect, the last hop first."""
        while self._connections:
            connection = self._connections.pop()
            connection.abort()
            with contextlib.suppress(TimeoutError, OSError):
                await asyncio.wait_for(connection.wait_closed(), 2)

    def ignored_settings(self) -> tuple[str, ...]:
        """Return what of ssh_config is not honoured, a sentence each."""
        return self._ignored

    def trust_once(self, fingerprint: str) -> None:
        """Accept a key for as long as this transport lives, without remembering it."""
        self._once.add(fingerprint)

    def _connection(self) -> asyncssh.SSHClientConnection:
        if not self._connections or self._connections[-1].is_closed():
            raise LinkLostError(f"{self.host.name}: not connected")
        return self._connections[-1]

    def _settings(self, alias: str, given: dict[str, str]) -> Settings:
        files = self._files if self._target.read_config else ()
        return resolve(alias, files=files, home=self._home, given=given)

    async def _hop(self, settings: Settings, depth: int) -> asyncssh.SSHClientConnection:
        if depth > HOPS_LIMIT:
            raise ConnectError(
                f"{self.host.name}: more than {HOPS_LIMIT} jump hosts", hint="ProxyJump goes in a circle?"
            )
        tunnel = None
        jumps = settings.one("proxyjump", "none")
        for number, jump in enumerate([] if jumps.lower() == "none" else jumps.split(",")):
            name, user, port = parse_destination(jump)
            near = await asyncio.to_thread(self._settings, name, {"user": user, "port": str(port or "")})
            if number:
                near.values["proxyjump"] = ("none",)
            if tunnel is not None:
                near.values["proxycommand"] = ("none",)
            tunnel = await self._login(near, tunnel) if number else await self._hop(near, depth + 1)
        return await self._login(settings, tunnel)

    async def _login(
        self, settings: Settings, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        import asyncssh

        known = self._known_hosts(settings)
        identities = self._identities(settings)
        name = settings.one("hostkeyalias") or settings.host
        port = 22 if settings.one("hostkeyalias") else settings.port
        gate = _gate(self, identities, known, name, port)
        began = asyncio.get_running_loop().time()
        try:
            async with told_faults(settings, identities, self._connect_s, tunnel is not None):
                try:
                    connection = await asyncssh.connect(
                        settings.host,
                        settings.port,
                        client_factory=lambda: gate,
                        **login_options(
                            settings, tunnel, known, name, port, settings.time_s("connecttimeout") or self._connect_s
                        ),
                    )
                except asyncssh.HostKeyNotVerifiable as error:
                    if gate.error is not None:
                        raise gate.error from None
                    raise ConnectError(f"{settings.host}:{settings.port}: {error}") from error
        finally:
            identities.close()
            if gate.accepted and gate.error is None:
                hostkeys.accept(gate.accepted, known[0])
        self._connections.append(connection)
        self.login = Login(
            settings.host,
            settings.port,
            settings.user,
            gate.key_type,
            gate.fingerprint,
            tuple(str(c.get_extra_info("peername") or "") for c in self._connections[:-1]),
            tuple(identities.offered),
            str(connection.get_extra_info("recv_cipher") or ""),
            (asyncio.get_running_loop().time() - began) * 1000,
        )
        return connection

    def _known_hosts(self, settings: Settings) -> list[str]:
        if self._target.known_hosts:
            return [self._target.known_hosts]
        own = settings.files(
            "userknownhostsfile", [str(self._home / ".ssh" / n) for n in ("known_hosts", "known_hosts2")]
        )
        system = settings.files("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"])
        return [*(own or [str(self._home / ".ssh/known_hosts")]), *system]

    def _identities(self, settings: Settings) -> Identities:
        named = list(self._target.key_files) or [
            settings.path(n) for n in settings.many.get("identityfile", []) if n != "none"
        ]
        asks_agent = self._target.read_config
        return Identities(
            f"{settings.user}@{settings.host}",
            named or usual_key_files(self._home) * asks_agent,
            explicit=bool(named),
            only=settings.flag("identitiesonly") or bool(self._target.key_files),
            agent_path=agent_socket(settings.path(settings.one("identityagent"))) if asks_agent else "",
            ask=self._ask,
            unlocked=self._unlocked,
        )


def parse_destination(text: str) -> tuple[str, str, int]:
    """Return (host, user, port) of `[user@]host[:port]`, `[v6]:port` or `ssh://…`; 0 is no port.

    Raises:
        ValueError: The port is not a number between 1 and 65535, or there is no host.
    """
    text = text.strip().removeprefix("ssh://").rstrip("/")
    user, _, rest = text.rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
        port = port or "?"
    # As OpenSSH: names stand in ProxyCommand and Match exec, where a shell would read more into them.
    if not host or host.startswith("-") or user.startswith("-") or not set(host + user).isdisjoint(_FORBIDDEN):
        raise ValueError(f"no host in {text!r}")
    if not text.isprintable():
        raise ValueError("only printable characters make a host name")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"bad port {port!r}")
    return host, user, int(port or 0)


def destination(text: str) -> Target:
    """Return what the operator's word for a host means."""
    host, user, port = parse_destination(text)
    return Target(text, address="" if host == text else host, port=port, user=user)


def _gate(transport: SshTransport, identities: Identities, known: list[str], name: str, port: int) -> Any:
    # Made here because its base must not be imported before the first frame.
    import asyncssh

    class Gate(asyncssh.SSHClient):
        """Judges the host's key and offers ours."""

        error: ConnectError | None = None
        accepted = ""
        key_type = ""
        fingerprint = ""

        def validate_host_public_key(self, host: str, addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
            blob = key.public_data
            self.key_type, self.fingerprint = key.get_algorithm(), hostkeys.fingerprint(blob)
            verdict = hostkeys.judge(known, name, port, blob)
            if verdict.trust is hostkeys.Trust.TRUSTED:
                return True
            if verdict.trust is hostkeys.Trust.UNKNOWN:
                if self.fingerprint in transport._once:
                    return True
                if transport._accept_key == self.fingerprint:
                    self.accepted = hostkeys.line_of(name, port, self.key_type, blob)
                    return True
            self.error = hostkeys.refusal(verdict, name, port, self.key_type, blob, known[0])
            if transport._accept_key and verdict.trust is hostkeys.Trust.UNKNOWN:
                self.error.hint = f"this is not the accepted {transport._accept_key}; compare with the host's own"
            return False

        async def public_key_auth_requested(self) -> asyncssh.SSHKeyPair | None:
            return await identities.next_key()

    return Gate()

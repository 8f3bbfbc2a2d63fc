"""A host over SSH: hop by hop, every host key checked, programs and sockets on one connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.domain.host import Host
from console.errors import ConnectError, ConsoleError, LinkLostError, LoginRefusedError, RemoteError
from console.remote import hostkeys
from console.remote.channel import Login
from console.remote.identities import AskPassphrase, Identities, agent_socket, usual_key_files
from console.remote.quoting import command_line
from console.remote.settings import SYSTEM_CONFIG, Settings, resolve
from console.remote.ssh_channel import SshChannel, SshSocket
from console.remote.target import Target

if TYPE_CHECKING:
    import asyncssh

CONNECT_S = 15
LOGIN_S = 20
KEEPALIVE_S = 5
KEEPALIVE_TRIES = 2
"""A dead link is noticed after interval × (tries + 1) = 15 s."""

HOPS_LIMIT = 8

CIPHERS = (
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr", "aes192-ctr", "aes128-ctr",
)  # fmt: skip
"""The first is half as fast again as the usual choice."""

KEY_ALGORITHMS = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip


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
            async with _mapped(settings, identities, self._connect_s, tunnel is not None):
                try:
                    connection = await asyncssh.connect(
                        settings.host,
                        settings.port,
                        client_factory=lambda: gate,
                        **_options(
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
    if not host or host.startswith("-") or any(char.isspace() for char in host):
        raise ValueError(f"no host in {text!r}")
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


def _options(
    settings: Settings,
    tunnel: asyncssh.SSHClientConnection | None,
    known: list[str],
    name: str,
    port: int,
    connect_s: float,
) -> dict[str, Any]:

    keys = hostkeys.known_keys(known, name, port)
    authorities = [key for key in keys if key.marker == "cert-authority"]

    def trusted(_host: str, _addr: str, _port: int | None) -> tuple[list[asyncssh.SSHKey], ...]:
        # Plain keys are judged by the gate; asyncssh checks certificates against these.
        revoked = [_imported(key) for key in keys if key.marker == "revoked" and authorities]
        return [], [_imported(key) for key in authorities], revoked, [], [], [], []

    command = settings.one("proxycommand", "none")
    env = dict(word.partition("=")[::2] for word in settings.values.get("setenv", ()) if "=" in word)
    family = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(settings.one("addressfamily").lower())
    bind = settings.one("bindaddress")
    return {
        "config": None,
        "tunnel": tunnel or (),
        "proxy_command": ["/bin/sh", "-c", f"exec {settings.command(command)}"]
        if command.lower() != "none" and tunnel is None
        else (),
        "known_hosts": trusted,
        "host_key_alias": settings.one("hostkeyalias") or None,
        "server_host_key_algs": _key_order([key.key_type for key in keys if not key.marker], bool(authorities)),
        "username": settings.user,
        "client_keys": None,
        "agent_path": None,
        "password_auth": False,
        "kbdint_auth": False,
        "gss_auth": False,
        "gss_kex": False,
        "host_based_auth": False,
        "encryption_algs": list(CIPHERS),
        "compression_algs": ["zlib@openssh.com", "none"] if settings.flag("compression") else ["none"],
        "keepalive_interval": min(settings.time_s("serveraliveinterval") or KEEPALIVE_S, KEEPALIVE_S),
        "keepalive_count_max": KEEPALIVE_TRIES,
        "login_timeout": LOGIN_S + connect_s,
        "connect_timeout": connect_s,
        "env": env,
        **({"family": family} if family else {}),
        **({"local_addr": (bind, 0)} if bind else {}),
    }


def _imported(key: hostkeys.KnownKey) -> asyncssh.SSHKey:
    import base64

    import asyncssh

    return asyncssh.import_public_key(f"{key.key_type} {base64.b64encode(key.blob).decode()}")


def _key_order(known: list[str], certificates: bool) -> list[str]:
    """Return key algorithms with those first that the host is known by.

    All are offered: a host that offers only another kind than the known one must be seen as
    changed, not as a connection that broke.
    """
    kinds = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}
    order = sorted(KEY_ALGORITHMS, key=lambda name: kinds.get(name, name) not in known)
    return [f"{name}-cert-v01@openssh.com" for name in order] * certificates + order


@contextlib.asynccontextmanager
async def _mapped(settings: Settings, identities: Identities, wait_s: float, tunnelled: bool) -> AsyncIterator[None]:
    """Turn the faults of connecting into sentences, the most special first."""
    import asyncssh

    where = f"{settings.alias}" if settings.alias == settings.host else f"{settings.alias} ({settings.host})"
    where = f"{where} port {settings.port}"
    try:
        yield
    except ConsoleError:
        raise
    except asyncssh.PermissionDenied as error:
        raise _refused(settings, identities, error.reason) from error
    except asyncssh.ChannelOpenError as error:
        raise ConnectError(f"{where}: the jump host cannot reach it", error.reason) from error
    except asyncssh.DisconnectError as error:
        if "authentication failures" in error.reason.lower():
            raise _refused(settings, identities, error.reason) from error
        if "login timeout" in error.reason.lower():
            raise ConnectError(f"{where}: no answer to the login within {wait_s + LOGIN_S:g} s") from error
        raise ConnectError(f"{where}: the connection ended during the login", error.reason) from error
    except TimeoutError as error:
        raise ConnectError(
            f"{where}: no answer within {wait_s:g} s", hint="is the host up, and the port right?"
        ) from error
    except socket.gaierror as error:
        raise ConnectError(f"{settings.host}: no such host name", error.strerror or str(error)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, ConnectionRefusedError):
            raise ConnectError(
                f"{where}: connection refused", hint="is sshd running there, and the port right?"
            ) from error
        raise ConnectError(f"{where}: cannot connect", reason) from error
    except (asyncssh.Error, ValueError) as error:
        raise ConnectError(f"{where}: cannot connect", str(error)) from error


def _refused(settings: Settings, identities: Identities, reason: str) -> LoginRefusedError:
    if identities.error is not None:
        return identities.error
    tried = ", ".join(identities.offered) or "no key was found to offer"
    wrong = "; ".join(identities.problems)
    return LoginRefusedError(
        f"{settings.user}@{settings.host}:{settings.port}: login refused",
        " · ".join(part for part in (f"offered: {tried}", wrong, reason) if part),
        f"only keys log in: ssh-copy-id {settings.alias}",
    )

"""The SSH server of the pretend host: real logins, real programs, real ports of loopback."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import asyncssh

from console.demo import layout
from console.demo.keys import Keys
from console.demo.session import Session

MAX_SESSIONS = 10
"""As OpenSSH's `MaxSessions`."""


class DemoServer:
    """The host's door, and what can go wrong behind it."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.folder = folder
        self.keys = keys
        self.env = layout.environment(folder, keys.marker)
        self.port = 0
        self._listener: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()

    async def start(self, port: int = 0) -> None:
        """Listen on loopback and write the known_hosts line that belongs to the port."""
        self._listener = await asyncssh.create_server(
            lambda: _Login(self),
            "127.0.0.1",
            port,
            server_host_keys=[str(self.keys.host_key)],
            authorized_client_keys=str(self.keys.authorized),
            encoding=None,
            keepalive_interval=0,
            login_timeout=20,
        )
        self.port = self._listener.get_port()
        self.keys.trust(self.port)

    async def stop(self) -> None:
        """Hang up and stop listening; programs in sessions of their own go on."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def drop_connection(self) -> int:
        """Fault: cut every connection without a word; return how many there were."""
        cut = list(self._connections)
        for connection in cut:
            connection.abort()
        return len(cut)

    def hang_engine(self) -> int:
        """Fault: stop the engine's launcher where it stands (SIGSTOP); return its pid, 0 when none runs."""
        from console.demo.processes import engines

        for engine in engines(self.folder):
            os.kill(engine.pid, signal.SIGSTOP)
            return engine.pid
        return 0

    def drift(self, file: str, find: str = "", replace: str = "# changed by somebody else\n") -> None:
        """Fault: change a file of the engine package as a colleague would, by hand.

        Args:
            file: Relative to the package.
            find: Text to be replaced; empty puts `replace` at the end.
            replace: What stands there afterwards.
        """
        path = layout.package_folder(self.folder) / file
        text = path.read_text()
        if find and find not in text:
            raise ValueError(f"{file} does not hold {find!r}")
        path.write_text(text.replace(find, replace, 1) if find else text + replace)


class _Login(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, host: DemoServer) -> None:
        self._host = host
        self._sessions = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn
        self._host._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host._connections.discard(self._conn)

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return False

    def session_requested(self) -> tuple[asyncssh.SSHServerChannel[bytes], asyncssh.SSHServerSession[bytes]]:
        if self._sessions >= MAX_SESSIONS:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self._sessions += 1
        channel: asyncssh.SSHServerChannel[bytes] = self._conn.create_server_channel(encoding=None)
        return channel, Session(self._environment(), self._session_ended)

    def _session_ended(self) -> None:
        self._sessions -= 1

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return dest_host in ("127.0.0.1", "localhost", "::1")

    def _environment(self) -> dict[str, str]:
        return {**self._host.env, "SSH_CONNECTION": f"127.0.0.1 0 127.0.0.1 {self._host.port}"}

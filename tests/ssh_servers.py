"""SSH servers on loopback that really run commands: one in this process, one OpenSSH."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import asyncssh

from console.remote.target import Target

SSHD = Path("/usr/sbin/sshd")


class SshServer(Protocol):
    """A server under test."""

    target: Target

    async def drop(self) -> None:
        """Cut every connection, as a lost link does."""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(path: Path, passphrase: str | None = None) -> str:
    """Write a key pair and return its public line."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(path, passphrase=passphrase)
    path.chmod(0o600)
    key.write_public_key(f"{path}.pub")
    return key.export_public_key("openssh").decode().strip()


def _target(folder: Path, port: int, host_line: str) -> Target:
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {host_line}\n")
    return Target(
        "test-host",
        address="127.0.0.1",
        port=port,
        user=getpass.getuser(),
        key_files=(str(folder / "id_ed25519"),),
        known_hosts=str(known),
        read_config=False,
    )


class InProcessServer:
    """asyncssh as a server: every exec runs under a shell of this machine."""

    def __init__(self, folder: Path, shell: str = "/bin/sh", env: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._shell = shell
        self._env = {**os.environ, **(env or {})}
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._serving: list[asyncio.Task[None]] = []
        self._children: set[asyncio.subprocess.Process] = set()
        self.commands: list[str] = []
        self.target = Target("")

    async def __aenter__(self) -> InProcessServer:
        folder = self._folder
        folder.mkdir(exist_ok=True, parents=True)
        host_line = make_key(folder / "host_ed25519")
        (folder / "authorized_keys").write_text(make_key(folder / "id_ed25519") + "\n")
        outer = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                self.conn = conn
                outer._connections.add(conn)

            def connection_lost(self, exc: Exception | None) -> None:
                outer._connections.discard(self.conn)

            def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
                return True

        self._listener = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=Server,
            server_host_keys=[str(folder / "host_ed25519")],
            authorized_client_keys=str(folder / "authorized_keys"),
            process_factory=self._serve,
            encoding=None,
            config=None,
        )
        self.target = _target(folder, self._listener.get_port(), host_line)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop()
        self._listener.close()
        await self._listener.wait_closed()
        while serving := [task for task in self._serving if not task.done()]:
            for child in self._children:
                if child.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
            await asyncio.wait(serving, timeout=0.05)

    async def drop(self) -> None:
        for conn in list(self._connections):
            conn.abort()
            await conn.wait_closed()

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        self.commands.append(process.command or "")
        child = await asyncio.create_subprocess_exec(
            self._shell,
            "-c",
            process.command or "",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=self._env,
        )
        self._children.add(child)
        assert child.stdin and child.stdout and child.stderr

        async def feed() -> None:
            assert child.stdin
            with contextlib.suppress(OSError, asyncssh.Error):
                while data := await process.stdin.read(65536):
                    child.stdin.write(data)
                    await child.stdin.drain()
            child.stdin.close()

        async def pump(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
            with contextlib.suppress(OSError, asyncssh.Error):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()

        feeding = asyncio.create_task(feed())
        try:
            await asyncio.gather(pump(child.stdout, process.stdout), pump(child.stderr, process.stderr))
            process.exit(await child.wait())
        finally:
            feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await feeding
            child.stdin.close()


class OpenSshServer:
    """The real sshd, with its own keys and configuration."""

    def __init__(self, folder: Path, extra: str = "", env: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._extra = extra
        self._env = {**os.environ, **(env or {})}
        self.target = Target("")

    async def __aenter__(self) -> OpenSshServer:
        folder = self._folder
        folder.mkdir(exist_ok=True, parents=True)
        host_line = make_key(folder / "host_ed25519")
        (folder / "authorized_keys").write_text(make_key(folder / "id_ed25519") + "\n")
        port = free_port()
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_ed25519\nPidFile {folder}/sshd.pid\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nStrictModes no\nPermitRootLogin prohibit-password\n"
            + ("UsePAM no\n" if os.geteuid() == 0 else "")
            + self._extra
        )
        self._process = subprocess.Popen(
            [str(SSHD), "-D", "-f", str(folder / "sshd_config"), "-E", str(folder / "sshd.log")], env=self._env
        )
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert self._process.poll() is None, (folder / "sshd.log").read_text()
            await asyncio.sleep(0.02)
        self.target = _target(folder, port, host_line)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop()
        self._process.terminate()
        self._process.wait()

    async def drop(self) -> None:
        for pid in _descendants(self._process.pid):
            with contextlib.suppress(OSError):  # it may end by itself meanwhile
                if b"sshd" in Path(f"/proc/{pid}/comm").read_bytes():
                    os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


@contextlib.asynccontextmanager
async def server_of(kind: str, folder: Path) -> AsyncIterator[SshServer]:
    """Run a server of a kind (`asyncssh` or `sshd`); what its logins keep stays below `folder`."""
    state = folder / "state"
    if kind == "asyncssh":
        server: InProcessServer | OpenSshServer = InProcessServer(folder, env={"XDG_STATE_HOME": str(state)})
    else:
        server = OpenSshServer(folder, extra=f"SetEnv XDG_STATE_HOME={state}\n")
    async with server:
        yield server

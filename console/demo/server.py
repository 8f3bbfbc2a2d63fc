"""The SSH server of the pretend host: real logins, real programs, real ports of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Mapping
from pathlib import Path

import asyncssh

from console.demo import layout
from console.demo.keys import Keys

MAX_SESSIONS = 10
"""As OpenSSH's `MaxSessions`."""

READ_BYTES = 64 * 1024


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
        return channel, _Session(self)

    def session_ended(self) -> None:
        self._sessions -= 1

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return dest_host in ("127.0.0.1", "localhost", "::1")

    def spawn_environment(self) -> dict[str, str]:
        return {**self._host.env, "SSH_CONNECTION": f"127.0.0.1 0 127.0.0.1 {self._host.port}"}

    @property
    def home(self) -> str:
        return self._host.env["HOME"]


class _Session(asyncssh.SSHServerSession[bytes]):
    """One channel: a program, or a shell, with its standard input and output."""

    def __init__(self, login: _Login) -> None:
        self._login = login
        self._argv: list[str] = []
        self._terminal: tuple[str, tuple[int, int, int, int]] | None = None
        self._extra: dict[str, str] = {}
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queued = 0
        self._master = -1
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None
        self._gone = False

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._chan = chan

    def pty_requested(
        self, term_type: str | None, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        self._terminal = (term_type or "dumb", term_size)
        return True

    def shell_requested(self) -> bool:
        self._argv = ["/bin/sh", "-l"] if self._terminal is None else ["/bin/sh", "-i"]
        return True

    def exec_requested(self, command: str) -> bool:
        self._argv = ["/bin/sh", "-c", command]
        return True

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._serve())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._queued += len(data)
        if self._queued > 1 << 20:
            self._chan.pause_reading()
        self._input.put_nowait(data)

    def eof_received(self) -> bool:
        self._input.put_nowait(None)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._room.set()
        self._input.put_nowait(None)
        if self._task is None:
            self._login.session_ended()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def signal_received(self, signal: str) -> None:
        """Ignore it, as OpenSSH does for a root login."""

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, pixwidth, pixheight))

    async def _serve(self) -> None:
        """Run the program to its end, whatever becomes of the channel."""
        try:
            status = await (self._with_terminal() if self._terminal else self._with_pipes())
        except OSError as error:
            status = 127
            self._write(f"{error}\n".encode(), asyncssh.EXTENDED_DATA_STDERR)
        finally:
            self._login.session_ended()
        if not self._gone:
            if status >= 0:
                self._chan.exit(status)
            else:
                self._chan.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))

    async def _with_pipes(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._login.spawn_environment(),
            cwd=self._login.home,
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        feeding = asyncio.create_task(self._feed(process.stdin))
        await asyncio.gather(
            self._forward(process.stdout, None), self._forward(process.stderr, asyncssh.EXTENDED_DATA_STDERR)
        )
        status = await process.wait()
        feeding.cancel()
        return status

    async def _feed(self, to: asyncio.StreamWriter) -> None:
        """Hand on input; the end of the channel's input, or of the channel, closes the program's."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while (data := await self._taken()) is not None:
                to.write(data)
                await to.drain()
        to.close()

    async def _taken(self) -> bytes | None:
        data = await self._input.get()
        if data is not None:
            self._queued -= len(data)
            if self._queued < 1 << 19 and not self._gone:
                self._chan.resume_reading()
        return data

    async def _forward(self, source: asyncio.StreamReader, kind: int | None) -> None:
        while data := await source.read(READ_BYTES):
            await self._room.wait()
            self._write(data, kind)

    def _write(self, data: bytes, kind: int | None) -> None:
        if not self._gone:
            with contextlib.suppress(BrokenPipeError, OSError):
                self._chan.write(data, kind)

    async def _with_terminal(self) -> int:
        assert self._terminal is not None
        master, slave = pty.openpty()
        self._master = master
        name, (width, height, *pixels) = self._terminal
        self.terminal_size_changed(width, height, pixels[0], pixels[1])
        os.set_blocking(master, False)
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**self._login.spawn_environment(), "TERM": name, "PS1": "demo:\\w\\$ "},
            cwd=self._login.home,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        loop = asyncio.get_running_loop()
        loop.add_reader(master, self._from_terminal, master)
        feeding = asyncio.create_task(self._feed_terminal(master, process))
        status = await process.wait()
        self._from_terminal(master)
        loop.remove_reader(master)
        feeding.cancel()
        self._master = -1
        os.close(master)
        return status

    def _from_terminal(self, master: int) -> None:
        try:
            data = os.read(master, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # EIO: the program closed its side
            data = b""
        if data:
            self._write(data, None)
        else:
            asyncio.get_running_loop().remove_reader(master)

    async def _feed_terminal(self, master: int, process: asyncio.subprocess.Process) -> None:
        while (data := await self._taken()) is not None:
            while data:
                try:
                    data = data[os.write(master, data) :]
                except BlockingIOError:
                    await asyncio.sleep(0.01)
                except OSError:
                    return
        if self._gone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGHUP)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)

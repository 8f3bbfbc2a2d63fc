"""One channel of the demo host: a real program, its standard input and output, or a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable, Mapping

import asyncssh

READ_BYTES = 64 * 1024


class Session(asyncssh.SSHServerSession[bytes]):
    """One channel: a program, or a shell, with its standard input and output.

    Args:
        env: Environment of the login.
        on_end: Called once, when program and channel are done with each other.
    """

    def __init__(self, env: Mapping[str, str], on_end: Callable[[], None]) -> None:
        self._env = dict(env)
        self._on_end = on_end
        self._argv: list[str] = []
        self._terminal: tuple[str, tuple[int, int, int, int]] | None = None
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queued = 0
        self._master = -1
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None
        self._gone = False

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Remember the channel."""
        self._chan = chan

    def pty_requested(
        self, term_type: str | None, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        """Take a terminal."""
        self._terminal = (term_type or "dumb", term_size)
        return True

    def shell_requested(self) -> bool:
        """Take a shell."""
        self._argv = ["/bin/sh", "-l"] if self._terminal is None else ["/bin/sh", "-i"]
        return True

    def exec_requested(self, command: str) -> bool:
        """Take a command, for the login shell to read."""
        self._argv = ["/bin/sh", "-c", command]
        return True

    def session_started(self) -> None:
        """Start the program."""
        self._task = asyncio.create_task(self._serve())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Queue input; a program that does not read it makes the client wait."""
        self._queued += len(data)
        if self._queued > 1 << 20:
            self._chan.pause_reading()
        self._input.put_nowait(data)

    def eof_received(self) -> bool:
        """Remember that the input ends here; the output goes on."""
        self._input.put_nowait(None)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the program's input: what ends remote work."""
        self._gone = True
        self._room.set()
        self._input.put_nowait(None)
        if self._task is None:
            self._on_end()

    def pause_writing(self) -> None:
        """Wait with output."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Go on with output."""
        self._room.set()

    def signal_received(self, signal: str) -> None:
        """Ignore it, as OpenSSH does for a root login."""

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Pass the size on to the terminal."""
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
            self._on_end()
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
            env=self._env,
            cwd=self._env["HOME"],
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
            env={**self._env, "TERM": name, "PS1": "demo:\\w\\$ "},
            cwd=self._env["HOME"],
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

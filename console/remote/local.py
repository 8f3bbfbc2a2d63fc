"""This machine as a host: the same interface without SSH."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from console.domain.host import Host
from console.errors import RemoteError
from console.remote.channel import Login

COMPLAINT_LIMIT = 16 * 1024


class LocalChannel:
    """A child process in a session of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._complaint = bytearray()
        self._drain = asyncio.create_task(self._keep_complaint())

    async def read(self, size: int = 65536) -> bytes:
        """Return the next bytes of its output, `b""` at the end."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(size)

    async def write(self, data: bytes) -> None:
        """Send bytes to its input; a program that has ended takes none and that is no error."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    async def end_input(self) -> None:
        """Close its input and go on reading."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def close(self) -> None:
        """Close its input; kill it when that does not end it, or when nobody can wait for that any more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 2)
        finally:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
            self._drain.cancel()

    async def wait(self) -> int | None:
        """Return its exit status."""
        status = await self._process.wait()
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._drain), 1)
        return status

    def complaint(self) -> bytes:
        """Return the last bytes of its standard error."""
        return bytes(self._complaint)

    async def _keep_complaint(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(8192):
            self._complaint += chunk
            del self._complaint[:-COMPLAINT_LIMIT]


class LocalSocket:
    """A TCP stream of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, size: int) -> bytes:
        """Return the next bytes, `b""` at the end."""
        return await self._reader.read(size)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """Close the stream."""
        self._writer.close()

    @property
    def ended(self) -> bool:
        """Whether the other side closed it."""
        return self._reader.at_eof() or self._writer.is_closing()


class LocalTransport:
    """No way to go."""

    def __init__(self) -> None:
        self.host = Host("local")
        self.login: Login | None = None
        self._closed = asyncio.Event()

    async def dial(self) -> None:
        """Nothing to connect."""

    async def start(self, argv: Sequence[str]) -> LocalChannel:
        """Start a child process; `RemoteError` when there is no such program."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            kind = "enoent" if isinstance(error, FileNotFoundError) else "eacces"
            raise RemoteError(f"local: cannot start {argv[0]}", error.strerror or str(error), kind=kind) from error
        return LocalChannel(process)

    async def socket(self, address: str, port: int) -> LocalSocket:
        """Open a TCP stream."""
        return LocalSocket(*await asyncio.open_connection(address, port))

    async def wait_closed(self) -> None:
        """Return after `close`."""
        await self._closed.wait()

    async def close(self) -> None:
        """Let waiters go."""
        self._closed.set()

    def ignored_settings(self) -> tuple[str, ...]:
        """Return nothing: no settings are read."""
        return ()

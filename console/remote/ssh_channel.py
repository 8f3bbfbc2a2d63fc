"""Programs and TCP streams on an SSH connection, with its faults turned into ours."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from console.errors import LinkLostError

if TYPE_CHECKING:
    import asyncssh

COMPLAINT_LIMIT = 16 * 1024
CLOSE_S = 2.0
"""How long a program of ours may take to end after its input was closed."""


class SshChannel:
    """A program on the host."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], name: str) -> None:
        self._process = process
        self._name = name
        self._complaint = bytearray()
        self._drain = asyncio.create_task(self._keep_complaint(), name=f"stderr {name}")

    async def read(self, size: int = 65536) -> bytes:
        """Return the next bytes of its output, `b""` at the end."""
        import asyncssh

        try:
            return await self._process.stdout.read(size)
        except (asyncssh.Error, OSError) as error:
            raise self._lost(error) from error

    async def write(self, data: bytes) -> None:
        """Send bytes to its input; a program that has ended takes none and that is no error."""
        import asyncssh

        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except BrokenPipeError:
            return
        except (asyncssh.Error, OSError) as error:
            raise self._lost(error) from error

    async def end_input(self) -> None:
        """Close its input and go on reading."""
        with contextlib.suppress(OSError):
            self._process.stdin.write_eof()

    async def close(self) -> None:
        """Close its input, which ends every program of ours; let go of it when it lingers."""
        with contextlib.suppress(OSError):
            if not self._process.stdin.is_closing():
                self._process.stdin.write_eof()
        with contextlib.suppress(TimeoutError):
            # What it still says is thrown away: nobody reads it, and a full window would hold it.
            await asyncio.wait_for(self._throw_away(), CLOSE_S)
        self._process.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait_closed(), 0.5)
        self._drain.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._drain

    async def wait(self) -> int | None:
        """Return its exit status; `None` when the link ended first."""
        await self._process.wait_closed()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._drain), 1)
        status = self._process.returncode
        return status

    def complaint(self) -> bytes:
        """Return the last bytes of its standard error."""
        return bytes(self._complaint)

    async def _throw_away(self) -> None:
        import asyncssh

        with contextlib.suppress(asyncssh.Error, OSError):
            while await self._process.stdout.read(262144):
                pass
            await self._process.wait_closed()

    async def _keep_complaint(self) -> None:
        import asyncssh

        with contextlib.suppress(asyncssh.Error, OSError):
            while chunk := await self._process.stderr.read(8192):
                self._complaint += chunk
                del self._complaint[:-COMPLAINT_LIMIT]

    def _lost(self, error: Exception) -> LinkLostError:
        return LinkLostError(f"{self._name}: the connection is lost", str(error))


class SshSocket:
    """A TCP stream from the host."""

    def __init__(self, reader: Any, writer: Any, name: str) -> None:
        self._reader = reader
        self._writer = writer
        self._name = name

    async def read(self, size: int) -> bytes:
        """Return the next bytes, `b""` at the end."""
        import asyncssh

        try:
            return bytes(await self._reader.read(size))
        except (asyncssh.Error, OSError) as error:
            raise LinkLostError(f"{self._name}: the connection is lost", str(error)) from error

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        import asyncssh

        try:
            self._writer.write(data)
            await self._writer.drain()
        except (asyncssh.Error, OSError) as error:
            raise LinkLostError(f"{self._name}: the connection is lost", str(error)) from error

    async def close(self) -> None:
        """Close the stream."""
        self._writer.close()

    @property
    def ended(self) -> bool:
        """Whether the other side closed it."""
        return bool(self._reader.at_eof() or self._writer.is_closing())

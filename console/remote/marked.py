"""A sent program's channel without what login scripts print before it begins."""

from __future__ import annotations

import time

from console.errors import LinkLostError
from console.remote.channel import Channel
from console.remote.sending import MARKER

NOISE_LIMIT = 1024 * 1024


class NotBegunError(Exception):
    """The program ended before it began: no such interpreter, too old, or refused.

    Args:
        status: Exit status, `None` when the link ended first.
        said: What it, or the login shell, printed.
    """

    def __init__(self, status: int | None, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.said = said


class MarkedChannel:
    """Passes on what comes after the marker that every sent program writes first.

    Args:
        channel: The program, its payload written.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._rest = bytearray()
        self._begun = False
        self._started = time.monotonic()
        self.noise = b""
        """What was printed before the program began."""
        self.delay_ms = 0.0
        """From start to the marker."""

    async def begin(self) -> None:
        """Wait for the program's first sign.

        Raises:
            NotBegunError: It ended without one.
        """
        while not self._begun:
            chunk = await self._channel.read()
            self._rest += chunk
            at = self._rest.find(MARKER)
            if at >= 0:
                self.noise = bytes(self._rest[:at])
                del self._rest[: at + len(MARKER)]
                self._begun = True
                self.delay_ms = (time.monotonic() - self._started) * 1000
            elif not chunk or len(self._rest) > NOISE_LIMIT:
                await self._fail(bool(chunk))

    async def read(self, size: int = 65536) -> bytes:
        """Return the next bytes of the program's own output, `b""` at the end."""
        if not self._begun:
            try:
                await self.begin()
            except NotBegunError as error:
                if error.status is None:
                    raise LinkLostError("the connection is lost", error.said) from None
                return b""
        if self._rest:
            part = bytes(self._rest[:size])
            del self._rest[:size]
            return part
        return await self._channel.read(size)

    async def write(self, data: bytes) -> None:
        """Send bytes to its input; waits while the way is full."""
        await self._channel.write(data)

    async def end_input(self) -> None:
        """Close its input and go on reading."""
        await self._channel.end_input()

    async def close(self) -> None:
        """Close its input, which ends every program of ours, and let go; never hangs."""
        await self._channel.close()

    async def wait(self) -> int | None:
        """Return its exit status; `None` when the link ended first."""
        return await self._channel.wait()

    def complaint(self) -> bytes:
        """Return the last bytes of its standard error."""
        return self._channel.complaint()

    async def _fail(self, endless: bool) -> None:
        status = None if endless else await self._channel.wait()
        said = self._channel.complaint().strip() or bytes(self._rest[-400:]).strip()
        last = said.decode("utf-8", "replace").rpartition("\n")[2]
        raise NotBegunError(1 if endless else status, "endless output before it began" if endless else last[:300])

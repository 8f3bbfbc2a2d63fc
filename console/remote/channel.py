"""The seams under a link: a transport to a host, and the channels that it opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from console.domain.host import Host


class Channel(Protocol):
    """A program running on the host, with its standard input and output."""

    async def read(self, size: int = 65536) -> bytes:
        """Return the next bytes of its output, `b""` at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes to its input; waits while the way is full."""

    async def end_input(self) -> None:
        """Close its input and go on reading."""

    async def close(self) -> None:
        """Close its input, which ends every program of ours, and let go; never hangs."""

    async def wait(self) -> int | None:
        """Return its exit status; `None` when the link ended first."""

    def complaint(self) -> bytes:
        """Return the last bytes of its standard error."""


class Socket(Protocol):
    """A TCP stream to a port of the host, as seen from there."""

    async def read(self, size: int) -> bytes:
        """Return the next bytes, `b""` at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes."""

    async def close(self) -> None:
        """Close the stream."""

    @property
    def ended(self) -> bool:
        """Whether the other side closed it."""


@dataclass(frozen=True, slots=True)
class Login:
    """How a login went, for `doctor`."""

    address: str
    port: int
    user: str
    key_type: str
    fingerprint: str
    """Of the host's key."""
    via: tuple[str, ...]
    """Jump hosts."""
    offered: tuple[str, ...]
    """Keys of ours that were offered."""
    cipher: str
    ms: float
    """From the first byte to the end of the login, at the last hop."""


class Transport(Protocol):
    """The way to a host: SSH, or none at all for this machine."""

    host: Host

    @property
    def login(self) -> Login | None:
        """How the last login went; `None` where there is none."""

    async def dial(self) -> None:
        """Connect and log in; raises `ConnectError` and its kinds."""

    async def start(self, argv: Sequence[str]) -> Channel:
        """Start a program with exactly these arguments, whatever the login shell."""

    async def socket(self, address: str, port: int) -> Socket:
        """Open a TCP stream from the host to one of its ports."""

    async def wait_closed(self) -> None:
        """Return when the connection has ended, for whatever reason."""

    async def close(self) -> None:
        """Disconnect."""

    def ignored_settings(self) -> tuple[str, ...]:
        """Return what of `~/.ssh/config` is not honoured, a sentence each."""

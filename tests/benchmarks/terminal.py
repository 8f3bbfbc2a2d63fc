"""A program in a pseudo-terminal, timed from outside: when bytes arrive, and what a key brings."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence


class Terminal:
    """One program on its own terminal."""

    def __init__(
        self, argv: Sequence[str], *, columns: int = 160, rows: int = 45, env: dict[str, str] | None = None
    ) -> None:
        self.began = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(
                argv[0], list(argv), {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})}
            )
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.output = bytearray()

    def read(self, seconds: float) -> bytes:
        """Return what arrives within some time."""
        end = time.perf_counter() + seconds
        got = bytearray()
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                chunk = os.read(self.fd, 1 << 16)
            except OSError:
                break
            if not chunk:
                break
            got += chunk
        self.output += got
        return bytes(got)

    def read_all(self, seconds: float) -> int:
        """Read for some time, however quiet it is, and return how many bytes came."""
        end, came = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            came += len(self.read(min(left, 0.5)))
        return came

    def wait_for(self, text: bytes, seconds: float) -> float | None:
        """Return how long after now a text arrived, in seconds."""
        began = time.perf_counter()
        start = max(0, len(self.output) - len(text))
        while time.perf_counter() - began < seconds:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    chunk = os.read(self.fd, 1 << 16)
                except OSError:
                    return None
                if not chunk:
                    return None
                self.output += chunk
                if text in self.output[start:]:
                    return time.perf_counter() - began
        return None

    def key(self, data: bytes) -> None:
        """Send a key."""
        os.write(self.fd, data)

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

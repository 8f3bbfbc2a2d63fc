"""What a verb says: data on stdout, narration on stderr, one JSON document with --json."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from console.domain.text import clean
from console.errors import ConsoleError, UsageError

SCHEMA = 1
"""Version of every JSON document; raised only when a field changes its meaning or goes."""


@dataclass(slots=True)
class Output:
    """Where the data of a verb goes."""

    json: bool = False
    stdout: TextIO = field(default_factory=lambda: sys.stdout or _nowhere())
    stderr: TextIO = field(default_factory=lambda: sys.stderr or _nowhere())
    quiet: bool = False

    def line(self, text: str = "") -> None:
        """Print one line of data; remote text is made safe on a terminal only, where it could act."""
        if self.stdout.isatty():
            text = clean(text, 1 << 20)
        elif not text.isascii() and any(0xDC80 <= ord(sign) <= 0xDCFF for sign in text):
            self.raw(text.encode("utf-8", "surrogateescape") + b"\n")  # a file name that is not UTF-8
            return
        with _told():
            self.stdout.write(text.encode("utf-8", "replace").decode() + "\n")

    def raw(self, data: bytes) -> None:
        """Write bytes as they are when stdout is a file or pipe, made safe on a terminal."""
        if self.stdout.isatty():
            for part in data.removesuffix(b"\n").split(b"\n"):
                self.line(part.decode("utf-8", "replace"))
            return
        with _told():
            self.stdout.flush()
            self.stdout.buffer.write(data)
            self.stdout.buffer.flush()

    def document(self, **fields: Any) -> None:
        """Print the one JSON document of a verb."""
        with _told():
            self.stdout.write(_encoded(fields))

    def record(self, fields: Mapping[str, Any]) -> None:
        """Print one object of a stream, and let it go at once."""
        with _told():
            self.stdout.write(_encoded(fields))
            self.stdout.flush()

    def say(self, text: str) -> None:
        """Narrate on stderr."""
        if not self.quiet:
            self.stderr.write(clean(text, 1 << 16) + "\n")
            self.stderr.flush()


def finish(status: int) -> int:
    """Let go what waits in standard output, and return the exit code that is then true."""
    if sys.stdout is None:
        return status
    try:
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        status = 141
    except OSError as error:
        if not status:
            Output().say(f"tokwatt: {_unwritable(error).one_line()}")
        status = status or 1
    # The interpreter tries once more on its way out, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def when(epoch_s: float) -> str:
    """Return a time as the shell's JSON has it."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="seconds")


def read_file(path: str) -> bytes:
    """Return the bytes of a FILE that a verb was given.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read", error.strerror or str(error)) from error


def _nowhere() -> TextIO:
    """Return where to write when the shell closed standard output or error."""
    return open(os.devnull, "w", encoding="utf-8")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn a full disk behind standard output into a fault that can be told; a gone reader stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> ConsoleError:
    return ConsoleError("standard output cannot be written", error.strerror or str(error))


def _encoded(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON; surrogates, C1 controls and bidi overrides are escaped, as a terminal may show it."""
    text = json.dumps({"schema": SCHEMA, **fields}, ensure_ascii=False, default=_plain, allow_nan=False)
    if not text.isprintable():
        text = json.dumps({"schema": SCHEMA, **fields}, default=_plain, allow_nan=False)
    return text + "\n"


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not JSON: {type(value).__name__}")

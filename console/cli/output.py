"""What a verb says: data on stdout, narration on stderr, one JSON document with --json."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from console.domain.text import clean

SCHEMA = 1
"""Version of every JSON document; raised only when a field changes its meaning or goes."""


@dataclass(slots=True)
class Output:
    """Where the data of a verb goes."""

    json: bool = False
    stdout: TextIO = sys.stdout
    stderr: TextIO = sys.stderr
    quiet: bool = False

    def line(self, text: str = "") -> None:
        """Print one line of data; remote text is made safe on a terminal only, where it could act."""
        if self.stdout.isatty():
            text = clean(text, 1 << 20)
        self.stdout.write(text.encode("utf-8", "replace").decode() + "\n")

    def raw(self, data: bytes) -> None:
        """Write bytes as they are when stdout is a file or pipe, made safe on a terminal."""
        if self.stdout.isatty():
            for part in data.removesuffix(b"\n").split(b"\n"):
                self.line(part.decode("utf-8", "replace"))
            return
        self.stdout.flush()
        self.stdout.buffer.write(data)
        self.stdout.buffer.flush()

    def document(self, **fields: Any) -> None:
        """Print the one JSON document of a verb."""
        self.stdout.write(_encoded(fields))

    def record(self, fields: Mapping[str, Any]) -> None:
        """Print one object of a stream, and let it go at once."""
        self.stdout.write(_encoded(fields))
        self.stdout.flush()

    def say(self, text: str) -> None:
        """Narrate on stderr."""
        if not self.quiet:
            self.stderr.write(clean(text, 1 << 16) + "\n")
            self.stderr.flush()


def _encoded(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON; a file name that is not UTF-8 keeps its bytes as escaped surrogates."""
    text = json.dumps({"schema": SCHEMA, **fields}, ensure_ascii=False, default=_plain, allow_nan=False)
    if not text.isascii() and any(0xD800 <= ord(sign) < 0xE000 for sign in text):
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

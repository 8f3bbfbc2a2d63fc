"""TOML text with the line of every key, and faults that name file, line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from console.errors import FormatError

KeyPath = tuple[str | int, ...]
"""Where a value stands: `("edit", 1, "find")`."""

_BARE = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """One parsed file that can say on which line a key stands."""

    path: str
    text: str
    data: Mapping[str, object]
    _lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def line(self, key: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around it."""
        for size in range(len(key), 0, -1):
            if (found := self._lines.get(key[:size])) is not None:
                return found
        return 1

    def fault(self, key: KeyPath, what: str, hint: str = "") -> FormatError:
        """Return the error `FILE:LINE: KEY what`."""
        return FormatError(f"{self.path}:{self.line(key)}: {dotted(key)} {what}", hint=hint)


def dotted(key: KeyPath) -> str:
    """Return a key path as people write it: `launch.args.tp-size`, `edit[2].find`."""
    text = ""
    for part in key:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def kind_word(value: object) -> str:
    """Return what a TOML value is, in words."""
    words = {bool: "true or false", str: "a string", int: "an integer", float: "a number", list: "an array"}
    return words.get(type(value), "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}")


def read_toml(path: Path) -> TomlFile:
    """Read and parse a file; `FormatError` with file and line when it is not TOML."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read", error.strerror or str(error)) from error
    return parse_toml(raw, str(path))


def parse_toml(raw: bytes, path: str) -> TomlFile:
    """Parse bytes as the file `path`; `FormatError` when they are not TOML."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{path}:{line}: not UTF-8 (byte {raw[error.start]:#04x})") from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        place = re.search(r" \(at line (\d+), column (\d+)\)$", said)
        number = place[1] if place else str(text.count("\n") + 1)
        raise FormatError(f"{path}:{number}: not TOML: {said[: place.start()] if place else said}") from error
    except RecursionError as error:
        raise FormatError(f"{path}:1: not readable: nested too deep") from error
    return TomlFile(path, text, data, _key_lines(text))


def _key_lines(text: str) -> dict[KeyPath, int]:
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    scan = _Scan()
    for number, line in enumerate(text.split("\n"), 1):
        if scan.inside:
            scan.feed(line)
            continue
        stripped = line.strip()
        if stripped.startswith("["):
            table = _header(stripped, counts)
            found.setdefault(table, number)
        elif stripped and not stripped.startswith("#"):
            keys, rest = _keys(line)
            for size in range(1, len(keys) + 1):
                found.setdefault((*table, *keys[:size]), number)
            scan.feed(rest)
    return found


def _header(stripped: str, counts: dict[KeyPath, int]) -> KeyPath:
    many = stripped.startswith("[[")
    keys, _ = _keys(stripped.lstrip("["))
    path: KeyPath = ()
    for depth, key in enumerate(keys):
        path = (*path, key)
        last = depth == len(keys) - 1
        if many and last:
            counts[path] = counts.get(path, -1) + 1
        if path in counts and (many or not last):
            path = (*path, counts[path])
    return path


def _keys(line: str) -> tuple[tuple[str, ...], str]:
    keys: list[str] = []
    at = 0
    while match := _BARE.match(line, at):
        keys.append(next(group for group in match.groups() if group is not None))
        at = match.end()
        if at >= len(line) or line[at] != ".":
            break
        at += 1
    return tuple(keys), line[at:]


class _Scan:
    """Whether a value that spans lines has ended."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0

    @property
    def inside(self) -> bool:
        return bool(self._quote) or self._depth > 0

    def feed(self, line: str) -> None:
        at = 0
        while at < len(line):
            at = self._in_string(line, at) if self._quote else self._outside(line, at)
        if len(self._quote) == 1:
            self._quote = ""

    def _in_string(self, line: str, at: int) -> int:
        if line[at] == "\\" and self._quote[0] == '"':
            return at + 2
        if line.startswith(self._quote, at):
            at += len(self._quote)
            while len(self._quote) == 3 and at < len(line) and line[at] == self._quote[0]:
                at += 1
            self._quote = ""
            return at
        return at + 1

    def _outside(self, line: str, at: int) -> int:
        mark = line[at]
        if mark == "#":
            return len(line)
        if mark in "\"'":
            self._quote = mark * 3 if line.startswith(mark * 3, at) else mark
            return at + len(self._quote)
        self._depth += (mark in "[{") - (mark in "]}")
        return at + 1

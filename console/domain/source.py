"""Remote code as it is read: documents, tree entries, hits, symbols and diffs."""

from __future__ import annotations

from dataclasses import dataclass

from console.domain.text import SafeText


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name in a folder."""

    name: str
    path: str
    kind: str
    """`dir`, `file`, `link` or `other`."""
    size: int = 0
    mtime: float = 0.0
    target: str = ""
    """Where a link leads."""
    git: str = ""
    """Git status letter, empty when clean or unknown."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file, or a range of it, as it was at one moment."""

    path: str
    size: int
    mtime: float
    sha256: str
    """Of the whole file; empty when it was too big to be hashed in time."""
    first_line: int
    """1-based number of the first line in `lines`."""
    lines: tuple[bytes, ...]
    """Raw lines without their line ends."""
    total_lines: int | None
    final_newline: bool = True
    crlf: bool = False
    binary: bool = False
    git: str = ""
    """Status letter of the file in its checkout."""

    @property
    def complete(self) -> bool:
        """Whether `lines` is the whole file."""
        return self.first_line == 1 and self.total_lines == len(self.lines)


@dataclass(frozen=True, slots=True)
class GrepHit:
    """One matching line."""

    file: str
    line: int
    text: SafeText
    before: tuple[SafeText, ...] = ()
    after: tuple[SafeText, ...] = ()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A class, def or constant of a Python file."""

    name: str
    kind: str
    """`class`, `def` or `async def`."""
    first_line: int
    """First line, decorators included."""
    last_line: int
    qualified: str = ""
    """`Class.method`."""
    depth: int = 0

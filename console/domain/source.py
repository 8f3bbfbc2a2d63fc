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
    target_kind: str = ""
    """What a link leads to: `dir`, `file`, `other`; empty when nothing is there."""


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
    """Raw lines without their line ends; the head of a binary file, cut at its newlines."""
    total_lines: int | None
    """`None` when a big file was not read to its end, and for binary files."""
    final_newline: bool = True
    crlf: bool = False
    """Every line ends with CR LF; where only some do, those keep their CR in `lines`."""
    binary: bool = False
    git: str = ""
    """Status letter of the file in its checkout."""
    mixed_ends: bool = False
    """Some lines end with CR LF, some with LF."""
    cut: bool = False
    """The window ends, or for the last lines begins, inside a line that is too long."""
    changing: bool = False
    """The file was being changed while it was read."""

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
    raw: bytes = b""
    """The line as it is, up to the clip of the search."""
    size: int = 0
    """Bytes of the whole line."""
    raw_before: tuple[bytes, ...] = ()
    raw_after: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A file and what of it, as an operator writes it: `file`, `file:12`, `file:3-9`, `file:Class.method`."""

    path: str
    first: int | None = None
    last: int | None = None
    symbol: str = ""
    text: str = ""
    """As written: a file of just this name comes first."""


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


@dataclass(frozen=True, slots=True)
class Reference:
    """One line where a name stands."""

    file: str
    line: int
    column: int
    """In characters of the line, from 0."""
    kind: str
    """`class`, `def`, `async def`, `assign`, `parameter`, `import`, `call`, `attribute`, `keyword`, `name`, `text`."""
    scope: str
    """Names of the classes and defs around it, joined by dots."""
    text: SafeText
    last_line: int = 0
    """Of a definition, where it ends."""
    raw: bytes = b""

    @property
    def defines(self) -> bool:
        """Whether a reader who looks for the definition wants to go here."""
        return self.kind in ("class", "def", "async def") or (self.kind == "assign" and "." not in self.scope)


@dataclass(frozen=True, slots=True)
class References:
    """All of them, definitions first, then by file and line."""

    name: str
    found: tuple[Reference, ...]
    limited: bool = False
    """There are more than are told."""
    unparsed: tuple[str, ...] = ()
    """Python files that the host's Python cannot parse: what is in them counts as text."""

"""Two states of files side by side: what is compared, and the rows that show it."""

from __future__ import annotations

from dataclasses import dataclass

from console.domain.text import SafeText

Span = tuple[int, int]
"""First and last character of a part of a line."""


@dataclass(frozen=True, slots=True)
class FilePair:
    """One file on both sides."""

    name: str
    """As shown; relative to the package or checkout where it is in one."""
    before: bytes | None
    """`None`: there is no such file on the left."""
    after: bytes | None
    note: str = ""
    """What is not to be had: then neither side says anything."""
    path: str = ""
    """Absolute, of the side that can be opened."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared with what."""

    left: str
    """Words for the left side: `HEAD 3f2a91c`, `run 2026-12-02-1`."""
    right: str
    files: tuple[FilePair, ...]
    notes: tuple[str, ...] = ()
    same: int = 0
    """Files that were compared and do not differ."""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of a diff, both sides in it."""

    kind: str
    """`file`, `note`, `hunk`, `same`, `changed`, `removed`, `added`."""
    before: SafeText = SafeText("")
    after: SafeText = SafeText("")
    left: int = 0
    """Line number before; 0 for none."""
    right: int = 0
    file: int = 0
    """Index of the file in the comparison."""
    hunk: int = -1
    """Number of the hunk in its file, from 0."""

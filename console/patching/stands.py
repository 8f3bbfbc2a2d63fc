"""One file of a patch on the present files, and what switching it would write."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from console.domain.patch import FileChange
from console.patching import mapping
from console.patching.pieces import Piece, PieceState

Files = Mapping[str, bytes | None]
"""Contents by path relative to the engine package; `None` for a file that is not there."""


def sha256(data: bytes | None) -> str:
    """Return the hash of a content, empty for no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class FileStand:
    """One file of a patch: where it is and how each piece stands in it."""

    asked: str
    """Path as the patch writes it."""
    shown: str
    """Relative to the engine package; empty when nothing there is meant by it."""
    present: bytes | None
    pieces: tuple[Piece, ...]
    on: bytes | None = None
    """Contents with every piece on; no file when `on_known` says that this is meant."""
    off: bytes | None = None
    """Contents with every piece off, likewise."""
    on_known: bool = False
    off_known: bool = False
    mode: int | None = None
    """Present mode, where the mode is part of the patch."""
    mode_on: int | None = None
    mode_off: int | None = None
    like: str = ""
    """File whose mode a new one takes."""

    def change(self, on: bool) -> FileChange | None:
        """Return what has to be written to switch this file on or off; `None` where it is so already."""
        after, mode = (self.on, self.mode_on) if on else (self.off, self.mode_off)
        if after is None or (self.present is not None and mode == self.mode):
            mode = None
        if after == self.present and mode is None:
            return None
        before, now = sha256(self.present), sha256(after)
        like = self.like if self.present is None else ""
        return FileChange(self.shown, self.shown, self.present, after, before, now, mode, like, self.mode)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a section of a diff is looked for."""

    files: Files
    package: str
    """Name of the engine package."""
    existing: frozenset[str]
    stands: tuple[FileStand, ...]
    """Files of the patch that were found before."""
    modes: Mapping[str, int]
    folders: frozenset[str] = frozenset()
    """Folders of the package that are known to be there."""

    def choose(self, asked: str) -> str | None:
        """Return the file that a path means; `None` when there is none."""
        return mapping.choose(asked, self.package, self.existing)

    def for_new(self, asked: str) -> str | None:
        """Return where a file that is not there would belong."""
        folders = {stand.shown.rpartition("/")[0] for stand in self.stands if stand.shown}
        return mapping.place_new(asked, self.package, folders | self.folders)


def absent(skippable: bool = False) -> Piece:
    """Return the piece of a file that is not there."""
    hint = "; name it in skip to leave it out" if skippable else ""
    return Piece(PieceState.MISSING, f"no such file in the package{hint}")

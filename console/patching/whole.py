"""Changes to files as a whole: made, removed, renamed, copied, made executable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from console.domain.patch import Edit, EditKind
from console.patching.diffs import Kind, Section
from console.patching.pieces import Piece, PieceState
from console.patching.stands import FileStand, Place, absent

MODE = 0o644
ANYBODY_RUNS = 0o111


def sectioned(section: Section, place: Place) -> FileStand:
    """Return how a file stands that a diff makes or removes."""
    asked = section.path
    making = section.kind is Kind.CREATE
    shown = place.choose(asked) or place.for_new(asked)
    if not shown:
        note = f"no folder of the package is meant by {asked}; name it in skip to leave it out"
        return FileStand(asked, "", None, (Piece(PieceState.MISSING, note),))
    text = b"".join(line for hunk in section.hunks for _, line in hunk.ops)
    present = place.files.get(shown)
    there = present is not None and present.replace(b"\r\n", b"\n") == text
    content = present if there else text
    mode = (section.mode if making else section.old_mode) or MODE
    return _made(asked, shown, present, content, mode) if making else _removed(asked, shown, present, content, mode)


def edited(edit: Edit, place: Place) -> FileStand:
    """Return how a file stands that an `[[edit]]` makes or removes."""
    shown = place.choose(edit.file)
    if edit.kind is EditKind.CREATE:
        name = shown or _inside(edit.file, place.package)
        text = edit.replace.encode("utf-8", "surrogateescape")
        present = place.files.get(name)
        same = present is not None and present.replace(b"\r\n", b"\n") == text
        return _made(edit.file, name, present, present if same else text, MODE)
    name = shown or _inside(edit.file, place.package)
    present = place.files.get(name)
    stand = _removed(edit.file, name, present, present, MODE)
    if present is None:  # what it held, only the host's journal knows
        return replace(stand, off_known=False)
    return stand


def moved(section: Section, place: Place, examined: Callable[[str, bytes], FileStand]) -> list[FileStand]:
    """Return how the two files of a rename or copy stand.

    Args:
        section: The rename or copy, with hunks or without.
        place: Where it is looked for.
        examined: Places the hunks on the contents of either file.
    """
    old = place.choose(section.old_path)
    new = place.choose(section.new_path) or place.for_new(section.new_path) or _beside(section, old)
    data_old = place.files.get(old) if old else None
    data_new = place.files.get(new) if new else None
    copies = section.kind is Kind.COPY
    word = "copied" if copies else "renamed"
    if data_old is not None and old and new and data_new is None:
        return _to_be_moved(section, place, old, new, examined(old, data_old), copies)
    if data_new is not None and new and (copies or data_old is None):
        name = old or _sibling(section, new)
        stand = examined(new, data_new)
        pieces = stand.pieces or (Piece(PieceState.ON, f"{word} from {section.old_path}"),)
        whole = all(piece.state is PieceState.ON for piece in pieces)
        there = FileStand(section.new_path, new, data_new, pieces, data_new, None, whole, whole)
        if copies:
            return [there]
        back = data_new if not section.hunks else stand.off
        known = back is not None and whole
        mode = _mode(section, place, new, on=False)
        gone = FileStand(section.old_path, name, None, (), None, back, True, known, mode_off=mode, like=new)
        return [there, gone]
    if data_old is not None and data_new is not None:
        note = f"{section.old_path} and {section.new_path} are both there"
        return [FileStand(section.new_path, new or "", data_new, (Piece(PieceState.MISSING, note),))]
    return [FileStand(section.old_path, "", None, (absent(skippable=True),))]


def with_mode(stand: FileStand, section: Section, place: Place) -> FileStand:
    """Return a stand whose mode is part of the patch, as git tells modes: executable or not."""
    mode = place.modes.get(stand.shown)
    if mode is None:
        return replace(stand, pieces=(*stand.pieces, Piece(PieceState.MISSING, "its mode cannot be read here")))
    runs, wants, had = bool(mode & ANYBODY_RUNS), _runs(section.mode), _runs(section.old_mode)
    state = PieceState.ON if runs == wants else PieceState.OFF
    word = "executable" if runs else "not executable"
    return replace(
        stand,
        pieces=(*stand.pieces, Piece(state, word)),
        mode=mode,
        mode_on=_as(mode, wants),
        mode_off=_as(mode, had),
        on=stand.present if not stand.pieces else stand.on,
        off=stand.present if not stand.pieces else stand.off,
        on_known=True if not stand.pieces else stand.on_known,
        off_known=True if not stand.pieces else stand.off_known,
    )


def _to_be_moved(section: Section, place: Place, old: str, new: str, stand: FileStand, copies: bool) -> list[FileStand]:
    note = f"to be {'copied' if copies else 'renamed'} from {old}"
    pieces = stand.pieces or (Piece(PieceState.OFF, note),)
    text = stand.on if section.hunks else stand.present
    known = text is not None and all(piece.state in (PieceState.OFF, PieceState.FUZZ) for piece in pieces)
    mode = _mode(section, place, old, on=True)
    there = FileStand(section.new_path, new, None, pieces, text, None, known, True, mode_on=mode, like=old)
    if copies:
        return [there]
    return [there, FileStand(section.old_path, old, stand.present, (), None, stand.present, True, True)]


def _mode(section: Section, place: Place, known: str, on: bool) -> int | None:
    """Return the mode that the other name of a moved file gets, where the diff changes it."""
    if not section.changes_mode or known not in place.modes:
        return None
    return _as(place.modes[known], _runs(section.mode if on else section.old_mode))


def _made(asked: str, shown: str, present: bytes | None, text: bytes | None, mode: int) -> FileStand:
    piece = _piece(present, text, PieceState.OFF, "to be made", PieceState.ON, "made")
    return FileStand(asked, shown, present, (piece,), text, None, True, True, mode_on=mode if present is None else None)


def _removed(asked: str, shown: str, present: bytes | None, text: bytes | None, mode: int) -> FileStand:
    piece = _piece(present, text, PieceState.ON, "removed", PieceState.OFF, "to be removed")
    return FileStand(
        asked, shown, present, (piece,), None, text, True, True, mode_off=mode if present is None else None
    )


def _piece(
    present: bytes | None, text: bytes | None, without: PieceState, no: str, with_: PieceState, yes: str
) -> Piece:
    if present is None:
        return Piece(without, no)
    return Piece(with_, yes) if present == text else Piece(PieceState.MISSING, "is there with other contents")


def _beside(section: Section, old: str | None) -> str | None:
    """Return where the new name belongs when only the old one is known: the same way from folder to folder."""
    return _counterpart(section.old_path, section.new_path, old) if old else None


def _sibling(section: Section, new: str) -> str:
    return _counterpart(section.new_path, section.old_path, new) or section.old_path


def _counterpart(known: str, wanted: str, shown: str) -> str | None:
    """Return what `wanted` means when `known` means `shown`: what falls away in front is the same."""
    if not known.endswith(shown):
        return None
    lead = known[: len(known) - len(shown)]
    one, other = lead.strip("/").split("/"), wanted.split("/")
    if known.startswith("a/") and wanted.startswith("b/"):
        other[0] = "a"
    elif known.startswith("b/") and wanted.startswith("a/"):
        other[0] = "b"
    count = len(one) if lead else 0
    return "/".join(other[count:]) if not lead or other[:count] == one else None


def _inside(path: str, package: str) -> str:
    plain = path.removeprefix("python/")
    return plain.removeprefix(f"{package}/")


def _runs(mode: int | None) -> bool:
    return bool((mode or 0) & ANYBODY_RUNS)


def _as(mode: int, runs: bool) -> int:
    """Return a mode made executable for whoever may read, or for nobody."""
    return mode | (mode & 0o444) >> 2 if runs else mode & ~ANYBODY_RUNS

"""A patch resolved on present files: what state it is in, and the bytes that would switch it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from console.domain.patch import DiskState, Edit, EditKind, FileChange, Patch
from console.errors import FormatError
from console.patching import edits, mapping, whole
from console.patching.diffs import DiffReader, Hunk, Kind, Section
from console.patching.hunks import HunkReader
from console.patching.pieces import Piece, PieceState, replaced
from console.patching.stands import Files, FileStand, Place, absent, sha256
from console.patching.states import combined
from console.patching.versions import Facts, fit

__all__ = ["Files", "PatchPlan", "bare_names", "plan", "sha256", "wanted_paths"]

MOVES = (Kind.RENAME, Kind.COPY)


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """A patch on present files; nothing in it was written yet."""

    patch: Patch
    state: DiskState
    reason: str = ""
    stands: tuple[FileStand, ...] = ()
    can_on: bool = False
    """Every piece is on, off, or there with fuzz: it can be switched on (drift and fuzz ask first)."""
    can_off: bool = False
    """Every piece is on or off: it can be switched off by its own definition."""
    needs_fuzz: bool = False
    notes: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    """Patches that are on and lie over this one: without them it would be on as it was written."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files of the patch relative to the engine package, or as written where none is meant."""
        return tuple(dict.fromkeys(stand.shown or stand.asked for stand in self.stands))

    def changes(self, on: bool) -> tuple[FileChange, ...]:
        """Return what has to be written to switch the patch on or off; nothing where it is so already."""
        if not (self.can_on if on else self.can_off):
            return ()
        changes = [stand.change(on) for stand in self.stands]
        return tuple(change for change in changes if change is not None)


def wanted_paths(patch: Patch, package: str) -> tuple[str, ...]:
    """Return every path that has to be read before `plan` can tell; none for a patch that is wrong."""
    try:
        asked = [edit.file for edit in patch.edits]
        for section in _sections(patch):
            asked += [section.path, section.old_path] if section.kind in MOVES else [section.path]
    except FormatError:
        return ()
    found = [
        name for path in asked if not mapping.skipped(path, patch.skip) for name in mapping.candidates(path, package)
    ]
    return tuple(dict.fromkeys(found))


def bare_names(patch: Patch) -> tuple[str, ...]:
    """Return file names that stand in the diff without any folder: they can only be asked about."""
    try:
        return tuple(name for section in _sections(patch) if (name := mapping.bare(section.path)))
    except FormatError:
        return ()


def plan(
    patch: Patch,
    files: Files,
    facts: Facts,
    *,
    ours: bool = False,
    found: Mapping[str, list[str]] | None = None,
    modes: Mapping[str, int] | None = None,
    folders: Collection[str] = (),
) -> PatchPlan:
    """Resolve a patch on present files.

    Args:
        patch: The patch.
        files: Contents of all `wanted_paths`.
        facts: Engine package, version and GPU.
        ours: The host's journal says that this patch is on by our own hand.
        found: Where `bare_names` are in the tree, for the question back.
        modes: Modes of the files that are there, as far as they are known.
        folders: Folders of the package that are there, of files that are not.
    """
    if patch.fault:
        return PatchPlan(patch, DiskState.INVALID, patch.fault)
    try:
        sections = _sections(patch)
    except FormatError as error:
        return PatchPlan(patch, DiskState.INVALID, error.one_line())
    present = {path for path, data in files.items() if data is not None}
    stands = _edit_stands(patch, files, facts.engine, present, ours)
    notes: list[str] = []
    for section in sections:
        if mapping.skipped(section.path, patch.skip):
            notes.append(f"left out: {section.path}")
        else:
            place = Place(files, facts.engine, frozenset(present), tuple(stands), modes or {}, frozenset(folders))
            stands += _section_stands(section, place, ours)
    stands = [_with_question(stand, found or {}) for stand in stands]
    for stand in stands:
        if stand.shown and stand.shown != stand.asked:
            notes.append(f"{stand.asked} is {stand.shown} here")
    pieces = tuple((stand.shown or stand.asked, piece) for stand in stands for piece in stand.pieces)
    state, reason = combined(pieces, fit(patch.applies_to, facts), ours)
    switchable = {PieceState.ON, PieceState.OFF, PieceState.PARTLY}
    can_off = all(piece.state in switchable for _, piece in pieces) and all(s.off_known for s in stands)
    can_on = all(piece.state in {*switchable, PieceState.FUZZ} for _, piece in pieces) and all(
        stand.on_known for stand in stands
    )
    needs_fuzz = can_on and any(piece.state is PieceState.FUZZ for _, piece in pieces)
    if state is DiskState.OFF and not can_on:
        state, reason = DiskState.CONFLICT, "its edits overlap each other, or would leave their own text in place"
    return PatchPlan(patch, state, reason, tuple(stands), can_on, can_off, needs_fuzz, tuple(notes))


def _sections(patch: Patch) -> tuple[Section, ...]:
    return DiffReader(patch.diff, patch.diff_path or patch.name).sections() if patch.diff is not None else ()


def _edit_stands(patch: Patch, files: Files, package: str, present: set[str], ours: bool) -> list[FileStand]:
    by_file: dict[str, list[Edit]] = {}
    for edit in patch.edits:
        by_file.setdefault(edit.file, []).append(edit)
    stands: list[FileStand] = []
    for asked, chosen in by_file.items():
        shown = mapping.choose(asked, package, present)
        data = files.get(shown) if shown else None
        if chosen[0].kind in (EditKind.CREATE, EditKind.DELETE):
            place = Place(files, package, frozenset(present), tuple(stands), {})
            stands.append(whole.edited(chosen[0], place))
            continue
        if shown is None or data is None:
            stands.append(FileStand(asked, "", None, tuple(absent() for _ in chosen)))
            continue
        stands.append(_stand(asked, shown, data, functools.partial(_examine_edits, chosen), ours))
    return stands


def _examine_edits(chosen: Sequence[Edit], data: bytes, ours: bool) -> list[Piece]:
    return [edits.examine(edit, data, ours) for edit in chosen]


def _section_stands(section: Section, place: Place, ours: bool) -> list[FileStand]:
    asked = section.path
    shown = place.choose(asked)
    if section.kind is Kind.BINARY:
        note = "binary: cannot be switched; name it in skip to leave it out"
        return [FileStand(asked, shown or "", None, (Piece(PieceState.MISSING, note),))]
    examine = functools.partial(_examine_hunks, section.hunks)
    if section.kind in MOVES:
        return whole.moved(section, place, lambda path, now: _stand(path, path, now, examine, ours))
    if section.kind in (Kind.CREATE, Kind.DELETE):
        return [whole.sectioned(section, place)]
    data = place.files.get(shown) if shown else None
    if shown is None or data is None:
        return [FileStand(asked, "", None, (absent(skippable=True),))]
    stand = _stand(asked, shown, data, examine, ours)
    return [whole.with_mode(stand, section, place) if section.changes_mode else stand]


def _examine_hunks(hunks: Sequence[Hunk], data: bytes, ours: bool) -> list[Piece]:
    return HunkReader(data, ours).examine(hunks)


def _stand(asked: str, shown: str, data: bytes, examine: Callable[[bytes, bool], list[Piece]], ours: bool) -> FileStand:
    pieces = tuple(examine(data, ours))
    on = replaced(data, tuple(span for piece in pieces for span in piece.to_on))
    off = replaced(data, tuple(span for piece in pieces for span in piece.to_off))
    certain = {PieceState.ON, PieceState.OFF, PieceState.PARTLY, PieceState.FUZZ}
    changes = on is not None and on != data and all(piece.state in certain for piece in pieces)
    # The result must be seen as on, or the patch could never be told from a failure.
    if changes and on is not None and any(piece.state is not PieceState.ON for piece in examine(on, True)):
        on = None
    if any(piece.state is PieceState.ON and not piece.to_off for piece in pieces):
        off = None
    return FileStand(asked, shown, data, pieces, on, off, on is not None, off is not None)


def _with_question(stand: FileStand, found: Mapping[str, list[str]]) -> FileStand:
    places = found.get(mapping.bare(stand.asked), [])
    if not places or (stand.shown and len(places) == 1):
        return stand
    many = f"could be {', '.join(sorted(places)[:4])}{' …' if len(places) > 4 else ''}: write its folder in the diff"
    return FileStand(stand.asked, "", None, (Piece(PieceState.AMBIGUOUS, many),))

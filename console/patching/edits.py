"""An `[[edit]]` against the bytes of its file: `find` first, then what `replace` would leave."""

from __future__ import annotations

import dataclasses

from console.domain.patch import Edit, EditKind
from console.patching import ends, inserts, within
from console.patching.depth import shifted, shifts
from console.patching.pieces import Piece, PieceState, Span, line_of, listed, nearest

_CLEAR = (PieceState.ON, PieceState.OFF)


def examine(edit: Edit, data: bytes, ours: bool = False) -> Piece:
    """Tell how an edit stands in a file, and how it would be switched.

    Args:
        edit: The edit.
        data: Present bytes of its file.
        ours: The host's journal says that the patch is on by our own hand: a result that stands
            more often than `count` is then no reason for doubt.
    """
    piece = _stands(edit, data, ours)
    if piece.state in _CLEAR:
        return piece
    find, text = (part.encode("utf-8", "surrogateescape") for part in (edit.find, edit.replace))
    wants = {EditKind.INSERT_BEFORE: text + b"\n" + find, EditKind.INSERT_AFTER: find + b"\n" + text}
    return dataclasses.replace(piece, expected=find, wants=wants.get(edit.kind, text))


def _stands(edit: Edit, data: bytes, ours: bool) -> Piece:
    limits = [(0, len(data))]
    if edit.within:
        limits = within.ranges(data, edit.within)
        if not limits:
            return Piece(PieceState.MISSING, f"no def or class {edit.within}")
    if edit.kind is EditKind.REPLACE:
        finds, results, note = _replacing(edit, data, limits)
    else:
        finds, results, note = *inserts.places(edit, data, limits), ""
    return _judged(edit, data, finds, results, note, ours)


def _judged(edit: Edit, data: bytes, finds: list[Span], results: list[Span], moved: str, ours: bool) -> Piece:
    at = listed([line_of(data, span.start) for span in finds or results]) + moved if finds or results else ""
    to_on, to_off = tuple(finds), tuple(results)
    if len(finds) > edit.count:
        return Piece(PieceState.AMBIGUOUS, _too_many("found", finds, edit, at))
    if finds and len(finds) == edit.count:
        also = [line_of(data, span.start) for span in results]
        note = f"at {at}" + (f"; its result also stands at {listed(also)}" if also else "")
        return Piece(PieceState.OFF, note, to_on)
    if finds and len(finds) + len(results) == edit.count:
        return Piece(PieceState.PARTLY, f"off at {at}, on elsewhere", to_on, to_off)
    if finds:
        return Piece(PieceState.MISSING, f"found {len(finds)} of {edit.count} times, at {at}")
    if len(results) == edit.count or (ours and len(results) > edit.count):
        exact = len(results) == edit.count
        return Piece(PieceState.ON, f"at {at}", to_off=to_off if exact else ())
    if results:
        return Piece(PieceState.AMBIGUOUS, _too_many("its result stands", results, edit, at))
    _, why = nearest(data.split(b"\n"), edit.find.encode("utf-8", "surrogateescape").split(b"\n"))
    where = f" in {edit.within}" if edit.within else ""
    return Piece(PieceState.MISSING, f"not found{where}: {why}")


def _too_many(what: str, places: list[Span], edit: Edit, at: str) -> str:
    times = "twice" if len(places) == 2 else f"{len(places)} times"
    expected = "" if edit.count == 1 else f" instead of {edit.count}"
    return f"{what} {times}{expected}, at {at}: lengthen find by a neighbouring line or set count = {len(places)}"


def _replacing(edit: Edit, data: bytes, limits: list[tuple[int, int]]) -> tuple[list[Span], list[Span], str]:
    """Return finds, results, and a note where the block was found at another indentation.

    Inside a named def of a Python file, the depth of a block does not count: an `if` that was put
    around it upstream moves it as a whole, and the result moves with it.
    """
    finds, results = _both(edit, data, limits)
    if finds or results or not edit.within or not edit.file.endswith(".py"):
        return finds, results, ""
    for by in shifts(edit, data, limits):
        moved = dataclasses.replace(edit, find=shifted(edit.find, by), replace=shifted(edit.replace, by))
        finds, results = _both(moved, data, limits)
        if finds or results:
            return finds, results, f" (indented by {by:+d})"
    return [], [], ""


def _both(edit: Edit, data: bytes, limits: list[tuple[int, int]]) -> tuple[list[Span], list[Span]]:
    """Return where `find` stands and where `replace` does, whatever the line ends are there."""
    file = ends.plain(data)
    find, replace = ends.unix(edit.find), ends.unix(edit.replace)
    ranges = [(file.back(low), file.back(high)) for low, high in limits]
    finds = _places(file.text, find, ranges)
    results = _places(file.text, replace, ranges)
    # What lies inside a find is not a result, and the other way round where find is part of replace.
    results = [place for place in results if not any(_inside(place, outer) for outer in finds)]
    finds = [place for place in finds if not any(_inside(place, outer) for outer in results)]
    to_on = [_span(file, place, replace, ends.written(edit.replace + edit.find)) for place in finds]
    return to_on, [_span(file, place, find, ends.written(edit.find + edit.replace)) for place in results]


def _span(file: ends.Plain, place: tuple[int, int], text: bytes, written: bytes) -> Span:
    start, end = map(file.at, place)
    return Span(start, end, file.dressed(text, start, end, written))


def _places(text: bytes, wanted: bytes, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    starts = {start for low, high in ranges for start in _occurrences(text, wanted, low, high)}
    return [(start, start + len(wanted)) for start in sorted(starts)]


def _occurrences(data: bytes, text: bytes, low: int, high: int) -> list[int]:
    """Return every start of `text`, overlapping ones too: "aa" is twice in "aaa"."""
    found = []
    at = data.find(text, low, high)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + 1, high)
    return found


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1] and inner != outer

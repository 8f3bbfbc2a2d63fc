"""Edits that put whole lines beside an anchor: nothing of the anchor itself is touched."""

from __future__ import annotations

from console.domain.patch import Edit, EditKind
from console.patching import ends
from console.patching.pieces import Span


def places(edit: Edit, data: bytes, limits: list[tuple[int, int]]) -> tuple[list[Span], list[Span]]:
    """Return where the lines are to be put, and where they stand already.

    Args:
        edit: One of the inserting kinds.
        data: Present bytes of its file.
        limits: Ranges that the anchor must lie in.
    """
    file = ends.plain(data)
    find, text = ends.unix(edit.find), ends.unix(edit.replace)
    written = ends.written(edit.find + edit.replace)
    limits = [(file.back(low), file.back(high)) for low, high in limits]
    after = edit.kind is EditKind.INSERT_AFTER
    to_on: list[Span] = []
    to_off: list[Span] = []
    for start in _anchors(find, file.text, limits):
        first, last = _line_start(file.text, start), _line_end(file.text, start + len(find))
        place = _standing_after(file.text, last, text) if after else _standing_before(file.text, first, text)
        if place is not None:
            to_off.append(Span(file.at(place[0]), file.at(place[1]), b""))
            continue
        eol = file.end_of(last, written)
        lines = text.replace(b"\n", eol)
        at = file.at(last if after else first)
        to_on.append(Span(at, at, eol + lines if after else lines + eol))
    # An anchor that only stands in the lines that we put there is none.
    held = [(span.start, span.end) for span in to_off]
    to_on = [span for span in to_on if not any(low < span.start < high or low < span.end <= high for low, high in held)]
    return _apart(to_on), _apart(to_off)


def _anchors(find: bytes, data: bytes, limits: list[tuple[int, int]]) -> list[int]:
    found: dict[int, None] = {}
    for low, high in limits:
        at = data.find(find, low, high)
        while at >= 0:
            found[at] = None
            at = data.find(find, at + 1, high)
    return sorted(found)


def _standing_after(data: bytes, last: int, text: bytes) -> tuple[int, int] | None:
    whole = b"\n" + text
    end = last + len(whole)
    return (last, end) if data[last:end] == whole and data[end : end + 1] in (b"", b"\n") else None


def _standing_before(data: bytes, first: int, text: bytes) -> tuple[int, int] | None:
    start = first - len(text) - 1
    begins = start == 0 or (start > 0 and data[start - 1 : start] == b"\n")
    return (start, first) if begins and data[start:first] == text + b"\n" else None


def _line_start(data: bytes, at: int) -> int:
    return data.rfind(b"\n", 0, at) + 1


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _apart(spans: list[Span]) -> list[Span]:
    """Return spans without those that say the same twice: two anchors on one line are one place."""
    return list(dict.fromkeys(spans))

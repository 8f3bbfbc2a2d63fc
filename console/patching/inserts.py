"""Edits that put whole lines beside an anchor: nothing of the anchor itself is touched."""

from __future__ import annotations

from console.domain.patch import Edit, EditKind
from console.patching.pieces import Span


def places(edit: Edit, data: bytes, limits: list[tuple[int, int]]) -> tuple[list[Span], list[Span]]:
    """Return where the lines are to be put, and where they stand already.

    Args:
        edit: One of the inserting kinds.
        data: Present bytes of its file.
        limits: Ranges that the anchor must lie in.
    """
    eol = b"\r\n" if data.count(b"\r\n") * 2 > data.count(b"\n") else b"\n"
    find, text = (part.replace("\r\n", "\n").encode("utf-8", "surrogateescape") for part in (edit.find, edit.replace))
    find, text = find.replace(b"\n", eol), text.replace(b"\n", eol)
    after = edit.kind is EditKind.INSERT_AFTER
    to_on: list[Span] = []
    to_off: list[Span] = []
    for start in _anchors(find, data, limits):
        first, last = _line_start(data, start), _line_end(data, start + len(find))
        there = _standing_after(data, last, text, eol) if after else _standing_before(data, first, text, eol)
        if there is not None:
            to_off.append(there)
        elif after:
            to_on.append(Span(last, last, eol + text))
        else:
            to_on.append(Span(first, first, text + eol))
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


def _standing_after(data: bytes, last: int, text: bytes, eol: bytes) -> Span | None:
    whole = eol + text
    end = last + len(whole)
    return Span(last, end, b"") if data[last:end] == whole and _ends_line(data, end) else None


def _standing_before(data: bytes, first: int, text: bytes, eol: bytes) -> Span | None:
    start = first - len(text) - len(eol)
    begins = start == 0 or (start > 0 and data[start - 1 : start] == b"\n")
    return Span(start, first, b"") if begins and data[start:first] == text + eol else None


def _ends_line(data: bytes, at: int) -> bool:
    return at == len(data) or data[at : at + 1] == b"\n" or data[at : at + 2] == b"\r\n"


def _line_start(data: bytes, at: int) -> int:
    return data.rfind(b"\n", 0, at) + 1


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    end = len(data) if end < 0 else end
    return end - 1 if end > at and data[end - 1 : end] == b"\r" else end


def _apart(spans: list[Span]) -> list[Span]:
    """Return spans without those that say the same twice: two anchors on one line are one place."""
    return list(dict.fromkeys(spans))

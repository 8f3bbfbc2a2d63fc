"""A piece that does not fit, seen from three sides: what was expected, what is there, what is wanted."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from console.domain.text import SafeText, clean
from console.patching.pieces import PieceState
from console.patching.plan import PatchPlan

_DOUBT = (PieceState.MISSING, PieceState.AMBIGUOUS, PieceState.FUZZ, PieceState.PARTLY)
_FAR = 20_000
"""Lines from which a file is searched by equal lines only."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One edit or hunk that is not there as it was written for."""

    file: str
    why: str
    expected: tuple[str, ...]
    there: tuple[str, ...]
    """The nearest lines of the file; none when nothing is like it."""
    line: int
    """Number of the first of them; 0 when there are none."""
    wants: tuple[str, ...]


def three_way(plan: PatchPlan) -> tuple[Conflict, ...]:
    """Return every piece of a plan that does not fit."""
    found = []
    for stand in plan.stands:
        for piece in stand.pieces:
            if piece.state not in _DOUBT or not piece.expected:
                continue
            expected, lines = _rows(piece.expected), _rows(stand.present or b"")
            first, last = nearest_block(lines, expected)
            there = tuple(lines[first:last])
            line = first + 1 if there else 0
            file = stand.shown or stand.asked
            found.append(Conflict(file, piece.note, tuple(expected), there, line, tuple(_rows(piece.wants))))
    return tuple(found)


def rendered(conflicts: Sequence[Conflict]) -> tuple[SafeText, ...]:
    """Return the conflicts as lines: `=` marks what was expected and is there, `?` what is not."""
    out: list[str] = []
    for one in conflicts:
        out.append(f"!!! {one.file}: {one.why}")
        kept = _common(one.expected, one.there)
        out.append("--- expected")
        out += [f"{'=' if index in kept else '?'} {row}" for index, row in enumerate(one.expected)]
        if one.there:
            same = set(kept.values())
            out.append(f"--- is there, line {one.line}")
            out += [f"{'=' if index in same else '!'} {row}" for index, row in enumerate(one.there)]
        else:
            out.append("--- nothing like it is there")
        out.append("--- wants")
        stays = _common(one.wants, one.expected)
        out += [f"{'=' if index in stays else '+'} {row}" for index, row in enumerate(one.wants)]
    return tuple(clean(row) for row in out)


def nearest_block(lines: Sequence[str], wanted: Sequence[str]) -> tuple[int, int]:
    """Return the range of lines that is most like a block; an empty one when nothing is.

    Places are proposed by equal lines, rare ones counting more, and by likeness of the longest
    line; the best by difflib's ratio wins.
    """
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(number)
    votes: dict[int, float] = {}
    for index, line in enumerate(wanted):
        found = places.get(line.strip(), ()) if len(line.strip()) > 1 else ()
        for number in found:
            votes[number - index] = votes.get(number - index, 0.0) + 1 / len(found)
    longest = max(wanted, key=lambda line: len(line.strip()), default="")
    if longest.strip() and len(lines) < _FAR:
        for close in difflib.get_close_matches(longest.strip(), list(places), n=3, cutoff=0.6):
            for number in places[close][:3]:
                start = number - list(wanted).index(longest)
                votes[start] = votes.get(start, 0.0) + 0.5
    best, score = (0, 0), 0.0
    for start in sorted(votes, key=lambda at: (-votes[at], at))[:8]:
        first, last = max(0, start), min(len(lines), max(start, 0) + len(wanted))
        ratio = difflib.SequenceMatcher(None, "\n".join(lines[first:last]), "\n".join(wanted), autojunk=False).ratio()
        if ratio > score:
            best, score = (first, last), ratio
    return _trimmed(lines, wanted, *best) if score > 0.3 else (0, 0)


def _trimmed(lines: Sequence[str], wanted: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """Return the range widened to lines that match just outside of it: an insertion upstream makes it longer."""
    low, high = max(0, first - len(wanted)), min(len(lines), last + len(wanted))
    blocks = difflib.SequenceMatcher(
        None, [row.strip() for row in lines[low:high]], [row.strip() for row in wanted], autojunk=False
    ).get_matching_blocks()
    solid = [
        block
        for block in blocks
        if block.size and any(len(lines[low + block.a + n].strip()) > 1 for n in range(block.size))
    ]
    if not solid:
        return first, last
    begin = min(first, low + solid[0].a - min(solid[0].b, solid[0].a))
    end = max(last, low + solid[-1].a + solid[-1].size)
    return (begin, end) if end - begin <= 2 * len(wanted) else (first, last)


def _common(one: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    blocks = difflib.SequenceMatcher(None, list(one), list(other), autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}


def _rows(data: bytes) -> list[str]:
    rows = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return rows[:-1] if rows[-1] == "" else rows

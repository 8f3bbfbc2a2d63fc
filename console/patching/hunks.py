"""The hunks of a diff against the lines of their file: exact, at an offset, or only with fuzz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from console.patching.diffs import Hunk
from console.patching.pieces import Piece, PieceState, Span, listed, nearest

FUZZ_LIMIT = 2
"""Context lines that may be ignored at either end, as in GNU patch; never silently."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a hunk, with the lines that it becomes."""

    ops: tuple[tuple[str, bytes], ...]
    """`-` marks lines of this side only, `+` lines of the other one."""
    start: int
    """Where this side is expected, 0-based, before any offset."""

    @property
    def lines(self) -> tuple[bytes, ...]:
        return tuple(text for tag, text in self.ops if tag != "+")


@dataclass(frozen=True, slots=True)
class _Match:
    at: int
    """0-based line."""
    side: _Side
    """Trimmed when found with fuzz."""


class HunkReader:
    """Places hunks of one file one after another.

    Args:
        data: Present bytes of the file.
        ours: The host's journal says that the patch is on by our own hand.
    """

    def __init__(self, data: bytes, ours: bool = False) -> None:
        self._ours = ours
        parts = data.split(b"\n")
        last = parts.pop()
        self._raw = [part + b"\n" for part in parts] + ([last] if last else [])
        self._plain = [_unix(line) for line in self._raw]
        self._starts = [0]
        for line in self._raw:
            self._starts.append(self._starts[-1] + len(line))
        self._before: tuple[Hunk, int] | None = None
        """The last hunk that was found, and the line behind it in the file."""
        self._places: dict[bool, dict[bytes, list[int]]] = {}

    def examine(self, hunks: Sequence[Hunk]) -> list[Piece]:
        """Tell how each hunk stands; they must lie in the order of the diff."""
        return [self._with_both(hunk, self._one(hunk)) for hunk in hunks]

    @staticmethod
    def _with_both(hunk: Hunk, piece: Piece) -> Piece:
        """Return a piece in doubt with both sides of its hunk, to be compared with what is there."""
        if piece.state in (PieceState.ON, PieceState.OFF):
            return piece
        return replace(piece, expected=b"".join(hunk.old), wants=b"".join(hunk.new))

    def _one(self, hunk: Hunk) -> Piece:
        old = _Side(hunk.ops, _start(hunk, on=False))
        new = _Side(tuple((_turned(tag), text) for tag, text in hunk.ops), _start(hunk, on=True))
        if not old.lines:
            return Piece(PieceState.MISSING, f"hunk at line {hunk.line} has no context: nothing says where it goes")
        finds, results = self._fitting(old, hunk), self._fitting(new, hunk)
        results = [at for at in results if not _within(at, new, finds, old)]
        finds = [at for at in finds if not _within(at, old, results, new)]
        expected_off, expected_on = self._expected(hunk, old.start), self._expected(hunk, new.start)
        if expected_on in results:
            return self._piece(PieceState.ON, _Match(expected_on, new), hunk)
        if expected_off in finds:
            return self._piece(PieceState.OFF, _Match(expected_off, old), hunk)
        if len(finds) == 1 and (not results or not self._ours):
            return self._piece(PieceState.OFF, _Match(finds[0], old), hunk, results)
        if len(finds) > 1:
            where = listed([at + 1 for at in finds])
            return Piece(PieceState.AMBIGUOUS, f"hunk at line {hunk.line} found {len(finds)} times, at {where}")
        if len(results) == 1:
            return self._piece(PieceState.ON, _Match(results[0], new), hunk)
        if results:
            where = listed([at + 1 for at in results])
            state = PieceState.ON if self._ours else PieceState.AMBIGUOUS
            return Piece(state, f"the result of the hunk at line {hunk.line} stands {len(results)} times, at {where}")
        return self._with_fuzz(old, new, hunk)

    def _fitting(self, side: _Side, hunk: Hunk) -> list[int]:
        """Return where a side stands; what had no context at an end of the file fits only there."""
        found = self._all(side, hunk.verbatim)
        if hunk.at_start:
            found = [at for at in found if at == 0]
        if hunk.at_end:
            found = [at for at in found if at + len(side.lines) == len(self._raw)]
        return found

    def _with_fuzz(self, old: _Side, new: _Side, hunk: Hunk) -> Piece:
        for fuzz in range(1, FUZZ_LIMIT + 1):
            side = _trimmed(old, fuzz)
            finds = self._all(side, hunk.verbatim) if side is not None else []
            if side is not None and len(finds) == 1:
                _, why = nearest(
                    [line.rstrip(b"\r\n") for line in self._raw], [line.rstrip(b"\n") for line in old.lines]
                )
                piece = self._piece(PieceState.FUZZ, _Match(finds[0], side), hunk)
                return Piece(piece.state, f"{piece.note} only with fuzz {fuzz}: {why}", piece.to_on, (), piece.offset)
        for fuzz in range(1, FUZZ_LIMIT + 1):
            side = _trimmed(new, fuzz)
            results = self._all(side, hunk.verbatim) if side is not None and any(t == "-" for t, _ in side.ops) else []
            if side is not None and len(results) == 1:
                piece = self._piece(PieceState.ON, _Match(results[0], side), hunk)
                return Piece(piece.state, f"{piece.note} with fuzz {fuzz}", (), piece.to_off, piece.offset)
        _, why = nearest([line.rstrip(b"\r\n") for line in self._raw], [line.rstrip(b"\n") for line in old.lines])
        return Piece(PieceState.MISSING, f"hunk at line {hunk.line} not found: {why}")

    def _expected(self, hunk: Hunk, start: int) -> int:
        """Return where a hunk stands if what lies between it and the last one is as in the diff."""
        if self._before is None:
            return start
        last, behind = self._before
        return behind + hunk.old_start - (last.old_start + len(last.old))

    def _piece(self, state: PieceState, match: _Match, hunk: Hunk, results: Sequence[int] = ()) -> Piece:
        on = state is PieceState.ON
        offset = match.at - match.side.start
        behind = match.at + len(match.side.lines)
        tail = len(hunk.new if on else hunk.old) - len(match.side.lines) - (match.side.start - _start(hunk, on))
        self._before = (hunk, behind + max(0, tail))
        span = self._span(match, hunk.crlf)
        note = f"at line {match.at + 1}" + (f" (offset {offset:+d})" if offset else "")
        if results:
            note += f"; its result also stands at {listed([at + 1 for at in results])}"
        return Piece(state, note, () if on else (span,), (span,) if on else (), offset)

    def _span(self, match: _Match, crlf: bool) -> Span:
        lines, cursor = [], match.at
        for tag, text in match.side.ops:
            if tag == "+":
                lines.append(self._dressed(text, cursor, crlf))
                continue
            if tag == " ":
                lines.append(self._raw[cursor])
            cursor += 1
        return Span(self._starts[match.at], self._starts[cursor], b"".join(lines))

    def _dressed(self, text: bytes, near: int, crlf: bool) -> bytes:
        """Return a line with the line end of its neighbour in the file, else with the diff's."""
        neighbour = self._raw[max(0, min(near, len(self._raw) - 1))] if self._raw else b""
        if not neighbour.endswith(b"\n") and len(self._raw) > 1:
            neighbour = self._raw[-2]
        if not neighbour.endswith(b"\n"):
            neighbour = b"\r\n" if crlf else b"\n"
        if neighbour.endswith(b"\r\n") and text.endswith(b"\n") and not text.endswith(b"\r\n"):
            return text[:-1] + b"\r\n"
        return text

    def _all(self, side: _Side, verbatim: bool) -> list[int]:
        source = self._raw if verbatim else self._plain
        wanted = list(side.lines)
        if not wanted:
            return []
        if verbatim not in self._places:
            places: dict[bytes, list[int]] = {}
            for number, line in enumerate(source):
                places.setdefault(line, []).append(number)
            self._places[verbatim] = places
        places = self._places[verbatim]
        rare = min(range(len(wanted)), key=lambda index: len(places.get(wanted[index], ())))
        starts = [number - rare for number in places.get(wanted[rare], ())]
        return [at for at in starts if at >= 0 and source[at : at + len(wanted)] == wanted]


def _start(hunk: Hunk, on: bool) -> int:
    return max(0, (hunk.new_start if on else hunk.old_start) - 1)


def _turned(tag: str) -> str:
    return {"+": "-", "-": "+"}.get(tag, tag)


def _within(at: int, side: _Side, others: Sequence[int], other: _Side) -> bool:
    size, size_other = len(side.lines), len(other.lines)
    return size < size_other and any(start <= at and at + size <= start + size_other for start in others)


def _trimmed(side: _Side, fuzz: int) -> _Side | None:
    """Return the side without up to `fuzz` lines of context at either end, as GNU patch ignores them."""
    ops = list(side.ops)
    lead = next((i for i, (tag, _) in enumerate(ops) if tag != " "), len(ops))
    tail = next((i for i, (tag, _) in enumerate(reversed(ops)) if tag != " "), len(ops))
    most = max(lead, tail)
    cut_lead, cut_tail = max(0, fuzz + lead - most), max(0, fuzz + tail - most)
    cut_lead, cut_tail = min(cut_lead, lead), min(cut_tail, tail)
    if not cut_lead and not cut_tail:
        return None
    kept = tuple(ops[cut_lead : len(ops) - cut_tail])
    return _Side(kept, side.start + cut_lead) if any(tag != "+" for tag, _ in kept) else None


def _unix(line: bytes) -> bytes:
    return line[:-2] + b"\n" if line.endswith(b"\r\n") else line

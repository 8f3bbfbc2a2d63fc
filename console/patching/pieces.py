"""The smallest things that a patch does, and how each of them stands in a file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PieceState(StrEnum):
    """How one edit or hunk stands."""

    OFF = "off"
    ON = "on"
    PARTLY = "partly"
    """Some of its `count` places are on, the others off."""
    MISSING = "missing"
    AMBIGUOUS = "ambiguous"
    FUZZ = "fuzz"
    """Found only when some of its context is ignored."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `end` of a file, to be replaced by `text`."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """One edit or hunk against the present bytes of its file."""

    state: PieceState
    note: str = ""
    """Where it is, or why it is not there."""
    to_on: tuple[Span, ...] = ()
    """What to replace so that it is on; empty where it is already."""
    to_off: tuple[Span, ...] = ()
    offset: int = 0
    """Lines between where the hunk was written for and where it is."""
    expected: bytes = b""
    """What the patch looked for, where that is not there as it should be."""
    wants: bytes = b""
    """What it would have left in that place."""


def line_of(data: bytes, position: int) -> int:
    """Return the 1-based number of the line that a byte stands on."""
    return data.count(b"\n", 0, position) + 1


def replaced(data: bytes, spans: tuple[Span, ...]) -> bytes | None:
    """Return `data` with every span replaced; `None` when two of them overlap."""
    out, at = bytearray(), 0
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if span.start < at:
            return None
        out += data[at : span.start] + span.text
        at = span.end
    return bytes(out + data[at:])


def listed(numbers: list[int]) -> str:
    """Return line numbers in words: `line 3`, `lines 3 and 9`, `lines 3, 9 and 12`."""
    words = [str(number) for number in numbers[:8]]
    if len(numbers) > 8:
        words.append(f"{len(numbers) - 8} more")
    if len(words) == 1:
        return f"line {words[0]}"
    return f"lines {', '.join(words[:-1])} and {words[-1]}"


def nearest(lines: list[bytes], wanted: list[bytes]) -> tuple[int, str]:
    """Return where a block of lines is most nearly found, and what differs there.

    Returns:
        1-based number of the first differing line (0 when nothing is alike), and a sentence.
    """
    keys = [line.strip() for line in wanted]
    best, score = -1, 0
    places: dict[bytes, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(number)
    votes: dict[int, int] = {}
    for index, key in enumerate(keys):
        for number in places.get(key, ()) if len(key) > 1 else ():
            votes[number - index] = votes.get(number - index, 0) + 1
    for start, count in votes.items():
        if count > score or (count == score and start < best):
            best, score = start, count
    if best < 0 and score == 0:
        return _alike(lines, keys)
    for index, key in enumerate(keys):
        number = best + index
        present = lines[number] if 0 <= number < len(lines) else b""
        if present.strip() != key:
            return number + 1, f"line {number + 1} is {_quote(present)}, expected {_quote(wanted[index])}"
    return best + 1, f"line {best + 1} differs in white space only"


def _alike(lines: list[bytes], keys: list[bytes]) -> tuple[int, str]:
    import difflib

    longest = max(keys, key=len, default=b"").decode("utf-8", "replace")
    texts = [line.strip().decode("utf-8", "replace") for line in lines]
    close = difflib.get_close_matches(longest, dict.fromkeys(texts), n=1, cutoff=0.75) if len(texts) < 20000 else []
    if not close or not longest:
        return 0, "nothing like it is there"
    number = texts.index(close[0])
    return number + 1, f"nearest is line {number + 1}: {_quote(lines[number])}"


def _quote(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return f"'{text[:100]}…'" if len(text) > 100 else f"'{text}'"

"""Taking back one change from a file that went on changing: exactly ours, or not at all."""

from __future__ import annotations

import difflib

_Block = tuple[int, int, int]
"""(start in one, start in the other, length) of equal lines."""


def take_back(before: bytes, after: bytes, present: bytes) -> bytes | None:
    """Return `present` without the change from `before` to `after`.

    Returns:
        `None` where somebody changed a line of ours, or one right beside it.
    """
    if present == after:
        return before
    old, new, now = _lines(before), _lines(after), _lines(present)
    kept = _blocks(new, now)
    out, at = [], 0
    for low, high, old_low, old_high in _changes(old, new):
        place = _mapped(kept, low, high, len(new), len(now))
        if place is None or place < at:
            return None
        out += now[at:place] + old[old_low:old_high]
        at = place + (high - low)
    return b"".join(out + now[at:])


def _mapped(kept: list[_Block], low: int, high: int, size: int, size_now: int) -> int | None:
    """Return where lines `low` to `high` stand now, when they and their neighbours are untouched."""
    for start, start_now, length in kept:
        first = low == 0 and start == 0 and start_now == 0
        last = high == size and start + length == size and start_now + length == size_now
        lead = start < low or first
        tail = high < start + length or last
        if start <= low and high <= start + length and lead and tail:
            return start_now + low - start
    return None


def _changes(old: list[bytes], new: list[bytes]) -> list[tuple[int, int, int, int]]:
    changes, at_old, at_new = [], 0, 0
    for start_old, start_new, length in [*_blocks(old, new), (len(old), len(new), 0)]:
        if (at_old, at_new) != (start_old, start_new):
            changes.append((at_new, start_new, at_old, start_old))
        at_old, at_new = start_old + length, start_new + length
    return changes


def _blocks(one: list[bytes], other: list[bytes]) -> list[_Block]:
    head, most = 0, min(len(one), len(other))
    while head < most and one[head] == other[head]:
        head += 1
    tail = 0
    while tail < most - head and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    matcher = difflib.SequenceMatcher(
        None, one[head : len(one) - tail], other[head : len(other) - tail], autojunk=False
    )
    blocks = [(0, 0, head)] if head else []
    blocks += [(b.a + head, b.b + head, b.size) for b in matcher.get_matching_blocks() if b.size]
    if tail:
        blocks.append((len(one) - tail, len(other) - tail, tail))
    merged: list[_Block] = []
    for block in blocks:
        if merged and merged[-1][0] + merged[-1][2] == block[0] and merged[-1][1] + merged[-1][2] == block[1]:
            merged[-1] = (merged[-1][0], merged[-1][1], merged[-1][2] + block[2])
        else:
            merged.append(block)
    return merged


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines

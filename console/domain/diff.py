"""Unified diffs of two byte strings: exact for tools, and made safe for the screen."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter

from console.domain.text import SafeText, clean

EFFORT_LIMIT = 4_000_000
"""Lines before × lines after, once equal ends are cut off; beyond it the middle is parted at lines that are there once."""

NO_NEWLINE = b"\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


def unified(before: bytes | None, after: bytes | None, name: str, context: int = 3) -> tuple[SafeText, ...]:
    """Return the unified diff of two contents of a file as lines that may be drawn.

    A carriage return before a line end is shown as `␍`, a missing final newline as its usual note.

    Args:
        before: Old bytes; `None` when there was no file.
        after: New bytes; `None` when there is none any more.
        name: Path for the header.
        context: Equal lines around each change.
    """
    return shown(unified_bytes(before, after, name, context))


def shown(diff: bytes) -> tuple[SafeText, ...]:
    """Return the lines of a unified diff, from whatever tool, as they may be drawn."""
    lines = diff.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return tuple(SafeText(clean(line[:-1]) + "␍") if line.endswith(b"\r") else clean(line) for line in lines)


def unified_bytes(before: bytes | None, after: bytes | None, name: str, context: int = 3) -> bytes:
    """Return the unified diff that `patch` and `git apply` take; empty when nothing differs."""
    if before == after:
        return b""
    old, new = lines_of(before or b""), lines_of(after or b"")
    label = name.encode("utf-8", "surrogateescape")
    out = [
        b"--- " + (b"/dev/null" if before is None else b"a/" + label),
        b"+++ " + (b"/dev/null" if after is None else b"b/" + label),
    ]
    for group in groups(opcodes(old, new), context):
        out.append(_header(group))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += _marked(b" ", old[i1:i2])
                continue
            out += _marked(b"-", old[i1:i2])
            out += _marked(b"+", new[j1:j2])
    return b"\n".join(out) + b"\n"


def counts(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """Return how many lines were added and removed."""
    old, new = lines_of(before or b""), lines_of(after or b"")
    changes = [op for op in opcodes(old, new) if op[0] != "equal"]
    return sum(op[4] - op[3] for op in changes), sum(op[2] - op[1] for op in changes)


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a content, each with its line end."""
    parts = data.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines


def opcodes(old: list[bytes], new: list[bytes]) -> list[Opcode]:
    """Return how one list of lines becomes another, as `difflib` tells it."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    codes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    codes += [
        (tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in _middle(middle_old, middle_new)
    ]
    if end:
        codes.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return codes


def _middle(old: list[bytes], new: list[bytes]) -> list[Opcode]:
    """Return the opcodes of what is left between equal ends; long ones are parted at lines that are there once."""
    if not old and not new:
        return []
    if len(old) * len(new) <= EFFORT_LIMIT:
        return list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    codes: list[Opcode] = []
    i1 = j1 = 0
    anchors = _anchors(old, new)
    for i2, j2 in [*anchors, (len(old), len(new))]:
        part_old, part_new = old[i1:i2], new[j1:j2]
        if len(part_old) * len(part_new) > EFFORT_LIMIT:
            codes.append(("replace", i1, i2, j1, j2))
        elif part_old or part_new:
            codes += [(tag, a + i1, b + i1, c + j1, d + j1) for tag, a, b, c, d in opcodes(part_old, part_new)]
        if i2 < len(old) or j2 < len(new):
            codes.append(("equal", i2, i2 + 1, j2, j2 + 1))
        i1, j1 = i2 + 1, j2 + 1
    return _joined(codes)


def _anchors(old: list[bytes], new: list[bytes]) -> list[tuple[int, int]]:
    """Return lines that are there once on both sides, as many as keep their order."""
    once_old = {line for line, number in Counter(old).items() if number == 1}
    once_new = {line: at for at, line in enumerate(new)}
    twice = {line for line, number in Counter(new).items() if number > 1}
    pairs = [
        (i, once_new[line]) for i, line in enumerate(old) if line in once_old and line in once_new and line not in twice
    ]
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        at = bisect_left(tails, j)
        if at == len(tails):
            tails.append(j)
            ends.append(number)
        else:
            tails[at], ends[at] = j, number
        before.append(ends[at - 1] if at else -1)
    found = []
    number = ends[-1] if ends else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _joined(codes: list[Opcode]) -> list[Opcode]:
    """Return opcodes with neighbours of one kind made one, and a removal beside an addition a replacement."""
    found: list[Opcode] = []
    for tag, i1, i2, j1, j2 in codes:
        if found and (found[-1][0] == "equal") == (tag == "equal"):
            last = found.pop()
            i1, j1 = last[1], last[3]
            if tag != "equal":
                tag = "insert" if i1 == i2 else "delete" if j1 == j2 else "replace"
        found.append((tag, i1, i2, j1, j2))
    return found


def groups(codes: list[Opcode], context: int) -> list[list[Opcode]]:
    """Return runs of changes with their context: the hunks."""
    found: list[list[Opcode]] = []
    group: list[Opcode] = []
    for at, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        head, tail = at > 0, at < len(codes) - 1
        if head and tail and i2 - i1 <= 2 * context:
            group.append((tag, i1, i2, j1, j2))
            continue
        if head and group:
            keep = min(context, i2 - i1)
            found.append([*group, (tag, i1, i1 + keep, j1, j1 + keep)])
        keep = min(context, i2 - i1) if tail else 0
        group = [(tag, i2 - keep, i2, j2 - keep, j2)]
    if any(code[0] != "equal" for code in group):
        found.append(group)
    return found


def _header(group: list[Opcode]) -> bytes:
    first, last = group[0], group[-1]
    return b"@@ -%s +%s @@" % (_range(first[1], last[2]), _range(first[3], last[4]))


def _range(start: int, stop: int) -> bytes:
    length = stop - start
    if length == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start if length == 0 else start + 1, length)


def _marked(mark: bytes, lines: list[bytes]) -> list[bytes]:
    out: list[bytes] = []
    for line in lines:
        if line.endswith(b"\n"):
            out.append(mark + line[:-1])
        else:
            out += [mark + line, NO_NEWLINE]
    return out

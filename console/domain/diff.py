"""Unified diffs of two byte strings: exact for tools, and made safe for the screen."""

from __future__ import annotations

import difflib

from console.domain.text import SafeText, clean

EFFORT_LIMIT = 4_000_000
"""Lines before × lines after, once equal ends are cut off; beyond it the whole middle is one change."""

NO_NEWLINE = b"\\ No newline at end of file"

_Opcode = tuple[str, int, int, int, int]


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
    old, new = _lines(before or b""), _lines(after or b"")
    label = name.encode("utf-8", "surrogateescape")
    out = [
        b"--- " + (b"/dev/null" if before is None else b"a/" + label),
        b"+++ " + (b"/dev/null" if after is None else b"b/" + label),
    ]
    for group in _groups(_opcodes(old, new), context):
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
    old, new = _lines(before or b""), _lines(after or b"")
    changes = [op for op in _opcodes(old, new) if op[0] != "equal"]
    return sum(op[4] - op[3] for op in changes), sum(op[2] - op[1] for op in changes)


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines


def _opcodes(old: list[bytes], new: list[bytes]) -> list[_Opcode]:
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    codes: list[_Opcode] = [("equal", 0, start, 0, start)] if start else []
    if len(middle_old) * len(middle_new) > EFFORT_LIMIT:
        codes.append(("replace", start, start + len(middle_old), start, start + len(middle_new)))
    else:
        matcher = difflib.SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        codes += [
            (tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    if end:
        codes.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return codes


def _groups(codes: list[_Opcode], context: int) -> list[list[_Opcode]]:
    groups: list[list[_Opcode]] = []
    group: list[_Opcode] = []
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
            groups.append([*group, (tag, i1, i1 + keep, j1, j1 + keep)])
        keep = min(context, i2 - i1) if tail else 0
        group = [(tag, i2 - keep, i2, j2 - keep, j2)]
    if any(code[0] != "equal" for code in group):
        groups.append(group)
    return groups


def _header(group: list[_Opcode]) -> bytes:
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

"""Diffs as rows: unified or side by side, word by word, white space told or not, hunks as patch text. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from console.domain.comparison import Comparison, DiffRow, FilePair, Span
from console.domain.diff import Opcode, groups, lines_of, opcodes, unified_bytes
from console.domain.text import SafeText, clean

BINARY_HEAD = 32768
WORDS_LIMIT = 600
"""Words of a line up to which they are compared one by one; beyond, equal ends are."""

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


def rows(comparison: Comparison, *, context: int = 3, ignore_space: bool = False) -> tuple[DiffRow, ...]:
    """Return the rows that show a comparison, paired for side by side."""
    found: list[DiffRow] = []
    for number, pair in enumerate(comparison.files):
        found += (replace(row, file=number) for row in _of_file(pair, context, ignore_space))
    return tuple(found)


def _of_file(pair: FilePair, context: int, ignore_space: bool) -> Iterator[DiffRow]:
    added, removed = _counts(pair)
    sign = "new file" if pair.before is None else "removed" if pair.after is None else f"+{added} −{removed}"
    yield DiffRow("file", clean(pair.name), SafeText("" if pair.note else sign))
    if pair.note:
        yield DiffRow("note", clean(pair.note))
        return
    if binary(pair.before) or binary(pair.after):
        sizes = [f"{len(data):,} bytes" if data is not None else "no file" for data in (pair.before, pair.after)]
        yield DiffRow("note", SafeText(f"binary: {sizes[0]} → {sizes[1]}"))
        return
    old, new = lines_of(pair.before or b""), lines_of(pair.after or b"")
    hunks = groups(_codes(old, new, ignore_space), context)
    if not hunks:
        yield DiffRow("note", SafeText("only white space differs" if pair.before != pair.after else "no difference"))
    for number, hunk in enumerate(hunks):
        yield DiffRow("hunk", _header(hunk, old), hunk=number)
        for tag, i1, i2, j1, j2 in hunk:
            yield from (replace(row, hunk=number) for row in _of_code(tag, old[i1:i2], new[j1:j2], i1, j1))


def _codes(old: list[bytes], new: list[bytes], ignore_space: bool) -> list[Opcode]:
    if not ignore_space:
        return opcodes(old, new)
    return opcodes([b"".join(line.split()) for line in old], [b"".join(line.split()) for line in new])


def _of_code(tag: str, old: Sequence[bytes], new: Sequence[bytes], i1: int, j1: int) -> Iterator[DiffRow]:
    both = min(len(old), len(new))
    kind = "same" if tag == "equal" else "changed"
    for at in range(both):
        yield DiffRow(kind, drawn(old[at]), drawn(new[at]), i1 + at + 1, j1 + at + 1)
    for at in range(both, len(old)):
        yield DiffRow("removed", drawn(old[at]), left=i1 + at + 1)
    for at in range(both, len(new)):
        yield DiffRow("added", after=drawn(new[at]), right=j1 + at + 1)


def drawn(line: bytes) -> SafeText:
    """Return a line as it may be drawn: a carriage return and a missing newline are seen."""
    if not line.endswith(b"\n"):
        return SafeText(f"{clean(line)}  ∅ no newline at the end")
    return SafeText(f"{clean(line[:-2])}␍") if line.endswith(b"\r\n") else clean(line)


def binary(data: bytes | None) -> bool:
    """Return whether grep would call it binary."""
    return data is not None and b"\0" in data[:BINARY_HEAD]


def _counts(pair: FilePair) -> tuple[int, int]:
    if binary(pair.before) or binary(pair.after):
        return 0, 0
    changes = [op for op in opcodes(lines_of(pair.before or b""), lines_of(pair.after or b"")) if op[0] != "equal"]
    return sum(op[4] - op[3] for op in changes), sum(op[2] - op[1] for op in changes)


def _header(hunk: Sequence[Opcode], old: Sequence[bytes]) -> SafeText:
    """Return where a hunk is: its lines, and the def or class that it begins in."""
    first, last = hunk[0], hunk[-1]
    around = ""
    for line in reversed(old[: first[1] + 1]):
        if line[:1].isalpha() and line.startswith((b"def ", b"class ", b"async def ", b"@@")):
            around = clean(line).rstrip()
            break
    return SafeText(
        f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@ {around}".rstrip()
    )


def flat(paired: Sequence[DiffRow]) -> tuple[DiffRow, ...]:
    """Return rows for the unified view: of each run of changed rows the old lines, then the new ones."""
    found: list[DiffRow] = []
    old: list[DiffRow] = []
    new: list[DiffRow] = []
    for row in (*paired, DiffRow("note")):
        if row.kind in ("changed", "removed", "added"):
            if row.left:
                old.append(replace(row, kind="removed"))
            if row.right:
                new.append(replace(row, kind="added"))
            continue
        found += [*old, *new, row]
        old, new = [], []
    return tuple(found[:-1])


def words(before: str, after: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the parts of two lines that differ; nothing where the lines have nothing in common."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    if len(old) + len(new) > 2 * WORDS_LIMIT:
        return _ends(before, after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.25:
        return (), ()
    starts_old, starts_new = _starts(old), _starts(new)
    left: list[Span] = []
    right: list[Span] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        if i1 < i2:
            left.append((starts_old[i1], starts_old[i2]))
        if j1 < j2:
            right.append((starts_new[j1], starts_new[j2]))
    return tuple(left), tuple(right)


def _starts(parts: Sequence[str]) -> list[int]:
    found = [0]
    for part in parts:
        found.append(found[-1] + len(part))
    return found


def _ends(before: str, after: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    most = min(len(before), len(after))
    first = 0
    while first < most and before[first] == after[first]:
        first += 1
    tail = 0
    while tail < most - first and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return ((first, len(before) - tail),), ((first, len(after) - tail),)


def patch_text(comparison: Comparison, *, file: int | None = None, hunk: int | None = None, context: int = 3) -> bytes:
    """Return what `git apply` and `patch -p1` take: everything, one file, or one hunk of it; white space counts.

    Files whose bytes are not to be had, and binary ones, are left out.
    """
    out = b""
    for number, pair in enumerate(comparison.files):
        if file not in (None, number) or pair.note or binary(pair.before) or binary(pair.after):
            continue
        text = unified_bytes(pair.before, pair.after, pair.name, context)
        out += text if hunk is None or not text else _one_hunk(text, hunk)
    return out


def _one_hunk(text: bytes, hunk: int) -> bytes:
    lines = text.split(b"\n")
    # lines of a file have a sign before them, headers have none
    starts = [at for at, line in enumerate(lines) if at >= 2 and line.startswith(b"@@ -")]
    if not 0 <= hunk < len(starts):
        return b""
    stop = starts[hunk + 1] if hunk + 1 < len(starts) else len(lines) - 1
    return b"\n".join([*lines[:2], *lines[starts[hunk] : stop]]) + b"\n"

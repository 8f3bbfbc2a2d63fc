"""What a `sed` line would have done to a file: told, and as edits that can be switched."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from console.domain.patch import Edit
from console.patching.sed import SedLine, Substitution

_REACH = 12
"""Neighbouring lines that are taken in at most to make a block unique."""


@dataclass(frozen=True, slots=True)
class SedOutcome:
    """One sed line on one file."""

    file: str
    edits: tuple[Edit, ...]
    told: tuple[str, ...]
    """What it would have done, or why it would have done nothing, for the operator."""


def outcome(line: SedLine, file: str, data: bytes, as_meant: bool = False) -> SedOutcome:
    """Tell what a sed line does to a file, and return it as edits.

    Args:
        line: The line.
        file: The file, relative to the engine package.
        data: Its bytes.
        as_meant: Match patterns that hold a line end across lines, as whoever wrote them wanted.
    """
    text = data.decode("utf-8", "surrogateescape")
    told: list[str] = []
    present = text
    edits: list[Edit] = []
    for command in line.commands:
        single = SedLine(line.told, (command,), line.files, line.in_place, line.whole)
        never = command.crosses and not line.whole
        after = single.as_meant(present) if never and as_meant else single.run(present)
        if after == present:
            told.append(f"{command.told}: {_why_not(single, file, present, never and not as_meant)}")
            continue
        count = sum(a != b for a, b in zip(present.split("\n"), after.split("\n"), strict=False))
        lines = _changed(present, after)
        told.append(f"{command.told}: changes {file} at {lines}" + ("" if count < 2 else f", {count} lines"))
        edits += _literally(command, file, present, after) or as_edits(file, present, after)
        present = after
    if len(line.commands) > 1 and edits:
        edits = as_edits(file, text, present)  # one command may work on what another left
    return SedOutcome(file, tuple(edits), tuple(told))


def as_edits(file: str, before: str, after: str) -> list[Edit]:
    """Return edits that make `after` of `before`, each found exactly once, or a known number of times."""
    old, new = before.split("\n"), after.split("\n")
    blocks = [
        op[1:] for op in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if op[0] != "equal"
    ]
    found: list[Edit] = []
    for first, last, first_new, last_new in blocks:
        alike = [
            b for b in blocks if old[b[0] : b[1]] == old[first:last] and new[b[2] : b[3]] == new[first_new:last_new]
        ]
        find, replace = "\n".join(old[first:last]), "\n".join(new[first_new:last_new])
        if first < last and replace and len(alike) > 1 and _times(before, find) == len(alike):
            found.append(Edit(file, find, replace, count=len(alike)))
            continue
        found.append(_unique(file, before, old, (first, last), new[first_new:last_new]))
    return list(dict.fromkeys(found))


def _literally(command: Substitution, file: str, before: str, after: str) -> list[Edit]:
    """Return the command as one edit with a count, where its pattern is a plain text."""
    find = re.sub(r"\\(.)", r"\1", command.pattern.pattern)
    replace = "".join(find if part == 0 else str(part) for part in command.parts)
    plain = re.escape(find) == command.pattern.pattern and not command.pattern.flags & re.IGNORECASE
    if not plain or not replace or find in replace or replace in before or before.replace(find, replace) != after:
        return []
    return [Edit(file, find, replace, count=_times(before, find))]


def _unique(file: str, before: str, old: list[str], block: tuple[int, int], new: list[str]) -> Edit:
    """Return an edit whose `find` is lengthened by neighbours until it stands once."""
    first, last = block
    lead, tail = 0, 0
    while True:
        find = "\n".join(old[first - lead : last + tail])
        replace = "\n".join([*old[first - lead : first], *new, *old[last : last + tail]])
        if (find.strip() and replace and _times(before, find) == 1) or lead + tail >= _REACH:
            return Edit(file, find, replace, count=max(1, _times(before, find)))
        if lead <= tail and first - lead > 0:
            lead += 1
        elif last + tail < len(old):
            tail += 1
        elif first - lead > 0:
            lead += 1
        else:
            return Edit(file, find, replace)


def _why_not(line: SedLine, file: str, text: str, never: bool) -> str:
    """Say why a command leaves a file as it is."""
    exit_0 = "sed exits 0 all the same, and leaves a new mtime"
    if never:
        meant = line.as_meant(text)
        where = f"; across lines it would match at {_changed(text, meant)}" if meant != text else ""
        return f"never matches anything: \\n is in the pattern, and sed holds one line at a time; {exit_0}{where}"
    literal = "".join(part for part in line.commands[0].parts if isinstance(part, str))
    there = literal and all(isinstance(part, str) for part in line.commands[0].parts) and literal in text
    stands = f"; its result stands there, at line {text[: text.index(literal)].count(chr(10)) + 1}" if there else ""
    return f"matches nothing in {file}{stands}; {exit_0}"


def _changed(before: str, after: str) -> str:
    from console.patching.pieces import listed

    old, new = before.split("\n"), after.split("\n")
    opcodes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return listed([first + 1 for tag, first, *_ in opcodes if tag != "equal"])


def _times(text: str, find: str) -> int:
    """Return how often a text stands there, overlapping ones too."""
    count, at = 0, text.find(find)
    while at >= 0 and find:
        count, at = count + 1, text.find(find, at + 1)
    return count

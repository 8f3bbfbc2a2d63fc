"""Unified and git diffs, read whole: what disagrees with itself is refused with its line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from console.errors import FormatError

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$")
_GIT = re.compile(rb'^diff --git ("(?:[^"\\]|\\.)*"|\S.*?) ("(?:[^"\\]|\\.)*"|\S+)$')
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b'"': b'"', b"\\": b"\\", b"a": b"\a", b"b": b"\b", b"f": b"\f"}


class Kind(StrEnum):
    """What a section does to its file."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    BINARY = "binary"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One contiguous change with its context."""

    old_start: int
    new_start: int
    ops: tuple[tuple[str, bytes], ...]
    """(` `, `-` or `+`, line with its line end; none where the file has none)."""
    line: int
    """Of the `@@` in the diff."""
    verbatim: bool = False
    """Line ends are part of the change: they are not fitted to the file's."""
    crlf: bool = False
    """Every line ends in CRLF in the diff, for a file that has no line end of its own."""

    @property
    def old(self) -> tuple[bytes, ...]:
        """The lines before."""
        return tuple(text for tag, text in self.ops if tag != "+")

    @property
    def at_start(self) -> bool:
        """Whether context is short because the file began there: it fits the first line only."""
        lead = next(at for at, op in enumerate(self.ops) if op[0] != " ")
        tail = next(at for at, op in enumerate(reversed(self.ops)) if op[0] != " ")
        return self.old_start <= 1 and (lead < tail or lead == 0)

    @property
    def at_end(self) -> bool:
        """Whether nothing stood behind it: it fits the end of the file only."""
        return self.ops[-1][0] != " " and self.ops[0][0] == " "

    @property
    def new(self) -> tuple[bytes, ...]:
        """The lines after."""
        return tuple(text for tag, text in self.ops if tag != "-")


@dataclass(slots=True)
class Section:
    """All hunks of one file."""

    old_path: str
    new_path: str
    line: int
    kind: Kind = Kind.MODIFY
    hunks: list[Hunk] = field(default_factory=list)
    mode: int | None = None
    """Of the file when the patch is on."""
    old_mode: int | None = None
    """Of the file when the patch is off."""

    @property
    def changes_mode(self) -> bool:
        """Whether a file that stays becomes executable, or stops being so."""
        old, new = self.old_mode, self.mode
        return self.kind in (Kind.MODIFY, Kind.RENAME) and old is not None and new is not None and old != new

    @property
    def path(self) -> str:
        """The path to look for, as the diff writes it."""
        return self.old_path if self.kind is Kind.DELETE or self.new_path in ("", "/dev/null") else self.new_path


class DiffReader:
    """Reads one diff.

    Args:
        text: The diff; undecodable bytes as surrogates.
        name: Its file, for messages.
    """

    def __init__(self, text: str, name: str) -> None:
        self._lines = text.encode("utf-8", "surrogateescape").split(b"\n")
        if self._lines[-1] == b"":
            self._lines.pop()
        self._name = name
        self._at = 0
        self._sections: list[Section] = []

    def sections(self) -> tuple[Section, ...]:
        """Return every file section.

        Raises:
            FormatError: A hunk disagrees with its header, a path leaves the tree, the form is another one.
        """
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip(b"\r")
            if match := _GIT.match(line):
                self._git_header(match)
            elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                self._plain_header()
            elif line.startswith(b"@@@"):
                raise self._fault(self._at, "a combined diff of a merge; make one against a single parent")
            elif line.startswith(b"@@ "):
                self._hunk(line)
            elif line.startswith(b"*** ") and self._peek(1).startswith(b"--- ") and not self._sections:
                raise self._fault(self._at, "a context diff; make a unified one (diff -u)")
            else:
                self._at += 1
        self._sections = [
            section
            for section in self._sections
            if section.hunks or section.kind is not Kind.MODIFY or section.changes_mode
        ]
        if not self._sections:
            raise FormatError(f"{self._name}: no change to the contents of any file is in this diff")
        for section in self._sections:
            self._check(section)
        return tuple(self._sections)

    def _peek(self, ahead: int) -> bytes:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else b""

    def _git_header(self, match: re.Match[bytes]) -> None:
        section = Section(_path(match[1]), _path(match[2]), self._at + 1)
        half = match[0].removeprefix(b"diff --git ")
        middle = len(half) // 2  # names with blanks: both halves are alike but for a/ and b/
        if half[middle : middle + 1] == b" " and half[1:middle] == half[middle + 2 :]:
            section.old_path, section.new_path = _path(half[:middle]), _path(half[middle + 1 :])
        self._sections.append(section)
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip(b"\r")
            if line.startswith((b"diff --git ", b"@@ ")):
                return
            if line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                pair = self._pair()
                if section.kind not in (Kind.RENAME, Kind.COPY):
                    section.old_path, section.new_path = pair
                    self._null(section)
                return
            if line.startswith((b"new file mode ", b"new mode ", b"old mode ", b"deleted file mode ")):
                self._mode(section, line)
            elif line.startswith((b"rename from ", b"copy from ")):
                section.kind = Kind.RENAME if line.startswith(b"rename") else Kind.COPY
                section.old_path = _path(line.partition(b" from ")[2])
            elif line.startswith((b"rename to ", b"copy to ")):
                section.new_path = _path(line.partition(b" to ")[2])
            elif line.startswith((b"Binary files ", b"GIT binary patch")):
                section.kind = Kind.BINARY
                self._at += 1
                return
            elif not line.startswith((b"index ", b"similarity ", b"dissimilarity ")):
                return
            self._at += 1

    def _mode(self, section: Section, line: bytes) -> None:
        if not line.rpartition(b" ")[2].startswith(b"100"):
            raise self._fault(self._at, "a link or submodule; only regular files can be patched")
        mode = int(line[-3:], 8)
        if line.startswith((b"old", b"deleted")):
            section.old_mode = mode
        else:
            section.mode = mode
        if line.startswith((b"new file", b"deleted")):
            section.kind = Kind.CREATE if line.startswith(b"new") else Kind.DELETE

    def _plain_header(self) -> None:
        line = self._at + 1
        old, new = self._pair()
        section = Section(old, new, line)
        self._null(section)
        self._sections.append(section)

    def _pair(self) -> tuple[str, str]:
        old, new = self._lines[self._at], self._lines[self._at + 1]
        self._at += 2
        return _path(old[4:].rstrip(b"\r")), _path(new[4:].rstrip(b"\r"))

    def _null(self, section: Section) -> None:
        if section.old_path == "/dev/null":
            section.kind = Kind.CREATE
        elif section.new_path == "/dev/null":
            section.kind = Kind.DELETE

    def _hunk(self, head: bytes) -> None:
        start = self._at
        match = _HUNK.match(head)
        if match is None:
            raise self._fault(start, "a hunk header that cannot be read")
        if not self._sections:
            raise self._fault(start, "a hunk without a file header before it")
        want_old, want_new = int(match[2] or 1), int(match[4] or 1)
        self._at += 1
        ops = self._body(want_old, want_new)
        have_old = sum(tag != "+" for tag, _ in ops)
        have_new = sum(tag != "-" for tag, _ in ops)
        extra = self._peek(0)[:1] in (b"+", b"-", b" ") and not self._ends_body()
        if (have_old, have_new) != (want_old, want_new) or extra:
            have = "goes on after" if extra else f"has {have_old} and {have_new}"
            raise self._fault(
                start,
                f"hunk at line {start + 1}: header and body disagree: {want_old} old and {want_new} new lines, body {have}",
            )
        if all(tag == " " for tag, _ in ops):
            raise self._fault(start, f"hunk at line {start + 1} changes nothing")
        verbatim = _mixes(ops)
        crlf = not verbatim and any(text.endswith(b"\r\n") for _, text in ops)
        if not verbatim:
            ops = [(tag, _unix(text)) for tag, text in ops]
        self._sections[-1].hunks.append(Hunk(int(match[1]), int(match[3]), tuple(ops), start + 1, verbatim, crlf))

    def _body(self, want_old: int, want_new: int) -> list[tuple[str, bytes]]:
        ops: list[tuple[str, bytes]] = []
        old = new = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            tag = chr(line[0]) if line not in (b"", b"\r") else " "
            if tag == "\\":
                if ops:
                    ops[-1] = (ops[-1][0], ops[-1][1].rstrip(b"\n").rstrip(b"\r" if line.endswith(b"\r") else b""))
                self._at += 1
                continue
            if (old >= want_old and new >= want_new) or tag not in " -+":
                break
            if (tag == "-" and old >= want_old) or (tag == "+" and new >= want_new):
                break
            text = line[1:] if line[:1] == tag.encode() else line  # mailers strip the blank of an empty line
            ops.append((tag, text + b"\n"))
            old += tag != "+"
            new += tag != "-"
            self._at += 1
        return ops

    def _ends_body(self) -> bool:
        line = self._peek(0)
        if line.rstrip(b"\r") == b"-- " or line.rstrip(b"\r") == b"--":
            return True
        return line.startswith(b"--- ") and self._peek(1).startswith(b"+++ ")

    def _check(self, section: Section) -> None:
        path = section.path
        moves = section.kind in (Kind.RENAME, Kind.COPY)
        for name in (path, section.old_path) if moves else (path,):
            if ".." in name.split("/") or "\0" in name or "\\" in name:
                raise self._fault(section.line - 1, f"the path {name!r} leaves the tree")
        if moves and section.old_path == section.new_path:
            raise self._fault(section.line - 1, f"{path}: a rename or copy of a file to itself")
        if section.kind in (Kind.CREATE, Kind.DELETE):
            tag = "+" if section.kind is Kind.CREATE else "-"
            if len(section.hunks) > 1 or any(op[0] != tag for hunk in section.hunks for op in hunk.ops):
                raise self._fault(section.line - 1, f"{path}: a file that is {section.kind}d, with lines that stay")

    def _fault(self, at: int, what: str) -> FormatError:
        return FormatError(f"{self._name}:{at + 1}: {what}")


def parted(diff: bytes, by: str) -> list[bytes]:
    """Return a unified diff in pieces that are diffs themselves: one a `file`, or one a `hunk`."""
    heads: list[tuple[list[bytes], list[list[bytes]]]] = []
    lines = diff.split(b"\n")
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else b""
        plain = line.startswith(b"--- ") and follows.startswith(b"+++ ")
        if line.startswith(b"diff --git ") or (plain and not (heads and not heads[-1][1] and _is_git(heads[-1][0]))):
            heads.append(([], []))
        if not heads:
            continue
        if line.startswith(b"@@ "):
            heads[-1][1].append([])
        (heads[-1][1][-1] if heads[-1][1] else heads[-1][0]).append(line)
    found = []
    for head, hunks in heads:
        groups = [[hunk] for hunk in hunks] if by == "hunk" and len(hunks) > 1 else [hunks]
        for group in groups:
            found.append(b"\n".join([*head, *(line for hunk in group for line in hunk)]).rstrip(b"\n") + b"\n")
    return found


def _is_git(head: Sequence[bytes]) -> bool:
    return head[0].startswith(b"diff --git ") and not any(line.startswith(b"+++ ") for line in head)


def _path(raw: bytes) -> str:
    raw = raw.split(b"\t")[0] if not raw.startswith(b'"') else raw
    raw = raw.strip()
    if raw.startswith(b'"'):
        end = raw.rfind(b'"')
        raw = re.sub(rb"\\([0-7]{3}|.)", _unescaped, raw[1:end])
    return raw.decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPES.get(code, code)


def _mixes(ops: list[tuple[str, bytes]]) -> bool:
    dos = [text.endswith(b"\r\n") for _, text in ops if text.endswith(b"\n")]
    return any(dos) and not all(dos)


def _unix(text: bytes) -> bytes:
    if text.endswith(b"\r\n"):
        return text[:-2] + b"\n"
    return text[:-1] if text.endswith(b"\r") else text

"""What the source pane says: titles, marks of patches, facts of a file, names in a line."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

from console.domain.patch import PatchStatus
from console.domain.source import Document
from console.domain.text import clean
from console.errors import UsageError
from console.ui.worker import owner

if TYPE_CHECKING:
    from console.ui.panes.source import SourcePane

_NAME = re.compile(r"[^\W\d]\w*")
_BYTES = 16
FRAME = 20
"""Cells of the top line that key, word, corners and space between take."""


def pattern_of(text: str, *, any_case: bool | None = None) -> re.Pattern[str]:
    """Return a pattern, caseless unless it has a capital letter or the operator says.

    Raises:
        UsageError: It is not a regular expression.
    """
    caseless = any_case if any_case is not None else not any(map(str.isupper, text))
    try:
        return re.compile(text, re.IGNORECASE if caseless else 0)
    except re.error as error:
        raise UsageError(f"{text}: not a regular expression", str(error), "write \\[ for a bracket") from None


def bytes_pattern(pattern: re.Pattern[str]) -> re.Pattern[bytes]:
    """Return the same pattern for raw lines."""
    return re.compile(pattern.pattern.encode(), pattern.flags & re.IGNORECASE)


def title_of(pane: SourcePane) -> tuple[str, str]:
    """Return what is shown in words, for both ends of the top line."""
    return {"tree": _tree, "code": _code, "hits": _hits, "compare": _compared, "changed": _changed}[pane.views[-1]](
        pane
    )


def _tree(pane: SourcePane) -> tuple[str, str]:
    package = owner(pane).snapshot.package
    folder = pane.folder or (package.folder if package else "")
    files = pane.files
    right = f"/{clean(files.filter)}▏ esc shows all" if files.filtering or files.filter else ""
    return (f"Source  {clean(folder)}" if folder else "Source"), right


def _code(pane: SourcePane) -> tuple[str, str]:
    code = pane.code
    if code.document is None:
        return "Source", ""
    symbol = code.symbol or pane.enclosing(code.line_number)
    where = f"{symbol.kind} {symbol.name}" if symbol else f"line {code.line_number:,}"
    said = ["NOT THE COPY THAT LOADS"] if pane.warning else []
    first, last = code.picked
    if code.picking is not None:
        said.append(f"lines {first:,}-{last:,} picked: y copies, Y their place")
    else:
        said.append(f"{'only ' if code.symbol else ''}{clean(where)}")
    said += code.facts
    said += ["modified"] if code.document.git.strip()[:1] == "M" else []
    said += ["untracked"] if code.document.git.strip()[:1] == "?" else []
    right = " · ".join(said)
    room = pane.outer_size.width - FRAME - cell_len(right)
    return f"Source  {_from_right(clean(pane.short(code.document.path)), room)}", right


def _from_right(path: str, room: int) -> str:
    """Return a path that leaves room for what stands beside it: its last folders, at least the file's name."""
    if cell_len(path) <= room:
        return path
    shown = path[path.rfind("/") + 1 :]
    for folder in reversed(path.split("/")[:-1]):
        if cell_len(shown) + cell_len(folder) + 3 > room:
            break
        shown = f"{folder}/{shown}"
    return f"…/{shown}"


def _hits(pane: SourcePane) -> tuple[str, str]:
    hits = pane.hits
    asked = f"  {pane.asked.words()}" if pane.asked is not None and hits.words.startswith("grep ") else ""
    state = " …  S stops" if hits.running else f"  {hits.stopped}" if hits.stopped else ""
    return clean(f"Source  {hits.words}{asked}"), clean(f"{hits.hits:,} lines in {hits.files:,} files{state}")


def _compared(pane: SourcePane) -> tuple[str, str]:
    view = pane.compared
    if view.comparison is None:
        return "Source", ""
    one = view.comparison
    how = [f"{len(one.files):,} files" if len(one.files) != 1 else "1 file"]
    how += ["white space left out"] if view.ignore_space else []
    how += ["side by side needs 100 columns: + zooms"] if view.beside and not view.two_sides else []
    return clean(f"Source  {one.left} → {one.right}"), " · ".join(how)


def _changed(pane: SourcePane) -> tuple[str, str]:
    view = pane.changes
    said = f"{view.files:,} files differ in {len(view.checks):,} packages{' …' if view.running else '  enter diff, c capture'}"
    return "Source  changed by hand on this host", said


def facts_of(document: Document) -> tuple[str, ...]:
    """Return what is not ordinary about a file, in words."""
    said = []
    if document.binary:
        return (f"binary, {document.size:,} bytes, head in hex",)
    if not document.complete:
        last = document.first_line + len(document.lines) - 1
        total = f"{document.total_lines:,}" if document.total_lines is not None else f"{document.size / 1e6:,.0f} MB"
        said.append(f"lines {document.first_line:,}-{last:,} of {total}")
    said += [word for word, on in (("CRLF", document.crlf), ("mixed line ends", document.mixed_ends)) if on]
    if not document.final_newline and document.size:
        said.append("no final newline")
    if not _is_utf8(document):
        said.append("not UTF-8")
    if document.changing:
        said.append("being written")
    return tuple(said)


def _is_utf8(document: Document) -> bool:
    try:
        b"\n".join(document.lines).decode()
    except UnicodeDecodeError:
        return False
    return True


def hex_of(document: Document) -> Document:
    """Return the head of a binary file as lines of hex."""
    data = b"\n".join(document.lines)
    lines = []
    for at in range(0, len(data), _BYTES):
        part = data[at : at + _BYTES]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{at:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {shown}".encode())
    return replace(document, lines=tuple(lines), total_lines=None, first_line=1)


def marks_of(path: str, patches: Sequence[PatchStatus]) -> Mapping[int, str]:
    """Return which lines of a file a patch that is on has made."""
    marks: dict[int, str] = {}
    for status in patches:
        if status.disk.value == "on" and any(path.endswith(f"/{file}") or path == file for file in status.files):
            marks |= dict.fromkeys(_made(path, status.diff), f"◆ {status.name}")
    return marks


def _made(path: str, diff: Sequence[str]) -> Iterator[int]:
    number, here = 0, False
    for text in diff:
        if text.startswith("--- "):
            here = path.endswith(text[4:].split("  ")[0].strip().removeprefix("a/"))
        elif text.startswith("@@") and (found := re.match(r"@@ -(\d+)", text)):
            number = int(found[1])
        elif here and text[:1] in (" ", "-"):
            if text.startswith("-"):
                yield number
            number += 1


def names_in(raw: bytes, pattern: re.Pattern[bytes] | None = None) -> list[str]:
    """Return the names in a line of code, the likeliest to be looked up first: a match, a call, then the rest."""
    text = clean(raw).partition("  #")[0]
    names = [name for name in dict.fromkeys(_NAME.findall(text)) if not keyword.iskeyword(name) and name != "self"]
    found = pattern.search(raw) if pattern is not None else None
    matched = clean(found[0]) if found else ""

    def rank(name: str) -> int:
        if name == matched:
            return 0
        if re.search(rf"\b(def|class)\s+{re.escape(name)}\b", text):
            return 1
        return 2 if re.search(rf"\b{re.escape(name)}\s*\(", text) else 3

    return sorted(names, key=rank)

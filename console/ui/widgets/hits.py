"""Hits of a search over the tree, grouped by file with what stands around, growing while the search runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from console.domain.source import GrepHit, Reference
from console.domain.text import SafeText, clean
from console.ui.drawing import Span
from console.ui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Row:
    """One line under the name of its file; the name itself has no line."""

    file: str
    line: int = 0
    text: SafeText = SafeText("")
    word: str = ""
    """What a reference is: `def`, `call`, …; empty for a plain hit."""
    scope: str = ""
    hit: bool = True
    """False for the lines around one."""


class HitsView(Lines):
    """Matching lines under the name of their file."""

    def __init__(self) -> None:
        super().__init__(id="hits")
        self.pattern = ""
        self.words = ""
        """What is searched, for the title."""
        self.mark: re.Pattern[str] | None = None
        self.rows: list[Row] = []
        self.running = False
        self.stopped = ""
        """Why the search ended before its end."""
        self.progress = ""
        """How far a search is that tells nothing before its end."""
        self.files = 0
        self.hits = 0
        self.short = ""
        """Folder whose name is left out of the files'."""

    def begin(self, pattern: str, words: str = "", mark: re.Pattern[str] | None = None, short: str = "") -> None:
        """Forget the last search."""
        self.pattern, self.words, self.mark, self.short = pattern, words or f"grep {pattern}", mark, short
        self.rows, self.running, self.stopped, self.progress = [], True, "", ""
        self.files = self.hits = 0
        self.changed(keep=False)

    def add(self, hits: Sequence[GrepHit]) -> None:
        """Add hits as they arrive; a line around two of them is there once."""
        for hit in hits:
            around = [(hit.line - len(hit.before) + at, text) for at, text in enumerate(hit.before)]
            self._open(hit.file)
            self._rows(hit.file, around)
            self._put(Row(hit.file, hit.line, hit.text))
            self._rows(hit.file, [(hit.line + 1 + at, text) for at, text in enumerate(hit.after)])
        self._added()

    def add_references(self, found: Sequence[Reference]) -> None:
        """Add references, definitions first as they come."""
        for one in found:
            self._open(one.file)
            self._put(Row(one.file, one.line, one.text, one.kind, one.scope))
        self._added()

    def _open(self, file: str) -> None:
        if not self.rows or self.rows[-1].file != file:
            self.rows.append(Row(file, hit=False))
            self.files += 1

    def _put(self, row: Row) -> None:
        last = self.rows[-1]
        if last.file == row.file and last.line == row.line:
            self.rows[-1] = row  # it stood there as context
        else:
            self.rows.append(row)
        self.hits += 1

    def _rows(self, file: str, lines: Sequence[tuple[int, SafeText]]) -> None:
        for number, text in lines:
            if number > self.rows[-1].line:
                self.rows.append(Row(file, number, text, hit=False))

    def _added(self) -> None:
        if self.cursor == 0:
            self.cursor = next((at for at, row in enumerate(self.rows) if row.hit), 0)
        self.changed()

    def end(self, why: str = "") -> None:
        """Say that all hits are here, or why not."""
        self.running, self.stopped = False, why
        self.refresh()

    def hit(self, index: int) -> Row | None:
        """Return the line of a row, or the first hit of the file that it names."""
        for row in self.rows[index : index + 40]:
            if row.line and (row.hit or row is self.rows[index]):
                return row
        return None

    def step(self, way: int) -> Row | None:
        """Go to the next or previous hit, across files, and return it; nothing past the ends."""
        at = self.cursor + way
        while 0 <= at < len(self.rows):
            if self.rows[at].hit:
                self.cursor = at
                return self.rows[at]
            at += way
        return None

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a file's name, a hit or a line around one."""
        row = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if not row.line:
            name = row.file.removeprefix(f"{self.short}/") if self.short else row.file
            return [mark, (clean(name), "function")]
        number: Span = (f"{row.line:>6}  ", "number")
        if not row.hit:
            return [mark, number, (row.text, "dim")]
        text = row.text if self._has_context else row.text.lstrip()
        spans: list[Span] = [mark, number]
        if row.word:
            ink = "mark" if row.word in ("class", "def", "async def") else "dim"
            spans.append((f"{row.word:<10} ", ink))
        spans += self._with_mark(text)
        if row.scope:
            spans.append((clean(f"   in {row.scope}"), "dim"))
        return spans

    @property
    def _has_context(self) -> bool:
        return len(self.rows) > self.hits + self.files

    def _with_mark(self, text: str) -> list[Span]:
        found = self.mark.search(text) if self.mark is not None else None
        first, last = found.span() if found else (text.find(self.pattern), 0)
        last = last or first + len(self.pattern)
        if first < 0 or first == last:
            return [(text, "")]
        return [(text[:first], ""), (text[first:last], "match"), (text[last:], "")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that nothing is there, or not yet."""
        if self.running:
            said = f"  {self.progress}" if self.progress else ""
            return [[], [(f"  searching…{said}  S stops", "dim")]]
        return [[], [(clean(f"  {self.stopped or f'no line matches {self.pattern}'}"), "dim")]]

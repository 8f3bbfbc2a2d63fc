"""Code viewer: line numbers, colours of visible lines only, search, one symbol shown whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from console.domain.source import Document, Symbol
from console.domain.text import LINE_LIMIT, clean
from console.ui.drawing import Span
from console.ui.highlight import Colours, Piece
from console.ui.widgets.lines import Lines

ROWS_AHEAD = 40
"""Lines whose colours are asked for at once."""


class CodeView(Lines):
    """One file of the host."""

    def __init__(self) -> None:
        super().__init__(id="code")
        self.document: Document | None = None
        self.symbol: Symbol | None = None
        """Shown whole and alone, when there is one."""
        self.marked: Mapping[int, str] = {}
        """Words at the end of lines, by line number: which patch made them."""
        self.pattern: re.Pattern[bytes] | None = None
        self._colours: Colours | None = None
        self._coloured: dict[int, list[Piece]] = {}
        self._widest = 0

    def show(self, document: Document, line: int | None = None) -> None:
        """Show a document, plain at first, with the cursor on a line."""
        again = self.document is not None and self.document.path == document.path
        self.document, self.symbol = document, None
        self._colours, self._coloured = None, {}
        self._widest = min(LINE_LIMIT, max(map(len, document.lines), default=0))
        self.changed(keep=again)
        if line is not None:
            self.call_after_refresh(self.place, line - self._first)

    def colour(self, document: Document, colours: Colours | None) -> None:
        """Take the colours of the document that they were made for."""
        if document is self.document:
            self._colours, self._coloured = colours, {}
            self.refresh()

    def focus_symbol(self, symbol: Symbol | None) -> None:
        """Show one symbol alone, or the whole file again, the cursor on the same line."""
        line = self.line_number
        self.symbol = symbol
        self.changed()
        self.place(line - self._first, at=0.5)

    @property
    def _first(self) -> int:
        if self.symbol is not None:
            return self.symbol.first_line
        return self.document.first_line if self.document else 1

    @property
    def line_number(self) -> int:
        """1-based number of the line under the cursor."""
        return self._first + self.cursor

    def raw(self, number: int) -> bytes:
        """Return one line by number, as its bytes."""
        assert self.document is not None
        return self.document.lines[number - self.document.first_line]

    def count(self) -> int:
        """Return how many lines are shown."""
        if self.document is None:
            return 0
        if self.symbol is not None:
            return self.symbol.last_line - self.symbol.first_line + 1
        return len(self.document.lines)

    def widest(self) -> int:
        """Return the width of the longest line."""
        return self._widest + 1

    def lead(self, index: int) -> Sequence[Span]:
        """Return cursor mark and line number."""
        number = self._first + index
        digits = len(str(self._first + self.count()))
        return [("▌" if index == self.cursor else " ", "accent"), (f"{number:>{max(4, digits)}} ", "number"), (" ", "")]

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one line with colours, matches and the word of the patch that made it."""
        number = self._first + index
        raw = self.raw(number)
        text = clean(raw)
        spans = self._with_matches(raw, self._spans(raw, text, number))
        word = self.marked.get(number)
        if word:
            room = width + self.scroll_offset.x - cell_len(text) - cell_len(word) - 1
            spans += [(" " * max(2, room), ""), (word, "mark")]
        return spans

    def _spans(self, raw: bytes, text: str, number: int) -> list[Span]:
        pieces = self._pieces(number)
        if not pieces:
            return [(text, "")]
        inks = [""] * len(text)
        plain = raw.isascii() and b"\t" not in raw
        for first, last, ink in pieces:
            left = first if plain else len(clean(raw[:first]))
            right = min(last, len(text)) if plain else len(clean(raw[: min(last, LINE_LIMIT)]))
            for place in range(left, min(right, len(inks))):
                inks[place] = "" if ink == "plain" else ink
        return _joined(text, inks)

    def _with_matches(self, raw: bytes, spans: list[Span]) -> list[Span]:
        if self.pattern is None or self.pattern.search(raw) is None:
            return spans
        text = "".join(part for part, _ in spans)
        inks = [ink for part, ink in spans for _ in part]
        for match in self.pattern.finditer(raw[:LINE_LIMIT]):
            for place in range(len(clean(raw[: match.start()])), min(len(text), len(clean(raw[: match.end()])))):
                inks[place] = "match"
        return _joined(text, inks)

    def _pieces(self, number: int) -> list[Piece]:
        if self._colours is None or self.document is None:
            return []
        row = number - self.document.first_line
        if row not in self._coloured:
            if len(self._coloured) > 4000:
                self._coloured.clear()
            found = self._colours.of_lines(max(0, row - 2), ROWS_AHEAD)
            for each in range(row, row + ROWS_AHEAD - 2):
                self._coloured[each] = found.get(each, [])
        return self._coloured[row]

    def search(self, pattern: re.Pattern[bytes]) -> bool:
        """Look for a pattern from the cursor on; return whether it is there."""
        self.pattern = pattern
        self.refresh()
        return self.step(1, here=True)

    def step(self, way: int, *, here: bool = False) -> bool:
        """Go to the next or previous match, around the end; return whether there is one."""
        total = self.count()
        if self.pattern is None or not total:
            return False
        start = self.cursor if here else self.cursor + way
        for offset in range(total):
            index = (start + offset * way) % total
            if self.pattern.search(self.raw(self._first + index)):
                self.place(index)
                return True
        return False


def _joined(text: str, inks: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or inks[place] != inks[start]:
            spans.append((text[start:place], inks[start]))
            start = place
    return spans

"""Code viewer: line numbers, colours of visible lines only, search, wrap, marks, one symbol shown whole."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from textual import events
from textual.message import Message

from console.domain.source import Document, Symbol
from console.domain.text import LINE_LIMIT, clean
from console.ui.drawing import Span
from console.ui.highlight import Colours, Piece
from console.ui.widgets.code_spans import inked, sliced, with_space_marks
from console.ui.widgets.lines import Lines

ROWS_AHEAD = 40
"""Lines whose colours are asked for at once."""


class CodeView(Lines):
    """One file of the host, whole or a window of it."""

    class Beyond(Message):
        """The cursor wants to leave the window of a file that is too big to be here whole."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line
            """Where to; negative means the last line."""

    def __init__(self) -> None:
        super().__init__(id="code")
        self.document: Document | None = None
        self.symbol: Symbol | None = None
        """Shown whole and alone, when there is one."""
        self.marked: Mapping[int, str] = {}
        """Words at the end of lines, by line number: which patch made them."""
        self.facts: tuple[str, ...] = ()
        """What is not ordinary about the file, in words."""
        self.pattern: re.Pattern[bytes] | None = None
        self.wrap = False
        self.spaces = False
        """Whether blanks, tabs and line ends are drawn."""
        self.picking: int | None = None
        """Line number where a range begins, while one is picked."""
        self._colours: Colours | None = None
        self._coloured: dict[int, list[Piece]] = {}
        self._widest = 0
        self._starts: list[int] = []
        """First row of every line, and the number of rows, when lines are wrapped."""

    def show(self, document: Document, line: int | None = None) -> None:
        """Show a document, plain at first, with the cursor on a line."""
        again = self.document is not None and self.document.path == document.path
        self.document, self.symbol, self.picking = document, None, None
        self._colours, self._coloured = None, {}
        self._widest = min(LINE_LIMIT, max(map(len, document.lines), default=0))
        self._lay_out()
        self.changed(keep=again)
        if line is not None:
            self.call_after_refresh(self.place_line, line)

    def colour(self, document: Document, colours: Colours | None) -> None:
        """Take the colours of the document that they were made for."""
        if document is self.document:
            self._colours, self._coloured = colours, {}
            self.refresh()

    def focus_symbol(self, symbol: Symbol | None) -> None:
        """Show one symbol alone, or the whole file again, the cursor on the same line."""
        line = self.line_number
        self.symbol = symbol
        self._lay_out()
        self.changed()
        self.place_line(line, at=0.5)

    def toggle_wrap(self) -> None:
        """Break long lines, or let them run out of the window."""
        line = self.line_number
        self.wrap = not self.wrap
        self._lay_out()
        self.changed()
        self.scroll_to(x=0, animate=False, immediate=True)
        self.place_line(line, at=0.5)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap for the new width."""
        if self.wrap:
            line = self.line_number
            self._lay_out()
            self.changed()
            self.place_line(line, at=0.5)

    def _lay_out(self) -> None:
        self._starts = []
        if not self.wrap or self.document is None:
            return
        width = self._text_width
        total = 0
        for number in range(self._first, self._first + self._lines):
            self._starts.append(total)
            raw = self.raw(number)
            plain = len(raw) <= width and raw.isascii() and b"\t" not in raw
            total += 1 if plain else max(1, -(-len(clean(raw)) // width))
        self._starts.append(total)

    @property
    def _text_width(self) -> int:
        width = self.scrollable_content_region.width or 80
        return max(10, width - self._digits - 4)

    @property
    def _digits(self) -> int:
        return max(4, len(str(self._first + self._lines)))

    @property
    def _first(self) -> int:
        if self.symbol is not None:
            return self.symbol.first_line
        return self.document.first_line if self.document else 1

    @property
    def _lines(self) -> int:
        if self.document is None:
            return 0
        if self.symbol is not None:
            return self.symbol.last_line - self.symbol.first_line + 1
        return len(self.document.lines)

    @property
    def line_number(self) -> int:
        """1-based number of the line under the cursor."""
        return self._first + self._spot(self.cursor)[0]

    @property
    def picked(self) -> tuple[int, int]:
        """First and last line of the range that is picked; the cursor's line when none is."""
        here = self.line_number
        other = here if self.picking is None else self.picking
        return min(here, other), max(here, other)

    def _spot(self, row: int) -> tuple[int, int]:
        """Return which line a row shows, from 0, and which part of it."""
        if not self._starts:
            return row, 0
        line = max(0, bisect_right(self._starts, row, 0, len(self._starts) - 1) - 1)
        return line, row - self._starts[line]

    def place_line(self, number: int, at: float = 0.33) -> None:
        """Put the cursor on a line by its number."""
        index = max(0, min(self._lines - 1, number - self._first))
        self.place(self._starts[index] if self._starts else index, at=at)

    def action_move(self, by: int) -> None:
        """Move the cursor, out of the window where the file goes on."""
        target = self.cursor + by
        if self._goes_on and not 0 <= target < self.count():
            self.post_message(self.Beyond(max(1, self.line_number + by)))
        else:
            super().action_move(by)

    def action_move_to(self, index: int) -> None:
        """Move to the first or last line of the file."""
        if self._goes_on:
            self.post_message(self.Beyond(1 if index == 0 else -1))
        else:
            super().action_move_to(index)

    @property
    def _goes_on(self) -> bool:
        document = self.document
        return document is not None and not document.complete and not document.binary and self.symbol is None

    def holds(self, number: int) -> bool:
        """Return whether a line is here."""
        return self.document is not None and 0 <= number - self.document.first_line < len(self.document.lines)

    def raw(self, number: int) -> bytes:
        """Return one line by number, as its bytes."""
        assert self.document is not None
        return self.document.lines[number - self.document.first_line]

    def count(self) -> int:
        """Return how many rows are shown."""
        return self._starts[-1] if self._starts else self._lines

    def widest(self) -> int:
        """Return the width of the longest line."""
        return 0 if self.wrap else self._widest + 1

    def under(self, index: int) -> str:
        """Return the inks under a row: the cursor's and those of a picked range."""
        base = super().under(index)
        if self.picking is None:
            return base
        first, last = self.picked
        return f"{base} cursor".strip() if first <= self._first + self._spot(index)[0] <= last else base

    def lead(self, index: int) -> Sequence[Span]:
        """Return cursor mark and line number."""
        line, part = self._spot(index)
        number = f"{self._first + line:>{self._digits}} " if not part else " " * self._digits + "↪"
        return [("▌" if index == self.cursor else " ", "accent"), (number, "number"), (" ", "")]

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row with colours, matches and the word of the patch that made it."""
        line, part = self._spot(index)
        number = self._first + line
        raw = self.raw(number)
        text = clean(raw)
        spans = self._with_matches(raw, self._spans(raw, text, number))
        if self.spaces:
            spans = with_space_marks(raw, spans)
        spans += self._end_of(number, raw)
        if self._starts:
            return sliced(spans, part * self._text_width, self._text_width)
        word = self.marked.get(number)
        if word:
            room = width + self.scroll_offset.x - cell_len(text) - cell_len(word) - 1
            spans += [(" " * max(2, room), ""), (word, "mark")]
        return spans

    def _end_of(self, number: int, raw: bytes) -> list[Span]:
        """Return what is to be said of a line's end: a lone carriage return, the missing last newline."""
        assert self.document is not None
        if raw.endswith(b"\r") or (self.spaces and self.document.crlf):
            return [("␍", "dim")]
        if number == self.document.total_lines and not self.document.final_newline and not self.document.binary:
            return [("  ∅ no newline at the end", "dim")]
        return [("¶", "dim")] if self.spaces else []

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
        return inked(text, inks)

    def _with_matches(self, raw: bytes, spans: list[Span]) -> list[Span]:
        if self.pattern is None or self.pattern.search(raw) is None:
            return spans
        text = "".join(part for part, _ in spans)
        inks = [ink for part, ink in spans for _ in part]
        for match in self.pattern.finditer(raw[:LINE_LIMIT]):
            for place in range(len(clean(raw[: match.start()])), min(len(text), len(clean(raw[: match.end()])))):
                inks[place] = "match"
        return inked(text, inks)

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
        total = self._lines
        if self.pattern is None or not total:
            return False
        at = self.line_number - self._first
        start = at if here else at + way
        for offset in range(total):
            index = (start + offset * way) % total
            if self.pattern.search(self.raw(self._first + index)):
                self.place_line(self._first + index)
                return True
        return False

"""Hits of a search over the tree, grouped by file, growing while the search runs."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.source import GrepHit
from console.domain.text import clean
from console.ui.drawing import Span
from console.ui.widgets.lines import Lines


class HitsView(Lines):
    """Matching lines under the name of their file."""

    def __init__(self) -> None:
        super().__init__(id="hits")
        self.pattern = ""
        self.rows: list[str | GrepHit] = []
        self.running = False
        self.files = 0
        self.hits = 0

    def begin(self, pattern: str) -> None:
        """Forget the last search."""
        self.pattern, self.rows, self.running = pattern, [], True
        self.files = self.hits = 0
        self.changed(keep=False)

    def add(self, hits: Sequence[GrepHit]) -> None:
        """Add hits as they arrive."""
        for hit in hits:
            last = self.rows[-1] if self.rows else None
            if not isinstance(last, GrepHit) or last.file != hit.file:
                self.rows.append(hit.file)
                self.files += 1
            self.rows.append(hit)
            self.hits += 1
        if self.cursor == 0 and len(self.rows) > 1:
            self.cursor = 1
        self.changed()

    def end(self) -> None:
        """Say that all hits are here."""
        self.running = False
        self.refresh()

    def hit(self, index: int) -> GrepHit | None:
        """Return the hit of a row, or the first one of the file that it names."""
        for row in self.rows[index : index + 2]:
            if isinstance(row, GrepHit):
                return row
        return None

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a file's name or a hit."""
        row = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if isinstance(row, str):
            return [mark, (clean(row), "function")]
        text = row.text.lstrip()
        place = text.find(self.pattern)
        if place < 0:
            return [mark, (f"{row.line:>6}  ", "number"), (text, "")]
        end = place + len(self.pattern)
        return [mark, (f"{row.line:>6}  ", "number"), (text[:place], ""), (text[place:end], "match"), (text[end:], "")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that nothing is there, or not yet."""
        return [[], [("  searching…" if self.running else f"  no line matches {clean(self.pattern)}", "dim")]]

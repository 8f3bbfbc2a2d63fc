"""Run details: what the run under the cursor was measured under, and why numbers of it are not to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.domain.text import clean
from console.ui.drawing import Span, fit, width_of
from console.ui.widgets.bench_notes import notes
from console.ui.widgets.inks import Painting

if TYPE_CHECKING:
    from console.journal.records import RunEntry

MOST, FEW = 6, 3
"""Lines at most, and on a terminal of few rows."""

LOW = 30
"""Rows of a terminal that are few."""


class RunDetails(Painting):
    """The details, as high as they need."""

    DEFAULT_CSS = "RunDetails { height: auto; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="run-details")
        self.entry: RunEntry | None = None
        self._told: list[list[Span]] = []
        self._high = 0
        """As many lines as the longest details so far: the list above would jump at every run."""

    def show(self, entry: RunEntry) -> None:
        """Tell of a whole run."""
        from console.operations.run_words import told

        self.entry = entry
        named = dict(told(entry))
        served = (entry.host, entry.badge, entry.engine, named.pop("model", ""), named.pop("package", ""))
        self._told = [[(f" {clean(' · '.join(filter(None, served)))}", "strong")]]
        self._told += [[(f" {name} ", "dim"), (clean(text), "")] for name, text in named.items()]
        self._told += [[(f" {clean(text)}", ink)] for text, ink in notes(entry.measurements) if ink == "warn"]
        self._high = max(self._high, len(self._told))
        self.display = bool(self._high)
        self.refresh(layout=True)
        self.repaint()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Return how many lines there are to say."""
        return min(self._high, FEW if self.app.size.height < LOW else MOST)

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the details; the gravest stay where there is no room for all."""
        rest = len(self._told) - height
        shown = self._told[: max(0, height - 1)] + self._told[-1:] if rest > 0 and height else self._told
        return [row if width_of(row) <= width else _cut(row, width) for row in shown]


def _cut(row: Sequence[Span], width: int) -> list[Span]:
    *head, (text, ink) = row
    return [*head, (fit(text, width - width_of(head)), ink)]

"""Timeline: a whole recorded run on one axis, power above tokens, with its marks, its gaps and where the replay is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from console.domain.text import dash
from console.ui.drawing import MARKS, Span, braille, columns, fit
from console.ui.widgets.frame import Framed
from console.ui.widgets.inks import Painting

if TYPE_CHECKING:
    from console.operations.overview import Overview
    from console.operations.tape import Tape

LABEL = 12
"""Cells of the axis at the left."""

GAP = "╌"
HEAD = "│"

Curve = tuple[str, str, list[str]]
"""What stands at its top, its ink and its rows of braille."""


class Timeline(Painting, Framed, can_focus=True):
    """Power, speed and marks of a run."""

    class Sought(Message):
        """A moment was clicked."""

        def __init__(self, time: float) -> None:
            super().__init__()
            self.time = time

    def __init__(self, tape: Tape) -> None:
        super().__init__(id="timeline")
        self.tape = tape
        self.whole: Overview | None = None
        self.now = tape.began
        self._curves: list[Curve] = []
        self._curves_at = (0, 0)
        """Cells and rows that the curves were drawn for."""
        self.entitle("", "Run", "reading the recording…")

    def show(self, now: float, whole: Overview | None = None) -> None:
        """Show where the replay is."""
        self.now = now
        if whole is not None:
            self.whole, self._curves = whole, []
        gaps = len(self.tape.gaps)
        told = f"{gaps} {'gap' if gaps == 1 else 'gaps'}, nobody watched · " if gaps else ""
        self.entitle("", "Run", f"{told}◆ patch ▲ launch ▬ measurement · ] next mark · click seeks")
        self.repaint()

    def _cells(self, width: int) -> int:
        return max(4, width - LABEL - 1)

    def _column(self, moment: float, cells: int) -> int:
        lasted = max(1.0, self.tape.ended - self.tape.began)
        return min(cells - 1, max(0, math.floor((moment - self.tape.began) / lasted * cells)))

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return both curves, the marks and the axis."""
        cells = self._cells(width)
        room = max(2, height - 2)
        if not self._curves or self._curves_at != (cells, room):
            upper = (room + 1) // 2
            power = self._curve("power_w", "W", self._top_w(), cells, upper, "bar")
            speed = self._curve("tok_s", "tok/s", self._top_tok_s(), cells, room - upper, "info")
            self._curves, self._curves_at = [power, speed], (cells, room)
        drawn = [row for curve in self._curves for row in self._over(curve, cells)]
        return [*drawn, self._marks(cells), self._axis(cells)][:height]

    def _top_w(self) -> float:
        whole = self.whole
        return (whole.limit_w or whole.most("power_w") or 1.0) if whole is not None else 1.0

    def _top_tok_s(self) -> float:
        target = self.tape.target_tok_s
        reached = self.whole.most("tok_s") if self.whole is not None else None
        return max(filter(None, (target, reached)), default=1.0)

    def _curve(self, name: str, unit: str, top: float, cells: int, height: int, ink: str) -> Curve:
        """Draw a curve of the whole run: at 2,400 parts too slow for every paint."""
        values: list[float | None] = [None] * (cells * 2)
        if self.whole is not None:
            lasted = self.whole.ended - self.whole.began
            values = columns(self.whole.means(name), self.whole.ended, cells * 2, lasted)
        return f"{dash(top)} {unit}", ink, braille(values, top, height)

    def _over(self, curve: Curve, cells: int) -> list[list[Span]]:
        """Return a curve with its axis, the gaps and where the replay is."""
        edge, ink, rows = curve
        head = self._column(self.now, cells)
        gaps = {cell for began, ended in self.tape.gaps
                for cell in range(self._column(began, cells) + 1, self._column(ended, cells))}  # fmt: skip
        drawn: list[list[Span]] = []
        for place, row in enumerate(rows):
            shown = edge if place == 0 else ""
            bottom = place == len(rows) - 1
            text = [GAP if bottom and cell in gaps and sign == " " else sign for cell, sign in enumerate(row)]
            drawn.append([(fit(shown, LABEL - 1, left=False), "dim"), ("┤" if shown else "│", "track")])
            drawn[-1] += _with_head("".join(text), head, ink)
        return drawn

    def _marks(self, cells: int) -> list[Span]:
        row = [" "] * cells
        for window in self.tape.windows:
            for cell in range(self._column(window.began, cells), self._column(window.ended, cells) + 1):
                row[cell] = MARKS["measurement"]
        for mark in self.tape.marks:
            if mark.kind in ("patch", "restart"):
                row[self._column(mark.time, cells)] = MARKS[mark.kind]
        return [(" " * LABEL, ""), *_with_head("".join(row), self._column(self.now, cells), "mark")]

    def _axis(self, cells: int) -> list[Span]:
        row = [" "] * cells
        lasted = self.tape.ended - self.tape.began
        shown = "%H:%M" if lasted > 600 else "%H:%M:%S"
        for cell in range(0, cells - 8, max(16, cells // 8)):
            moment = self.tape.began + lasted * cell / cells
            row[cell : cell + 8] = f"{time.strftime(shown, time.localtime(moment)):<8}"[:8]
        return [(" " * LABEL, ""), ("".join(row), "dim")]

    def on_click(self, event: events.Click) -> None:
        """Go to the moment that was clicked."""
        cells = self._cells(self.size.width)
        cell = event.get_content_offset_capture(self).x - LABEL
        if 0 <= cell < cells:
            tape = self.tape
            self.post_message(self.Sought(tape.began + (tape.ended - tape.began) * (cell + 0.5) / cells))


def _with_head(row: str, head: int, ink: str) -> Iterable[Span]:
    sign = row[head] if row[head] in MARKS.values() else HEAD
    return [(row[:head], ink), (sign, "strong"), (row[head + 1 :], ink)]

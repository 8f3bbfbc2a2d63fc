"""Plot pane: one plot of runs with its legend in words and markers, readable without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.color import Color
from textual.containers import Vertical

from console.domain.text import clean, dash
from console.ui.drawing import Span, nice
from console.ui.widgets.frame import Framed
from console.ui.widgets.inks import Painting

if TYPE_CHECKING:
    from console.operations.plots import Plot, Series

MARKERS = ("●", "○", "◆", "×")
COLOURS = ("accent", "secondary", "success", "error")
INKS = ("accent", "info", "good", "bad")
MARKED = 60
"""Points up to which each has a marker of its own; more are a line."""

ROOMY = 14
"""Rows from which five figures fit beside a plot at even distances."""


class Legend(Painting):
    """Which marker is which run, and what the lines through the points are."""

    DEFAULT_CSS = "Legend { height: 1; }"
    said: Sequence[Span] = ()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the legend."""
        return [self.said]


class PlotPane(Vertical, Framed):
    """A plot in a frame."""

    def __init__(self) -> None:
        super().__init__(id="plot-pane")
        self.plot: Plot | None = None

    def compose(self) -> ComposeResult:
        """Put the plot above its legend."""
        from textual_plotext import PlotextPlot

        yield PlotextPlot(id="plot")
        yield Legend(id="plot-legend")

    def on_mount(self) -> None:
        """Draw in the new colours when the theme changes."""
        self.watch(self.app, "theme", self._draw, init=False)

    def on_resize(self) -> None:
        """Draw with as many figures beside it as fit."""
        self._draw()

    def show(self, plot: Plot, names: Sequence[str] = ()) -> None:
        """Show a plot.

        Args:
            plot: What to draw.
            names: What its series are called, before the run's own name.
        """
        self.plot, self._names = plot, tuple(names)
        self.entitle("v", plot.title, "v the next view")
        self._draw()

    def _draw(self) -> None:
        from textual_plotext import PlotextPlot

        plot = self.plot
        if plot is None or not self.is_mounted:
            return
        widget = self.query_one(PlotextPlot)
        draw = widget.plt
        draw.clear_data()
        xs = sorted({point.x for one in plot.series for point in one.points})
        place = {x: float(number) for number, x in enumerate(xs)} if plot.ladder else {x: x for x in xs}
        top = 1.15 * max((p.high or p.y for one in plot.series for p in one.points), default=1.0)
        row = 0.0 if plot.ladder else top / max(1, widget.size.height - 4)
        for number, one in enumerate(plot.series):
            colour = Color.parse(self.app.theme_variables[COLOURS[number % len(COLOURS)]]).rgb
            self._series(draw, one, place, colour, MARKERS[number % len(MARKERS)], row)
        draw.ylim(0, top)
        draw.yticks(*_ticks(top, 5 if self.size.height >= ROOMY else 2))  # too many would stand unevenly
        if plot.ladder:
            draw.xlim(-0.5, max(0.5, len(xs) - 0.5))
            draw.xticks(list(place.values()), [f"{x:,.0f}" for x in xs])
        elif xs:
            reach = xs[-1] * 1.1 or 1.0
            draw.xlim(0, reach)
            draw.xticks(*_ticks(reach, max(2, min(8, self.size.width // 12))))
        draw.xlabel(plot.x)
        legend = self.query_one(Legend)
        legend.said = self._legend(plot)
        legend.repaint()
        widget.refresh()

    def _series(
        self,
        draw: Any,
        one: Series,
        place: dict[float, float],
        colour: tuple[int, int, int],
        marker: str,
        row: float,
    ) -> None:
        if not one.points:
            return
        x, y = [place[point.x] for point in one.points], [point.y for point in one.points]
        draw.plot(x, y, marker="braille", color=colour)
        if len(one.points) > MARKED:
            return
        if row:  # where the place says nothing of the concurrency it stands beside
            last: int | None = None
            for point in one.points:
                if point.concurrency and point.concurrency != last:
                    draw.text(f"  {point.concurrency:,}", place[point.x], point.y + row, color=colour, alignment="left")
                last = point.concurrency
        for point in one.points:
            if point.low is not None and point.high is not None:
                draw.plot([place[point.x]] * 2, [max(0.0, point.low), point.high], marker="│", color=colour)
        draw.scatter(x, y, marker=marker, color=colour)

    def _legend(self, plot: Plot) -> list[Span]:
        spans: list[Span] = [(" ", "")]
        for number, one in enumerate(plot.series):
            name = self._names[number] if number < len(self._names) else ""
            spans += [
                (f"{MARKERS[number % len(MARKERS)]} {clean(name)} ".replace("  ", " "), INKS[number % len(INKS)]),
                (clean(one.name), "strong"),
                (f" {clean(one.why)}" if one.why else "", "warn"),
                ("   ", ""),
            ]
        if any(point.low is not None for one in plot.series for point in one.points):
            spans.append(("│ 95 % interval of the mean", "dim"))
        return spans


def _ticks(reach: float, most: int) -> tuple[list[float], list[str]]:
    """Return round places from 0 as far as an axis goes, and what is written at them."""
    step = nice(reach / most)
    while reach / step > most:
        step = nice(step * 2)
    places = [step * part for part in range(int(reach / step) + 1)]
    return places, [_tick(value) for value in places]


def _tick(value: float) -> str:
    return dash(value, next(digits for digits in (0, 1, 2, 3, 6) if digits == 6 or round(value, digits) == value))

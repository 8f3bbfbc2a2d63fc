"""The plot in its frame: figures beside it stand at even distances, however few rows there are."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from textual.app import App, ComposeResult

from console.operations.plots import Plot, Point, Series
from console.ui.theme import DARK
from console.ui.widgets.plot_pane import PlotPane
from tests.ui.waiting import shown, until

LADDER = Plot(
    "tok/s", "concurrency", "tok/s", (Series("run", (Point(256, 1959), Point(512, 2822), Point(1024, 3744))),), True
)


class Frame(App[None]):
    """A plot and nothing else."""

    def compose(self) -> ComposeResult:
        self.register_theme(DARK)
        self.theme = DARK.name
        yield PlotPane()

    def on_mount(self) -> None:
        self.query_one(PlotPane).show(LADDER)


@pytest.mark.parametrize("rows", (8, 9, 10, 12, 20, 40))
async def test_figures_stand_at_even_distances(rows: int) -> None:
    async with Frame().run_test(size=(80, rows)) as pilot:
        await until(pilot, lambda: "concurrency" in shown(pilot.app) and len(figures(pilot.app)) > 1)
        at = figures(pilot.app)
        steps = [(high - low, at[low] - at[high]) for low, high in pairwise(sorted(at))]
        assert len({value for value, _ in steps}) == 1, at
        assert max(gap for _, gap in steps) - min(gap for _, gap in steps) <= 1, at


def figures(app: App[None]) -> dict[int, int]:
    """Return the figures beside the plot with their rows."""
    return {
        int(figure.replace(",", "")): row
        for row, line in enumerate(shown(app).splitlines())
        for figure in re.findall(r"^\W*([\d,]+)┤", line)
    }

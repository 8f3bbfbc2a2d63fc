"""Questions, sheets and gauges on small terminals: nothing of what they say is cut off."""

from __future__ import annotations

import pytest

from console.domain.diagnosis import Bound, Confidence, Diagnosis
from console.ui.modals.confirm import MenuModal
from console.ui.modals.why import WhyModal
from console.ui.widgets.gpus import bar_title
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

LONG = "SM 0 %, 35 of 600 W, PCIe 0 % of x16 gen1: nothing at all runs on these GPUs"
LUCK = "it was chosen by these numbers, and the best of several is too good by luck"


def _words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (120, 40)])
async def test_long_lines_of_a_sheet_wrap_inside_it(cockpit: Bench, size: tuple[int, int]) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=size) as pilot:
        await open_cockpit(pilot)
        app.push_screen(WhyModal(Diagnosis(Bound.IDLE, LONG, (), Confidence.HIGH, (), (), window_s=10.0)))
        await until(pilot, lambda: "esc" in shown(app) and "Why" in shown(app))
        await until(pilot, lambda: all(word in _words(shown(app)).split() for word in LONG.split()))
        await pilot.press("escape")
        app.push_screen(MenuModal("Save winner", [LUCK], [("m", LUCK)]))
        await until(pilot, lambda: _words(shown(app)).split().count("luck") == 2)


@pytest.mark.parametrize(("bar", "said"), [(40, "power of limit"), (14, "power of limit"), (11, "of limit"), (6, "")])
def test_the_head_over_the_power_bars_is_whole_or_not_there(bar: int, said: str) -> None:
    assert bar_title(bar) == said

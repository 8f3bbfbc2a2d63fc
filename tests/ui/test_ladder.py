"""What the ladder says of a start that has shown nothing yet."""

from __future__ import annotations

import pytest

from console.domain.run import Run, Rung, RunPhase
from console.domain.text import clean
from console.ui.widgets.ladder import Ladder


@pytest.mark.parametrize(
    ("reason", "ladder", "expected"),
    [
        ("", (), [" ◔ launched, no phase seen in its log yet  0:12"]),
        ("job 7, PENDING (Resources)", (), [" ◔ job 7, PENDING (Resources)  0:12"]),
    ],
)
def test_what_a_start_waits_for(reason: str, ladder: tuple[Rung, ...], expected: list[str]) -> None:
    widget = Ladder()
    widget.run = Run("1", "p", "sglang", "", "", 1, 100.0, phase=RunPhase.STARTING, reason=clean(reason), ladder=ladder)
    widget.now = 112.0
    assert ["".join(text for text, _ in row) for row in widget.lines(80, 8)] == expected

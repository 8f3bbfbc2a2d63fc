"""How a load stands, in words that a small screen does not cut where they matter."""

from __future__ import annotations

from dataclasses import replace

from console.domain.measurement import SweepProgress
from console.state.store import Snapshot
from console.ui.drawing import width_of
from console.ui.widgets.bench_ladder import BenchHead, cut, troubles

SWEEP = SweepProgress("run-1", (8, 1024), 2, (), 1024, 1, "measuring", 0.25, 412.0)


def head(sweep: SweepProgress) -> str:
    shown = BenchHead()
    shown.snapshot = Snapshot(sweep=sweep)
    return "".join(text for text, _ in shown.lines(80, 2)[0])


def test_what_is_wrong_comes_before_what_is_well() -> None:
    assert head(SWEEP) == " Measuring 1,024: measuring 25 % · 412 tok/s now · repeat 2 of 2"
    troubled = replace(SWEEP, failed=16, silent_s=13.4)
    assert head(troubled).startswith(" Measuring 1,024: measuring 25 % · 16 failed · nothing has come for 13 s · ")
    assert troubles(replace(SWEEP, silent_s=4.9)) == []  # a prefill is no trouble


def test_an_error_is_what_is_said() -> None:
    assert head(replace(SWEEP, current=None, error="the disk is full")) == " Measuring ✗ the disk is full"


def test_a_line_is_cut_in_its_last_ink() -> None:
    spans = [("abc", "good"), ("defgh", "bad"), ("ij", "dim")]
    assert cut(spans, 6) == [("abc", "good"), ("de…", "bad")]
    assert cut(spans, 10) == spans and width_of(cut(spans, 9)) <= 9

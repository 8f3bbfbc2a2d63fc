"""A ladder's notes: a client at its limit, no steady stretch, the knee and missing percentiles in words."""

from __future__ import annotations

from dataclasses import replace

from console.ui.widgets.bench_notes import mode_words, notes
from tests.ui import fakes


def test_what_must_not_be_compared_comes_first_with_its_reason() -> None:
    late = fakes.measured(1024, 0, 3700.0, ("the client was the limit: it used 98 % of a core",))
    said = [text for text, _ in notes((fakes.measured(256, 0, 1950.0), late))]
    assert said[0] == "! 1,024 is not to be compared: the client was the limit: it used 98 % of a core"


def test_no_steady_stretch_is_said_with_its_reason_and_the_knee_with_what_it_means() -> None:
    ladder = [
        fakes.measured(rung, 0, speed) for rung, speed in ((64, 880.0), (128, 1700.0), (256, 1720.0), (512, 1730.0))
    ]
    last = replace(ladder[-1], steady_tok_s=None, protocol={"steady": {"reason": "the speed kept falling"}})
    said = " / ".join(text for text, _ in notes((*ladder[:-1], last)))
    assert "steady at 512: none, the speed kept falling" in said and "knee at 128: beyond it" in said


def test_a_percentile_without_enough_samples_is_explained() -> None:
    few = fakes.measured(8, 0, 100.0)
    few = replace(few, ttft_ms=replace(few.ttft_ms, p99_ms=None))
    assert ("— for p99 at 8: fewer than 100 requests tell none", "dim") in notes((few,))
    assert notes(()) == []


def test_the_kind_of_load_is_told() -> None:
    assert mode_words({"loop": "closed", "api": "chat"}) == "closed loop, chat"
    told = {"loop": "open", "request_rate_req_s": 4.0, "arrival": "poisson", "api": "generate"}
    assert mode_words(told) == "open loop at 4 req/s, poisson, generate"

"""Steady stretches and knees: found where there is one, and not where there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.bench.knee import Knee, knee
from console.bench.steadiness import steady_stretch
from console.domain.measurement import Measurement, Percentiles

NONE = Percentiles(0)


def course(tokens: list[float], running: list[float], bin_s: float = 0.5) -> dict[str, Any]:
    return {"bin_s": bin_s, "tokens": tokens, "running": running}


def test_ramps_are_left_out() -> None:
    said = course([0, 10, 40, *[100] * 12, 60, 10], [2, 4, 7, *[8] * 12, 5, 1])
    steady = steady_stretch(said, 8)
    assert (steady.from_s, steady.to_s, steady.tok_s) == (2.0, 7.0, 200.0)


def test_a_load_that_is_too_short_has_none() -> None:
    steady = steady_stretch(course([100] * 6, [8] * 6), 8)
    assert steady.tok_s is None and steady.reason == "none: all 8 streams were busy for 2.0 s only"


@pytest.mark.parametrize(
    ("change", "words"), [(0.2, "rose by 20%"), (-0.2, "fell by 20%"), (0.12, "rose by 12%"), (0.08, ""), (-0.08, "")]
)
@pytest.mark.parametrize("bins", [20, 200])
def test_a_speed_that_drifts_is_not_steady(change: float, words: str, bins: int) -> None:
    drifting = [100 * (1 + change * ((place + 0.5) / bins - 0.5)) for place in range(-1, bins + 1)]
    steady = steady_stretch(course(drifting, [8] * (bins + 2)), 8)
    assert steady.reason == (f"none: the speed {words} from begin to end" if words else "")
    assert (steady.tok_s is None) == bool(words) and (words or steady.tok_s == 200)


@pytest.mark.parametrize(("swing", "period_s", "steady"), [(0.3, 5.0, False), (0.3, 10.0, False), (0.08, 5.0, True)])
def test_a_speed_that_goes_up_and_down_is_not_steady(swing: float, period_s: float, steady: bool) -> None:
    speeds = [100 * (1 + swing * math.sin(2 * math.pi * place * 0.25 / period_s)) for place in range(160)]
    found = steady_stretch(course(speeds, [8] * 160, 0.25), 8)
    assert (found.tok_s is not None) == steady
    assert steady or found.reason.startswith("none: the speed went up and down between ")


def test_what_returns_with_every_wave_of_requests_is_steady() -> None:
    wave = [0.0] * 8 + [100.0] * 32  # two seconds of prefill, eight of decode, all streams alike
    said = course([*wave * 4, 0.0, 0.0], [8] * 162, 0.25)
    assert steady_stretch(said, 8, request_s=10.0).tok_s == pytest.approx(320, rel=0.02)
    assert steady_stretch(said, 8, request_s=1.0).reason.startswith("none: the speed went up and down")


def test_nothing_known_is_none() -> None:
    assert steady_stretch({}, 8).reason and steady_stretch(course([0.0] * 20, [8] * 20), 8).tok_s is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 64)), max_size=60), st.floats(0.01, 5), st.integers(1, 64))
def test_whatever_the_course_it_is_steady_or_has_a_reason(
    bins: list[tuple[float, float]], wide: float, streams: int
) -> None:
    for request_s in (0.0, 30.0):
        steady = steady_stretch(course([t for t, _ in bins], [r for _, r in bins], wide), streams, request_s=request_s)
        assert (steady.tok_s is None) == bool(steady.reason)


def rung(concurrency: int, tok_s: float, **more: Any) -> Measurement:
    one = Measurement("r", concurrency, 0, 0, 1, 1, 1, 0, 1, 1, tok_s, 1, NONE, NONE, NONE, NONE)
    return replace(one, **more)


def test_the_knee_is_where_twice_the_streams_gain_less_than_a_tenth() -> None:
    ladder = [rung(1, 100), rung(2, 195), rung(4, 380), rung(8, 400), rung(16, 404)]
    assert knee(ladder) == Knee(4, 380)
    assert knee(ladder[:3]) is None  # it still grows: nothing is said
    assert knee([]) is None and knee(ladder[:1]) is None


def test_a_dip_that_recovers_is_no_knee() -> None:
    assert knee([rung(1, 100), rung(2, 101), rung(4, 390), rung(8, 700)]) is None


def test_tainted_and_open_loops_make_no_knee() -> None:
    assert knee([rung(4, 380), rung(8, 381, tainted=("warm",)), rung(16, 382, request_rate_req_s=3.0)]) is None

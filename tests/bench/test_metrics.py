"""Percentiles, goodput, power windows: properties that hold for any load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.bench.metrics import Request, goodput, percentiles
from console.bench.power import power_between
from console.domain.gpu import GpuReading, GpuSample
from console.domain.profile import LimitsSection

times = st.floats(0.0, 100.0)
requests = st.lists(
    st.builds(
        lambda sent, first, rest, tokens: Request(sent, first, first + rest, tokens, rest / max(1, tokens - 1)),
        times, times, times, st.integers(1, 500),
    ),
    max_size=50,
)  # fmt: skip


@given(requests, st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0.1, 1000))
def test_goodput_is_at_most_throughput(found: list[Request], ttft: float, itl: float, duration: float) -> None:
    good = goodput(found, LimitsSection(ttft_ms=ttft, itl_ms=itl), duration)
    assert good is not None and 0 <= good <= len(found) / duration


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=300))
def test_percentiles_are_ordered_and_among_the_values(values: list[float]) -> None:
    found = percentiles(values)
    known = [one for one in (found.p50_ms, found.p90_ms, found.p99_ms) if one is not None]
    assert known == sorted(known) and found.count == len(values)
    assert all(1000 * min(values) <= one <= 1000 * max(values) + 1e-6 for one in known)


def test_percentiles_need_enough_samples() -> None:
    assert percentiles([]) == percentiles([None])
    assert percentiles([1.0]).p50_ms is None and percentiles([1.0]).mean_ms == 1000
    assert percentiles([1.0] * 9).p90_ms is None and percentiles([1.0] * 10).p90_ms == 1000
    assert percentiles([1.0] * 99).p99_ms is None and percentiles([1.0] * 100).p99_ms == 1000
    assert percentiles(value / 1000 for value in range(101)).p90_ms == 90


def test_without_limits_there_is_no_goodput() -> None:
    assert goodput([Request(0, 1, 2, 3)], LimitsSection(), 10) is None
    assert goodput([Request(0, 1, 2, 3), Request(0, 3, 4, 3)], LimitsSection(ttft_ms=2000), 10) == 0.1


def test_one_token_has_no_time_per_token() -> None:
    assert Request(0, 1, 1, 1).tpot_s is None and Request(0, 1, 2, 11).tpot_s == 0.1


def sample(time: float, *watts: float | None) -> GpuSample:
    return GpuSample(time, "nvml", tuple(GpuReading(index, power_draw_w=one) for index, one in enumerate(watts)))


def test_power_is_cut_to_the_window_and_weighted_by_time() -> None:
    samples = [
        sample(0, 999, 999),
        sample(10, 100, 100),
        sample(11, 200, 200),
        sample(18, 300, 300),
        sample(30, 999, 999),
    ]
    window = power_between(samples, 10, 20)
    assert (window.peak_w, window.samples) == (600, 3)
    assert window.mean_w == pytest.approx((0.5 * 200 + 4 * 400 + 5.5 * 600) / 10)
    assert window.energy_j == pytest.approx(10 * (window.mean_w or 0))


def counting(second: int, *, period: int) -> GpuSample:
    """Return a GPU that draws 480 W by its meter and 500 W by its counter, which is read now and then."""
    gpu = GpuReading(0, power_draw_w=480.0, energy_j=500.0 * (second // period * period))
    return GpuSample(float(second), "nvml", (gpu,))


def test_energy_comes_from_the_counter_where_it_moved_through_most_of_the_window() -> None:
    window = power_between([counting(second, period=10) for second in range(100)], 5, 65)
    assert window.energy_j == pytest.approx(500 * 60)
    assert (window.energy_from, window.mean_w) == ("counter", 480)


def test_energy_of_a_short_window_is_its_power() -> None:
    window = power_between([counting(second, period=10) for second in range(100)], 5, 27)
    assert window.energy_j == pytest.approx(480 * 22)
    assert window.energy_from == "power"


def test_power_of_a_part_of_the_gpus_is_no_power() -> None:
    assert power_between([sample(10, 100, None)], 0, 20).mean_w is None
    assert power_between([], 0, 20).samples == 0

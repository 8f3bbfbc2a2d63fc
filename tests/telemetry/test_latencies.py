"""Latencies from histogram differences, and engines' counters by their own names."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.telemetry import metrics
from console.telemetry.latencies import Latencies, buckets_of, percentiles
from console.telemetry.throughput import from_metrics

DATA = Path(__file__).parent.parent / "data" / "engines"
INF = math.inf


def test_percentiles_lie_between_the_bounds_of_their_bucket() -> None:
    before = {0.1: 5.0, 0.2: 5.0, 0.4: 5.0, INF: 5.0}
    after = {0.1: 5.0, 0.2: 105.0, 0.4: 205.0, INF: 205.0}
    told = percentiles(before, after)
    assert told.count == 200 and told.p50_ms == pytest.approx(200.0) and told.p90_ms == pytest.approx(360.0)
    assert told.p99_ms == pytest.approx(396.0) and told.mean_ms is None


def test_few_samples_have_no_percentiles_and_what_lies_beyond_the_last_bound_is_unknown() -> None:
    told = percentiles({0.1: 0.0, INF: 0.0}, {0.1: 3.0, INF: 3.0})
    assert (told.count, told.p90_ms, told.p99_ms) == (3, None, None) and told.p50_ms is not None
    assert percentiles({0.1: 0.0, INF: 0.0}, {0.1: 1.0, INF: 20.0}).p50_ms is None


def test_a_counter_that_fell_is_no_window() -> None:
    assert percentiles({0.1: 9.0, INF: 9.0}, {0.1: 1.0, INF: 1.0}).count == 0 == percentiles({}, {}).count


@given(
    st.dictionaries(st.floats(0.001, 100), st.floats(0, 1e6), max_size=6),
    st.dictionaries(st.floats(0.001, 100), st.floats(0, 1e6), max_size=6),
)
def test_nothing_makes_it_fail(before: dict[float, float], after: dict[float, float]) -> None:
    told = percentiles(before, after)
    assert told.p50_ms is None or told.p50_ms <= 100_000


def scrape(first: int, second: int, engine: str = "sglang") -> tuple[metrics.Series, ...]:
    lines = []
    for rank, count in ((0, first), (1, second)):
        for le, share in (("0.1", 0.5), ("0.5", 1.0), ("+Inf", 1.0)):
            labels = f'le="{le}",dp_rank="{rank}",tp_rank="0"'
            lines.append(f"{engine}:time_to_first_token_seconds_bucket{{{labels}}} {count * share}")
        lines.append(f'{engine}:time_to_first_token_seconds_created{{dp_rank="{rank}"}} 1.7e9')
    return metrics.parse("\n".join(lines))


def test_ranks_are_summed_over_a_window_and_a_restart_begins_anew() -> None:
    seen = Latencies()
    assert seen.step(0.0, scrape(100, 100)) == {}
    told = seen.step(5.0, scrape(120, 140))["ttft"]
    assert told.count == 60 and told.p50_ms == pytest.approx(100.0)
    assert seen.step(10.0, scrape(2, 2)) == {}  # fewer: another process counts now
    assert seen.step(12.0, scrape(4, 2))["ttft"].count == 2


def test_the_window_forgets_what_is_older_than_half_a_minute() -> None:
    seen = Latencies()
    for second in range(0, 100, 5):
        told = seen.step(float(second), scrape(10 * second, 0))
    assert 300 <= told["ttft"].count <= 400


def test_a_real_vllm_has_all_three_histograms() -> None:
    series = metrics.parse(gzip.decompress((DATA / "vllm-metrics.txt.gz").read_bytes()).decode())
    for names in (("time_to_first_token_seconds",), ("inter_token_latency_seconds",), ("e2e_request_latency_seconds",)):
        buckets = buckets_of(series, names)
        assert len(buckets) > 5 and INF in buckets and max(buckets.values()) == buckets[INF]


def test_llamacpp_by_its_names() -> None:
    reading = from_metrics((DATA / "llamacpp-metrics.txt").read_text(), 1.0)
    assert (reading.running, reading.queued, reading.prefilled, reading.accept_length) == (2, 0, 6, None)
    assert reading.decoded == pytest.approx(826 * 1.99879)


def test_the_accept_length_of_speculative_decoding() -> None:
    text = "vllm:num_requests_running 1\nvllm:spec_decode_num_drafts_total 10\nvllm:spec_decode_num_accepted_tokens_total 19\n"
    assert from_metrics(text, 1.0).accept_length == pytest.approx(2.9)
    assert (
        from_metrics('sglang:num_running_reqs 1\nsglang:spec_accept_length{tp_rank="0"} 3.04\n', 1.0).accept_length
        == 3.04
    )
    assert from_metrics("sglang:num_running_reqs 1\nsglang:spec_accept_length 0\n", 1.0).accept_length is None

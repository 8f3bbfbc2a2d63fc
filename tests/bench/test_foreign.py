"""Results of guidellm, genai-bench and aiperf, and ours in the engines' names."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from console.bench.foreign import translated
from console.bench.naming import engine_names
from console.bench.results import import_results
from console.domain.measurement import Measurement, Percentiles
from tests.bench.test_results import read

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def test_guidellm_of_both_formats() -> None:
    eight, sixteen = read("guidellm-0.3.json").results
    assert (eight.backend, eight.model, eight.concurrency_limit, eight.request_rate) == ("guidellm", "tiny", 8, None)
    assert (eight.requests, eight.completed, eight.failed, eight.duration_s) == (64, 64, 0, 16.0)
    assert (eight.input_len, eight.output_len) == (512, 128)
    assert (eight.output_throughput_tok_s, eight.total_throughput_tok_s, eight.request_throughput_req_s) == (
        512,
        2560,
        4,
    )
    assert eight.latencies["ttft_ms"] == {
        "mean_ms": 81.5, "p50_ms": 80.0, "p90_ms": 95.0, "p95_ms": 99.0, "p99_ms": 120.0, "std_ms": 1.5,
    }  # fmt: skip
    assert eight.latencies["e2el_ms"]["p50_ms"] == 2400.0  # told in seconds
    assert eight.fit and not sixteen.fit and "64 of 70 requests completed (91 %)" in sixteen.flags
    (rated,) = read("guidellm-0.4.json").results
    assert (rated.request_rate, rated.concurrency_limit, rated.model, rated.completed) == (10.0, None, "tiny", 64)


def test_genai_bench_tells_times_in_seconds_and_errors_as_failures() -> None:
    (one,) = read("genai-bench.json").results
    assert (one.concurrency_limit, one.requests, one.completed, one.failed) == (4, 50, 40, 10)
    assert (one.output_throughput_tok_s, one.input_len, one.output_len) == (200.0, 100, 50)
    assert one.latencies["ttft_ms"]["p99_ms"] == 80.0 and one.latencies["tpot_ms"]["p50_ms"] == 19.5
    assert not one.fit and one.tags["scenario"] == "D(100,50)"


def test_aiperf_counts_its_error_summary() -> None:
    (one,) = read("aiperf.json").results
    assert (one.model, one.concurrency_limit, one.requests, one.completed, one.failed) == ("tiny", 10, 204, 200, 4)
    assert (one.output_throughput_tok_s, one.output_tokens, one.duration_s) == (800.0, 12800, 16.0)
    assert one.latencies["tpot_ms"]["p50_ms"] == 11.8 and one.latencies["e2el_ms"]["p99_ms"] == 1000.0


@given(st.sampled_from(["benchmarks", "aggregated_metrics", "output_token_throughput"]), JSON)
def test_whatever_stands_there_it_is_read_or_passed_over(key: str, inside: object) -> None:
    import_results(json.dumps({key: inside}).encode())
    import_results(json.dumps({key: [inside]}).encode())


MINE = Measurement(
    "run", 8, 0, 1_760_000_000.0, 10.0, 32, 32, 0, 2048, 1024, 102.4, 3.2,
    Percentiles(32, 50.0, 48.0, 60.0, None), Percentiles(992, 9.0, 8.9, 9.5, 11.0), Percentiles(32, 9.1), Percentiles(32),
    protocol={"api": "generate", "input_tokens": 64, "output_tokens": 32, "seed": 20_008},
)  # fmt: skip


def test_ours_are_read_back_as_theirs() -> None:
    told = engine_names(MINE)
    assert translated(told) is None
    (back,) = import_results(json.dumps(told).encode()).results
    assert (back.concurrency_limit, back.request_rate, back.completed, back.failed) == (8, "inf", 32, 0)
    assert (back.output_throughput_tok_s, back.total_throughput_tok_s) == (102.4, 307.2)
    assert back.latencies["itl_ms"]["p99_ms"] == 11.0 and "p99_ms" not in back.latencies["ttft_ms"]
    assert (back.seed, back.input_len, back.output_len, back.fit) == (20_008, 64, 32, True)
    assert engine_names(replace(MINE, request_rate_req_s=4.0))["request_rate"] == 4.0

"""A measurement in the result names of the engines' own clients, so that their tools read our exports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from console.domain.measurement import Measurement

STATISTICS = (("mean", "mean_ms"), ("median", "p50_ms"), ("p90", "p90_ms"), ("p99", "p99_ms"))


def engine_names(one: Measurement) -> dict[str, Any]:
    """Return the fields that `sglang.bench_serving` and `vllm bench serve` write, as far as they were measured.

    Times are in ms, throughputs per s; what was not measured is left out rather than written as 0, which their own
    files use for it.
    """
    taken, made = one.input_tokens, one.output_tokens
    sure = one.duration_s > 0
    found: dict[str, Any] = {
        "backend": one.protocol.get("api"),
        "date": datetime.fromtimestamp(one.started_at, UTC).strftime("%Y%m%d-%H%M%S"),
        "num_prompts": one.requests,
        "request_rate": "inf" if one.request_rate_req_s is None else one.request_rate_req_s,
        "max_concurrency": one.concurrency_limit,
        "random_input_len": one.protocol.get("input_tokens"),
        "random_output_len": one.protocol.get("output_tokens"),
        "seed": one.protocol.get("seed"),
        "duration": one.duration_s,
        "completed": one.completed,
        "total_input_tokens": taken,
        "total_output_tokens": made,
        "request_throughput": one.request_throughput_req_s,
        "input_throughput": taken / one.duration_s if sure else None,
        "output_throughput": one.output_throughput_tok_s,
        "total_token_throughput": (taken + made) / one.duration_s if sure else None,
        "request_goodput": one.goodput_req_s,
        "max_concurrent_requests": one.peak_concurrency,
    }
    for word, told in (("ttft", one.ttft_ms), ("itl", one.itl_ms), ("tpot", one.tpot_ms), ("e2el", one.e2el_ms)):
        found |= {f"{statistic}_{word}_ms": getattr(told, name) for statistic, name in STATISTICS}
    return {name: value for name, value in found.items() if value is not None}

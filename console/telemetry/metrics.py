"""`/metrics` text as numbers: data-parallel ranks summed, tensor-parallel ranks never, NaN unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

REPLICAS = ("tp_rank", "pp_rank", "moe_ep_rank", "ep_rank", "attn_cp_rank", "pid")
"""Labels whose series tell the same thing again: the largest is taken."""

WITH_HISTOGRAMS = ("sglang", "vllm")
HISTOGRAMS = {
    "ttft": ("time_to_first_token_seconds",),
    "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "e2el": ("e2e_request_latency_seconds",),
}
"""Our word, and the engines' histograms for it, the newer name first."""

BUCKETS = tuple(
    f"{engine}:{name}_bucket" for engine in WITH_HISTOGRAMS for names in HISTOGRAMS.values() for name in names
)

WANTED = (
    "sglang:realtime_tokens_total",
    "sglang:generation_tokens_total",
    "sglang:prompt_tokens_total",
    "sglang:gen_throughput",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "sglang:token_usage",
    "sglang:full_token_usage",
    "sglang:swa_token_usage",
    "sglang:mamba_usage",
    "sglang:cache_hit_rate",
    "sglang:num_retracted_requests_total",
    "sglang:http_requests_active",
    "sglang:spec_accept_length",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "llamacpp:n_decode_total",
    "llamacpp:n_busy_slots_per_decode",
    "llamacpp:prompt_tokens_total",
    "llamacpp:prompt_tokens_cached_total",
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
    "llamacpp:kv_cache_usage_ratio",
    "llamacpp:spec_decode_num_drafts_total",
    "llamacpp:spec_decode_num_accepted_tokens_total",
    *BUCKETS,
)
"""Series that are read; the other thousand lines of a scrape are not parsed."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str) -> tuple[Series, ...]:
    """Return the series that we know how to use; damaged lines are passed over, NaN is dropped."""
    from prometheus_client.parser import text_string_to_metric_families

    kept = [line for line in text.splitlines() if line.startswith(WANTED)]
    try:
        return tuple(_series(text_string_to_metric_families("\n".join(kept) + "\n")))
    except ValueError:
        pass  # one torn line must not take the others with it
    found: list[Series] = []
    for line in kept:
        try:
            found += _series(text_string_to_metric_families(line + "\n"))
        except ValueError:
            continue
    return tuple(found)


def _series(families: Iterable[object]) -> Iterable[Series]:
    for family in families:
        for sample in family.samples:  # type: ignore[attr-defined]
            if math.isfinite(sample.value):
                yield Series(sample.name, sample.labels, float(sample.value))


def total(series: Iterable[Series], name: str, **labels: str) -> float | None:
    """Return the sum over data-parallel ranks and sources of a name, replicas counted once."""
    groups = _groups(series, name, labels)
    return sum(groups) if groups else None


def highest(series: Iterable[Series], name: str, **labels: str) -> float | None:
    """Return the largest over all ranks: of shares, the one that binds."""
    groups = _groups(series, name, labels)
    return max(groups) if groups else None


def _groups(series: Iterable[Series], name: str, labels: Mapping[str, str]) -> list[float]:
    groups: dict[tuple[tuple[str, str], ...], float] = {}
    for one in series:
        if one.name != name or any(one.labels.get(key) != value for key, value in labels.items()):
            continue
        key = tuple(sorted((label, value) for label, value in one.labels.items() if label not in REPLICAS))
        groups[key] = max(groups.get(key, -math.inf), one.value)
    return list(groups.values())

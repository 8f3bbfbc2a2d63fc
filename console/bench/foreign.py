"""Results of guidellm, genai-bench and aiperf, said in the words of the engines' own clients.

Each of these tools writes one JSON document; the numbers are those of completed requests. Formats: guidellm's
`benchmarks.json` (0.3: `args.strategy`, from 0.4: `config.strategy`; latencies of requests in seconds, of tokens in
milliseconds; from 0.8 the lengths stand in the file's own `config.spec`), genai-bench's file of one scenario at one
concurrency (`aggregated_metrics`, its times in `_time_unit`), aiperf's `profile_export_aiperf.json` (a table of
statistics by metric, each with its unit; its plan in `input_config`, by phases from 0.13).

What guidellm and aiperf call inter-token latency is a mean of each request without its first token: our TPOT. Of an ITL
aiperf tells gaps between chunks; guidellm weighs its means by tokens, so that their mean alone is one. guidellm's time
per output token holds the first token, which is no word of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

STATISTICS = (
    ("mean", ("mean", "avg")),
    ("median", ("median", "p50")),
    ("p90", ("p90",)),
    ("p95", ("p95",)),
    ("p99", ("p99",)),
    ("std", ("std_dev", "stddev", "std")),
)
"""Our word, and what the tools call it."""


def translated(whole: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the results of a document in the keys of `bench_serving`; `None` when it is none of these tools'."""
    if isinstance(whole.get("benchmarks"), list):
        asked = _lengths(str(_part(whole, "config", "spec").get("data") or ""))
        return [asked | _guidellm(one) for one in whole["benchmarks"] if isinstance(one, Mapping)]
    if isinstance(whole.get("aggregated_metrics"), Mapping):
        return [_genai_bench(whole)]
    if isinstance(whole.get("output_token_throughput"), Mapping):
        return [_aiperf(whole)]
    return None


def own_words(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of our own export in the keys of `bench_serving`; any other row as it is."""
    if "output_throughput_tok_s" not in row or "concurrency_limit" not in row:
        return row
    plan = _part(row, "protocol")
    found: dict[str, Any] = {
        "backend": "tokwatt",
        "max_concurrency": row.get("concurrency_limit"),
        "request_rate": row.get("request_rate_req_s"),
        "random_input_len": plan.get("input_tokens"),
        "random_output_len": plan.get("output_tokens"),
        "duration": row.get("duration_s"),
        "num_prompts": row.get("requests"),
        "completed": row.get("completed"),
        "failed": row.get("failed"),
        "total_input_tokens": row.get("input_tokens"),
        "total_output_tokens": row.get("output_tokens"),
        "request_throughput": row.get("request_throughput_req_s"),
        "output_throughput": row.get("output_throughput_tok_s"),
        "request_goodput": row.get("goodput_req_s"),
    }
    for word in ("ttft", "itl", "tpot", "e2el"):
        names = (("mean", "mean"), ("median", "p50"), ("p90", "p90"), ("p99", "p99"))
        found |= {f"{statistic}_{word}_ms": row.get(f"{word}_{name}_ms") for statistic, name in names}
    tags = {name: row.get(name) for name in ("host", "profile", "run_id", "repeat", "tainted")}
    return {name: value for name, value in {**found, **tags}.items() if value is not None}


def _guidellm(one: Mapping[str, Any]) -> dict[str, Any]:
    config, args = _part(one, "config"), _part(one, "args")
    strategy = _part(config, "strategy") or _part(args, "strategy")
    metrics = _part(one, "metrics")
    counts = _part(one, "request_totals") or _part(metrics, "request_totals")
    counts = counts or _part(one, "run_stats", "requests_made") or _part(one, "scheduler_metrics", "requests_made")

    def good(name: str) -> Mapping[str, Any]:
        return _part(metrics, name, "successful")

    found: dict[str, Any] = {
        "backend": "guidellm",
        "model_id": _part(one, "worker").get("backend_model") or _part(config, "backend").get("model"),
        "max_concurrency": strategy.get("streams") or strategy.get("max_concurrency"),
        "request_rate": strategy.get("rate"),
        "duration": _lasted(one),
        "num_prompts": counts.get("total"),
        "completed": counts.get("successful"),
        "failed": counts.get("errored"),
        "incomplete": counts.get("incomplete"),
        "request_throughput": good("requests_per_second").get("mean"),
        "output_throughput": good("output_tokens_per_second").get("mean"),
        "total_throughput": good("tokens_per_second").get("mean"),
        "total_input_tokens": good("prompt_token_count").get("total_sum"),
        "total_output_tokens": good("output_token_count").get("total_sum"),
        **_lengths(str(_part(one, "request_loader").get("data") or _part(config, "requests").get("data") or "")),
    }
    if _amount(found["incomplete"]) and _amount(
        found["num_prompts"]
    ):  # cut off by the end of the time: neither done nor failed
        found["num_prompts"] -= found["incomplete"]
    for word, name, to_ms in (
        ("ttft", "time_to_first_token_ms", 1.0),
        ("tpot", "inter_token_latency_ms", 1.0),
        ("e2el", "request_latency", 1000.0),
    ):
        found |= _statistics(word, good(name), to_ms)
    found["mean_itl_ms"] = found.get("mean_tpot_ms")
    return {name: value for name, value in found.items() if value is not None}


def _genai_bench(whole: Mapping[str, Any]) -> dict[str, Any]:
    one = _part(whole, "aggregated_metrics")
    stats = _part(one, "stats")
    to_ms = 1.0 if whole.get("_time_unit") == "ms" else 1000.0
    by_rate = one.get("iteration_type") not in (None, "num_concurrency")
    scenario = re.match(r"D\((\d+),(\d+)\)", str(one.get("scenario") or ""))
    found: dict[str, Any] = {
        "backend": "genai-bench",
        "scenario": one.get("scenario"),
        "max_concurrency": None if by_rate else one.get("num_concurrency"),
        "request_rate": one.get("arrival_requests_per_second"),
        "duration": (_amount(one.get("run_duration")) or 0.0) * to_ms / 1000.0 or None,
        "num_prompts": one.get("num_requests"),
        "completed": one.get("num_completed_requests"),
        "failed": one.get("num_error_requests"),
        "request_throughput": one.get("requests_per_second"),
        "input_throughput": one.get("mean_input_throughput_tokens_per_s"),
        "output_throughput": one.get("mean_output_throughput_tokens_per_s"),
        "total_throughput": one.get("mean_total_tokens_throughput_tokens_per_s"),
        "total_input_tokens": _part(stats, "num_input_tokens").get("sum"),
        "total_output_tokens": _part(stats, "num_output_tokens").get("sum"),
        "random_input_len": int(scenario[1]) if scenario else None,
        "random_output_len": int(scenario[2]) if scenario else None,
    }
    for word, name in (("ttft", "ttft"), ("tpot", "tpot"), ("e2el", "e2e_latency")):
        found |= _statistics(word, _part(stats, name), to_ms)
    return {name: value for name, value in found.items() if value is not None}


def _aiperf(whole: Mapping[str, Any]) -> dict[str, Any]:
    plan = _part(whole, "input_config")
    load = _part(plan, "loadgen") or _first(plan.get("phases"), "kind", "profiling")
    prompts = _part(_first(plan.get("datasets")), "prompts")
    names = _part(plan, "endpoint").get("model_names") or [_first(_part(plan, "models").get("items")).get("name")]

    def mean(name: str) -> Any:
        return _part(whole, name).get("avg")

    summary = whole.get("error_summary")
    counts = (
        [_amount(one.get("count")) or 0 for one in summary if isinstance(one, Mapping)]
        if isinstance(summary, list)
        else []
    )
    completed, failed = _amount(mean("request_count")), _amount(mean("error_request_count")) or sum(counts)
    found: dict[str, Any] = {
        "backend": "aiperf",
        "model_id": names[0] if isinstance(names, list) and names else None,
        "max_concurrency": load.get("concurrency"),
        "request_rate": load.get("request_rate") or load.get("rate"),
        "random_input_len": _part(prompts, "isl").get("mean"),
        "random_output_len": _part(prompts, "osl").get("mean"),
        "seed": _first(plan.get("datasets")).get("random_seed"),
        "duration": mean("benchmark_duration"),
        "num_prompts": None if completed is None else completed + (failed or 0),
        "completed": completed,
        "failed": failed,
        "request_throughput": mean("request_throughput"),
        "output_throughput": mean("output_token_throughput"),
        "total_throughput": mean("total_token_throughput"),
        "total_output_tokens": mean("total_osl") or mean("total_output_tokens"),
        "total_output_tokens_by_server": mean("total_usage_completion_tokens"),
        "total_input_tokens": mean("total_isl"),
    }
    for word, name in (
        ("ttft", "time_to_first_token"),
        ("itl", "inter_chunk_latency"),
        ("tpot", "inter_token_latency"),
        ("e2el", "request_latency"),
    ):
        told = _part(whole, name)
        to_ms = {"s": 1000.0, "sec": 1000.0, "us": 0.001, "ns": 1e-6}.get(str(told.get("unit")), 1.0)
        found |= _statistics(word, told, to_ms)
    return {name: value for name, value in found.items() if value is not None}


def _statistics(word: str, told: Mapping[str, Any], to_ms: float) -> dict[str, float]:
    """Return `mean_ttft_ms`, `median_ttft_ms` … from a table of statistics."""
    known = {**_part(told, "percentiles"), **told}
    return {
        f"{statistic}_{word}_ms": value * to_ms for statistic, names in STATISTICS for value in _numbers(known, names)
    }


def _amount(value: Any) -> Any:
    """Return a value that is a number, else `None`."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _numbers(told: Mapping[str, Any], names: Sequence[str]) -> Iterator[float]:
    for name in names:
        value = told.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield value
            return


def _first(entries: Any, key: str = "", value: str = "") -> Mapping[str, Any]:
    """Return the first table of a list, or the first that has a value; an empty one where there is none."""
    found = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    return next((one for one in found if not key or one.get(key) == value), {})


def _lengths(data: str) -> dict[str, int]:
    """Return the lengths that guidellm's synthetic data were asked for, as text or JSON."""
    found = {}
    for name, key in (("prompt_tokens", "random_input_len"), ("output_tokens", "random_output_len")):
        if told := re.search(rf"\b{name}\W+(\d+)", data):
            found[key] = int(told[1])
    return found


def _lasted(one: Mapping[str, Any]) -> float | None:
    stats = _part(one, "run_stats") or one
    began, ended = stats.get("start_time"), stats.get("end_time")
    if isinstance(began, (int, float)) and isinstance(ended, (int, float)):
        return ended - began
    duration = one.get("duration")
    return float(duration) if isinstance(duration, (int, float)) else None


def _part(whole: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a table inside a table; an empty one where there is none."""
    found: Any = whole
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}

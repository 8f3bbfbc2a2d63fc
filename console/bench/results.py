"""Result files of benchmark clients, read with suspicion: JSON lines among notes, or one document of another tool."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

from console.bench.foreign import own_words, translated

LATENCIES = ("ttft", "tpot", "itl", "e2el")
_STATISTICS = {
    "mean": "mean_ms",
    "median": "p50_ms",
    "p90": "p90_ms",
    "p95": "p95_ms",
    "p99": "p99_ms",
    "std": "std_ms",
}
_KNOWN = {
    "backend", "date", "dataset_name", "request_rate", "max_concurrency", "duration", "completed", "failed", "num_prompts",
    "total_input_tokens", "total_output_tokens", "total_output_tokens_retokenized", "request_throughput", "input_throughput",
    "output_throughput", "total_throughput", "total_token_throughput", "request_goodput", "request_goodput:", "concurrency",
    "accept_length", "max_output_tokens_per_s", "max_concurrent_requests", "model_id", "random_input_len",
    "random_output_len", "seed", "server_info", "total_input_text_tokens", "total_input_vision_tokens",
    "total_output_tokens_by_server",
}  # fmt: skip
_PREFILL = re.compile(r"\b(\d\d:\d\d):\d\d[^\]]*\] Prefill batch.*?#new-token: (\d+), #cached-token: (\d+)")
MEASURED = (
    "completed", "duration", "output_throughput", "request_throughput", "total_token_throughput", "total_throughput",
    "total_output_tokens", "ttfts", "itls",
)  # fmt: skip
"""A document without any of these, and without a latency, is nobody's result."""

NUMBERS = (
    "max_concurrency", "duration", "completed", "failed", "num_prompts", "total_input_tokens", "total_output_tokens",
    "request_throughput", "output_throughput", "total_throughput", "total_token_throughput",
)  # fmt: skip

LONGEST = 19
"""Digits of a whole number that somebody counted."""

_RATE = re.compile(r"^(?:mean|median|std|p\d+)_\w+_ms$")
FIT_SHARE = 0.99
"""Share of requests that must have been completed for a result to be ranked."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result as it can be trusted; unknown is `None`."""

    line: int
    """Line of the file; in a document of another tool, the number of the result in it."""
    backend: str = ""
    model: str = ""
    concurrency_limit: int | None = None
    request_rate: float | str | None = None
    """`inf` for all at once."""
    unlimited: bool = False
    """Whether the file says that there was no limit, and does not merely say none."""
    input_len: int | None = None
    output_len: int | None = None
    seed: int | None = None
    dataset: str = ""
    duration_s: float | None = None
    requests: int | None = None
    completed: int | None = None
    failed: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    output_throughput_tok_s: float | None = None
    total_throughput_tok_s: float | None = None
    request_throughput_req_s: float | None = None
    goodput_req_s: float | None = None
    peak_output_tok_s: float | None = None
    accept_length: float | None = None
    latencies: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """`ttft_ms`, `tpot_ms`, `itl_ms`, `e2el_ms`: statistic to value."""
    derived: tuple[str, ...] = ()
    """Fields that the file does not hold and that were computed."""
    flags: tuple[str, ...] = ()
    """What is wrong or doubtful."""
    fit: bool = True
    """Whether it may be ranked and compared."""
    cached_share: float | None = None
    tags: Mapping[str, object] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[object, ...]:
        """What two results must share to be compared."""
        return (self.model, self.dataset, self.input_len, self.output_len)


@dataclass(frozen=True, slots=True)
class Imported:
    """A result file."""

    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    damaged: tuple[tuple[int, str], ...] = ()
    """(line number, beginning of the line) that looks like a result and cannot be read."""
    warnings: tuple[str, ...] = ()
    others: tuple[tuple[int, str], ...] = ()
    """(line number, its first keys) of JSON that is nobody's result."""

    @property
    def winner(self) -> Result | None:
        """The fastest of results that are fit and alike; `None` when they are not."""
        fit = [result for result in self.results if result.fit and result.output_throughput_tok_s]
        if not fit or self.warnings or len({result.kind for result in fit}) > 1:
            return None
        return max(fit, key=lambda result: result.output_throughput_tok_s or 0.0)


def import_results(data: bytes) -> Imported:
    """Read a result file, packed or not; whatever is no result is a note, and a cut line is told of."""
    text = _text(data)
    results: list[Result] = []
    notes: list[str] = []
    damaged: list[tuple[int, str]] = []
    others: list[tuple[int, str]] = []
    logs: dict[int, str] = {}
    prefills: dict[str, list[tuple[int, int]]] = {}
    clock = ""
    whole = _loaded(text)
    if isinstance(whole, list):  # one document of several results
        lines = [json.dumps(one) for one in whole]
    elif whole is not None and (told := translated(whole)) is not None:
        found_there = [_result(place, one) for place, one in enumerate(told, 1)]
        return Imported(tuple(found_there), warnings=tuple(_warnings(found_there)))
    else:
        lines = [json.dumps(whole)] if whole is not None and "\n" in text.strip() else text.splitlines()
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped:
            continue
        prefill = _PREFILL.search(stripped)
        if prefill:
            prefills.setdefault(prefill[1], []).append((int(prefill[2]), int(prefill[3])))
        elif stripped.startswith("{"):
            found = _loaded(stripped)
            if not isinstance(found, dict):
                damaged.append((number, stripped[:60]))
            elif not _is_result(row := own_words(found)):
                others.append((number, ", ".join(list(found)[:5])))
            else:
                logs[len(results)], clock = clock, ""
                results.append(_result(number, row))
        else:
            at = re.search(r"\blog (\d\d:\d\d)", stripped)
            clock = at[1] if at else clock
            notes.append(stripped)
    with_cache = [_with_cache(result, prefills.get(logs.get(place, ""), [])) for place, result in enumerate(results)]
    return Imported(tuple(with_cache), tuple(notes), tuple(damaged), tuple(_warnings(with_cache)), tuple(others))


def _text(data: bytes) -> str:
    """Return the text of a file as people are sent it: packed, or as Windows writes it."""
    if data[:2] == b"\x1f\x8b":
        with contextlib.suppress(OSError, EOFError, zlib.error):
            data = gzip.decompress(data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _loaded(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        found = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < LONGEST else None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, (dict, list)) else None


def _is_result(found: Mapping[str, Any]) -> bool:
    """Whether a document holds anything that was measured."""
    keys = found["keys"] if isinstance(found.get("keys"), dict) else found
    return any(name in keys for name in MEASURED) or any(_RATE.match(name) for name in keys)


def _result(line: int, found: Mapping[str, Any]) -> Result:
    keys = found["keys"] if isinstance(found.get("keys"), dict) else found
    derived: list[str] = []
    completed, requests = _whole(keys.get("completed")), _whole(keys.get("num_prompts"))
    failed = _whole(keys.get("failed"))
    if failed is None and requests is not None and completed is not None:
        failed = requests - completed
        derived.append("failed")
    total = _number(keys.get("total_token_throughput", keys.get("total_throughput")))
    output, taken = _number(keys.get("output_throughput")), _number(keys.get("input_throughput"))
    if total is None and output is not None and taken is not None:
        total = output + taken
        derived.append("total_throughput_tok_s")
    tags = {
        name: value
        for name, value in {**{k: v for k, v in found.items() if k != "keys" and keys is not found}, **keys}.items()
        if name not in _KNOWN and not _RATE.match(name) and isinstance(value, (str, int, float, bool))
        if not (isinstance(value, float) and not math.isfinite(value))
    }
    result = Result(
        line=line,
        backend=str(keys.get("backend") or keys.get("endpoint_type") or found.get("engine") or ""),
        model=str(keys.get("model_id") or ""),
        concurrency_limit=_whole(keys.get("max_concurrency")),
        request_rate=_request_rate(keys.get("request_rate")),
        unlimited="max_concurrency" in keys and keys["max_concurrency"] is None,
        input_len=_whole(keys.get("random_input_len", keys.get("input_len"))),
        output_len=_whole(keys.get("random_output_len", keys.get("output_len"))),
        seed=_whole(keys.get("seed")),
        dataset=str(keys.get("dataset_name") or ""),
        duration_s=_number(keys.get("duration")),
        requests=requests,
        completed=completed,
        failed=failed,
        input_tokens=_whole(keys.get("total_input_tokens")),
        output_tokens=_whole(keys.get("total_output_tokens")),
        output_throughput_tok_s=output,
        total_throughput_tok_s=total,
        request_throughput_req_s=_number(keys.get("request_throughput")),
        goodput_req_s=_number(keys.get("request_goodput", keys.get("request_goodput:"))),
        peak_output_tok_s=_number(keys.get("max_output_tokens_per_s")),
        accept_length=_number(keys.get("accept_length")),
        latencies=_latencies(keys),
        derived=tuple(derived),
        tags=tags,
    )
    return _judged(result, keys)


def _latencies(keys: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for name in LATENCIES:
        spelled = (name, "e2e_latency") if name == "e2el" else (name,)
        values = {
            told: _number(keys[f"{statistic}_{word}_ms"])
            for statistic, told in _STATISTICS.items()
            for word in spelled
            if f"{statistic}_{word}_ms" in keys
        }
        if values:
            found[f"{name}_ms"] = values
    return found


def _judged(result: Result, keys: Mapping[str, Any]) -> Result:
    """Take back what is no measurement, and say so."""
    wrong = [name for name in NUMBERS if keys.get(name) is not None and not _is_number(keys[name])]
    flags = [f"{name}: {str(keys[name])[:40]!r} is no number" for name in wrong]
    latencies = {name: dict(values) for name, values in result.latencies.items()}
    fit = True
    if result.completed == 0:
        flags.append(f"FAILED: none of {result.requests or result.failed or 'the'} requests completed")
        latencies, fit = {name: dict.fromkeys(values) for name, values in latencies.items()}, False
    elif result.failed:
        asked = result.requests or (result.completed or 0) + result.failed
        share = (result.completed or 0) / asked if asked else 0.0
        flags.append(f"{result.completed} of {asked} requests completed ({100 * share:.0f} %)")
        fit = fit and share >= FIT_SHARE
    if result.completed == 1:
        flags.append("one request only: its latencies are no distribution")
        fit = False
    if result.completed and result.output_tokens == 0:
        flags.append("no output tokens: TPOT is undefined")
        fit = False
    served = _whole(keys.get("total_output_tokens_by_server"))
    if served and result.output_tokens and abs(result.output_tokens - served) > (1 - FIT_SHARE) * served:
        flags.append(
            f"{result.output_tokens:,} output tokens by the client's tokenizer, {served:,} by the server's count"
        )
        fit = False
    zeros = [name for name, values in latencies.items() if any(values.get(s) == 0.0 for s in ("mean_ms", "p50_ms"))]
    for name in zeros:
        latencies[name] = dict.fromkeys(latencies[name])
    unmeasured = [name for name in zeros if name in ("ttft_ms", "itl_ms")]
    if unmeasured:
        text = "/".join(name[:-3].upper() for name in unmeasured)
        silent = keys.get("total_output_tokens_retokenized") == 0
        flags.append(f"{text} not measured" + (", no text seen" if silent else ""))
        if silent and result.output_tokens:
            flags.append("output throughput doubtful: tokens were counted, no text came")
            fit = False
    flags += _recomputed(keys, latencies)
    return replace(result, latencies=latencies, flags=tuple(flags), fit=fit)


def _recomputed(keys: Mapping[str, Any], latencies: dict[str, dict[str, float | None]]) -> list[str]:
    """Compute TTFT and TPOT anew from the requests where some have no first token's time."""
    ttfts = _numbers(keys.get("ttfts"))
    if not any(value == 0.0 for value in ttfts):
        return []
    measured = [(place, value) for place, value in enumerate(ttfts) if value]
    flag = f"TTFT missing for {len(ttfts) - len(measured)}/{len(ttfts)} requests"
    if "ttft_ms" in latencies:
        values = [1000 * value for _, value in measured]
        latencies["ttft_ms"] = dict.fromkeys(latencies["ttft_ms"])
        if values:
            latencies["ttft_ms"] |= {"mean_ms": fmean(values), "p50_ms": median(values)}
    ends, lengths = _numbers(keys.get("latencies")), _numbers(keys.get("output_lens"))
    if "tpot_ms" in latencies:
        latencies["tpot_ms"] = dict.fromkeys(latencies["tpot_ms"])
        told = [(ends[p], ttft, lengths[p]) for p, ttft in measured if p < len(ends) and p < len(lengths)]
        paces = [1000 * (end - ttft) / (count - 1) for end, ttft, count in told if end and count and count > 1]
        latencies["tpot_ms"]["mean_ms"] = fmean(paces) if paces else None
        flag += "; TTFT and TPOT are those of the others"
    return [flag]


def _with_cache(result: Result, prefills: list[tuple[int, int]]) -> Result:
    total = sum(new + cached for new, cached in prefills)
    if not total:
        return result
    share = sum(cached for _, cached in prefills) / total
    if share <= 0.05:
        return replace(result, cached_share=share)
    flag = f"ran on a warm prefix cache ({100 * share:.0f} % of prompt tokens cached)"
    return replace(result, cached_share=share, flags=(*result.flags, flag), fit=False)


def _warnings(results: list[Result]) -> list[str]:
    """Name pairs that the same seed makes suspicious."""
    found = []
    for place, result in enumerate(results):
        for earlier in results[:place]:
            same = (result.seed, result.kind, result.concurrency_limit) == (
                earlier.seed, earlier.kind, earlier.concurrency_limit)  # fmt: skip
            if same and result.seed is not None:
                found.append(
                    f"line {result.line} has the seed and data of line {earlier.line}: without a flush (/flush_cache),"
                    " another seed or a restart between them the prefix cache was warm, and they cannot be compared"
                )
                break
    return found


def _request_rate(value: object) -> float | str | None:
    if value == "inf" or value == math.inf:
        return "inf"
    return _number(value)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _numbers(values: object) -> list[float | None]:
    return [_number(value) for value in values] if isinstance(values, list) else []


def _is_number(value: object) -> bool:
    """Whether a value is a number, also one that no JSON knows: `NaN` and `inf` are a missing one."""
    try:
        return not isinstance(value, bool) and isinstance(float(value), float)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)

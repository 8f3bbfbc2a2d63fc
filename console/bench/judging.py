"""A load's result made a measurement: numbers, and the reasons why it must not be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from console.bench import metrics
from console.bench.loading import LoadPlan
from console.bench.power import PowerWindow
from console.bench.protocol import Flushed
from console.bench.steadiness import Steady, steady_stretch
from console.domain.measurement import Measurement
from console.domain.profile import LimitsSection

WARM_SHARE = 0.05
"""Share of prompt tokens from the cache beyond which it was warm: a prompt's first token may be there."""

LAG_MS = 20.0
LAG_SHARE = 0.3
"""A client that is late by less than this share of the usual gap between tokens did not make the number."""

BUSY_SHARE = 0.9

REASONS_TOLD = 3

PAUSE_S, PAUSE_SHARE = 0.5, 0.02
"""A client that once stood still for longer than both, the second a share of the window, made a number of its own."""

SILENCE_S, SILENCE_TIMES = 5.0, 3.0
"""A server that sent nothing at all for longer, and for so many times its first prefill, did not serve meanwhile."""

SEND_SHARE = 1.0
"""An open loop whose requests are later than so many of its mean gaps is no open loop."""


def measurement(
    run_id: str,
    plan: LoadPlan,
    repeat: int,
    result: Mapping[str, Any],
    *,
    limits: LimitsSection,
    power: PowerWindow,
    flushed: Flushed,
    idle: str,
    retracted: float | None,
) -> Measurement:
    """Return a result as a measurement.

    Args:
        run_id: The run that was measured.
        plan: What was asked.
        repeat: 0 for the first.
        result: What the load program said.
        limits: For goodput.
        power: Of the same window.
        flushed: What the engine said to the flush.
        idle: Why the engine was not idle before; empty when it was.
        retracted: Retractions during the load; `None` when nobody counts them.
    """
    requests = metrics.requests_of(result)
    duration_s = float(result["duration_s"])
    output = sum(request.output_tokens for request in requests)
    cached = _sum([request.cached_tokens for request in requests])
    told_input = _sum([request.input_tokens for request in requests])
    sure = duration_s > 0 and bool(requests)
    return Measurement(
        run_id=run_id,
        concurrency_limit=plan.concurrency,
        repeat=repeat,
        started_at=float(result["began"]),
        duration_s=duration_s,
        requests=int(result["requests"]),
        completed=len(requests),
        failed=int(result["failed"]),
        input_tokens=told_input if told_input is not None else plan.input_tokens * len(requests),
        output_tokens=output,
        output_throughput_tok_s=output / duration_s if sure else None,
        request_throughput_req_s=len(requests) / duration_s if sure else None,
        ttft_ms=metrics.percentiles(request.ttft_s for request in requests),
        itl_ms=metrics.told_percentiles(result["itl"]),
        tpot_ms=metrics.percentiles(request.tpot_s for request in requests),
        e2el_ms=metrics.percentiles(request.e2el_s for request in requests),
        goodput_req_s=metrics.goodput(requests, limits, duration_s),
        peak_concurrency=int(result["peak_concurrency"]),
        power_mean_w=power.mean_w,
        power_peak_w=power.peak_w,
        energy_j_per_token=power.energy_j / output if power.energy_j is not None and output else None,
        cached_tokens=cached,
        request_rate_req_s=plan.rate,
        send_lag_p99_ms=_ms((result.get("send_lag") or {}).get("p99_s")),
        steady_tok_s=(steady := _steady(plan, result, requests)).tok_s,
        tainted=tuple(_taints(plan, result, flushed, idle, retracted, cached, told_input)),
        protocol=_protocol(plan, result, flushed, idle, retracted, power, steady),
    )


def _steady(plan: LoadPlan, result: Mapping[str, Any], requests: Sequence[metrics.Request]) -> Steady:
    at_once = min(plan.concurrency, int(result["requests"]))
    usual_s = median([request.e2el_s for request in requests]) if requests else 0.0
    return steady_stretch(result.get("course") or {}, at_once, plan.rate is None, usual_s)


def _protocol(
    plan: LoadPlan,
    result: Mapping[str, Any],
    flushed: Flushed,
    idle: str,
    retracted: float | None,
    power: PowerWindow,
    steady: Steady,
) -> dict[str, object]:
    """Return how it was measured: what two measurements must share to be compared, and what made them doubtful."""
    return {
        "flushed": flushed.done,
        "flush_answer": flushed.answer,
        "idle_before": not idle,
        "warmup_requests": plan.warmup,
        "input_tokens": plan.input_tokens,
        "output_tokens": plan.output_tokens,
        "ignore_eos": plan.ignore_eos,
        "input_spread": plan.input_spread,
        "output_spread": plan.output_spread,
        "loop": "closed" if plan.rate is None else "open",
        "request_rate_req_s": plan.rate,
        "arrival": None if plan.rate is None else plan.arrival,
        "steady": steady.data(),
        "seed": plan.seed,
        "token_range": list(plan.token_range),
        "api": plan.api,
        "power_samples": power.samples,
        "energy_from": power.energy_from,
        "client_lag_p99_ms": _ms(result["lag"].get("p99_s")),
        "client_processor_share": round(float(result["processor_share"]), 3),
        "client_lag_max_ms": _ms(result["lag"].get("max_s")),
        "longest_silence_s": round(float(result["silence_s"]), 3),
        "unsent": result["unsent"],
        "retracted": retracted,
        "errors": dict(result["errors"]),
    }


def _taints(
    plan: LoadPlan,
    result: Mapping[str, Any],
    flushed: Flushed,
    idle: str,
    retracted: float | None,
    cached: int | None,
    told_input: int | None,
) -> Sequence[str]:
    found = [*_failures(result)]
    if idle:
        found.append(idle)
    if not flushed.done and (cached is None or not told_input):  # counts of cached tokens prove more than a flush
        found.append(f"prefix cache not flushed ({flushed.answer})")
    if cached and told_input and cached / told_input > WARM_SHARE:
        found.append(f"warm prefix cache: {cached:,} of {told_input:,} prompt tokens came from it")
    if retracted:
        found.append(f"{retracted:.0f} retractions or preemptions")
    if result["wrong_length"]:
        found.append(_lengths(plan, result))
    if not result["told"]:
        found.append("the server told no token counts: events were counted instead")
    late = _ms((result.get("send_lag") or {}).get("p99_s"))
    if late is not None and late > max(LAG_MS, 1000 * SEND_SHARE / (plan.rate or 1.0)):
        found.append(
            f"requests were sent late: p99 {late:,.0f} ms after they were due, at most {plan.concurrency} in flight"
        )
    found += _stalls(result)
    lag, gap = _ms(result["lag"].get("p99_s")), _ms(result["itl"].get("p50_s"))
    if lag is not None and lag > max(LAG_MS, LAG_SHARE * (gap or 0.0)):
        found.append(f"the client was late: event loop lag p99 {lag:.0f} ms")
    if float(result["processor_share"]) > BUSY_SHARE:
        found.append(f"the client was the limit: it used {100 * float(result['processor_share']):.0f} % of a core")
    return found


def _failures(result: Mapping[str, Any]) -> Sequence[str]:
    """Return what failed, the reasons as they came first, and what was not sent after that."""
    if not result["failed"]:
        return ()
    errors: Mapping[str, int] = result["errors"]
    reasons = list(errors) if len(errors) == 1 else [f"{count:,} × {reason}" for reason, count in errors.items()]
    if len(reasons) > REASONS_TOLD:
        reasons[REASONS_TOLD:] = [
            f"{len(reasons) - REASONS_TOLD} more {'kind' if len(reasons) == REASONS_TOLD + 1 else 'kinds'}"
        ]
    unsent = f"; {result['unsent']:,} {_were(result['unsent'])} never sent" if result["unsent"] else ""
    return (f"{result['failed']:,} of {result['requests']:,} requests failed: {', '.join(reasons)}{unsent}",)


def _lengths(plan: LoadPlan, result: Mapping[str, Any]) -> str:
    wanted = "to their own length" if plan.output_spread else f"{plan.output_tokens:,} tokens"
    reasons = result["wrong_reasons"]
    why = [
        f"{reasons[word]:,} {said}"
        for word, said in (
            ("stop", "ended at a stop token, so ignore_eos was not heeded"),
            ("length", f"{_were(reasons.get('length', 0))} cut at a limit of the server's"),
        )
        if reasons.get(word)
    ]
    return f"{result['wrong_length']:,} answers did not have {wanted}" + (f": {', '.join(why)}" if why else "")


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _stalls(result: Mapping[str, Any]) -> Sequence[str]:
    """Return who stood still in the window: the client, else the server."""
    paused_s, silent_s = float(result["lag"].get("max_s") or 0.0), float(result["silence_s"])
    if paused_s > max(PAUSE_S, PAUSE_SHARE * float(result["duration_s"])):
        return (f"the client stood still for {paused_s:.1f} s, or the whole host did",)
    if silent_s > max(SILENCE_S, SILENCE_TIMES * float(result["silence_begin_s"] or 0.0)):
        return (f"the server sent nothing for {silent_s:.1f} s while requests were in flight",)
    return ()


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _ms(value: float | None) -> float | None:
    return None if value is None else round(1000 * float(value), 2)

"""A phase of load as plain data: sums, a row for each completed request, and its course over time."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any, Dict, List, Optional

from .answers import Answer
from .phase import Phase
from .requests import Plan

BINS = 240
BIN_S = 0.25
"""The course has bins of so many seconds; wider ones when there would be more than `BINS`."""


def result(phase: Phase, plan: Plan) -> Dict[str, Any]:
    """Return what a phase came to."""
    good = [answer for answer in phase.answers if not answer.error]
    wrong = [answer for answer in good if answer.output_tokens != answer.asked] if plan.ignore_eos else []
    gaps = array("d")
    rows = []
    for answer in good:
        stamps = answer.stamps
        own = [stamps[place] - stamps[place - 1] for place in range(1, len(stamps))]
        gaps.extend(own)
        rows.append(
            [
                round(answer.sent_at - phase.began, 6),
                round(stamps[0] - answer.sent_at, 6),
                round(stamps[-1] - answer.sent_at, 6),
                answer.output_tokens,
                round(sum(own) / len(own), 6) if own else None,
                answer.input_tokens,
                answer.cached,
            ]
        )
    return {
        "requests": phase.count,
        "completed": len(good),
        "failed": phase.failed,
        "unsent": phase.count - len(phase.answers),
        "errors": phase.errors,
        "gave_up": phase.gave_up,
        "duration_s": phase.ended - phase.began,
        "began": phase.began_wall,
        "ended": phase.began_wall + (phase.ended - phase.began),
        "peak_concurrency": phase.peak,
        "columns": ["sent_s", "ttft_s", "e2el_s", "output_tokens", "mean_itl_s", "input_tokens", "cached_tokens"],
        "rows": rows,
        "itl": distribution(gaps),
        "lag": distribution(phase.lags),
        "send_lag": distribution(array("d", (answer.sent_at - answer.due_at for answer in phase.answers)))
        if phase.is_open
        else None,
        "course": course(phase, good),
        "processor_share": phase.processor_s / max(1e-9, phase.ended - phase.began),
        "told": all(answer.told for answer in good),
        "wrong_length": len(wrong),
        "wrong_reasons": dict(Counter(answer.reason for answer in wrong)),
        "silence_begin_s": phase.silence_begin_s,
        "silence_s": phase.silence_s,
    }


def course(phase: Phase, good: List[Answer]) -> Dict[str, Any]:
    """Return output tokens and requests in flight, bin by bin: what tells a steady stretch from ramps."""
    lasted = max(1e-9, phase.ended - phase.began)
    wide = max(BIN_S, lasted / BINS)
    count = int(lasted / wide) + 1
    tokens, busy = [0.0] * count, [0.0] * count
    for answer in good:
        scale = answer.output_tokens / len(answer.stamps)
        for stamp in answer.stamps:
            tokens[min(count - 1, int((stamp - phase.began) / wide))] += scale
        began, ended = answer.sent_at - phase.began, answer.stamps[-1] - phase.began
        for place in range(int(began / wide), min(count - 1, int(ended / wide)) + 1):
            busy[place] += max(0.0, min(ended, (place + 1) * wide) - max(began, place * wide)) / wide
    return {
        "bin_s": round(wide, 4),
        "tokens": [round(value, 1) for value in tokens],
        "running": [round(value, 2) for value in busy],
    }


def distribution(values: "array[float]") -> Dict[str, Optional[float]]:
    """Return count, sum, percentiles and maximum of times in seconds."""
    ordered = sorted(values)
    found: Dict[str, Optional[float]] = {"count": len(ordered), "sum_s": sum(ordered)}
    for name, share in (("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99)):
        found[name] = _quantile(ordered, share) if ordered else None
    found["max_s"] = ordered[-1] if ordered else None
    return found


def _quantile(ordered: List[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

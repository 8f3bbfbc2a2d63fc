"""The saturation knee of a ladder: the concurrency beyond which more streams bring waiting instead of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from console.domain.measurement import Measurement

LEAST_GAIN = 0.10
"""Gain of output tok/s for twice the streams below which a server is called saturated."""


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a ladder saturates."""

    concurrency: int
    output_throughput_tok_s: float


def knee(measurements: Iterable[Measurement]) -> Knee | None:
    """Return the first rung whose next ones gain less than a tenth for twice the streams; `None` when none does.

    Repeats of a rung are averaged; tainted measurements and open loops are left out. The last rung can be no
    knee: nothing beyond it was measured.
    """
    rungs: dict[int, list[float]] = {}
    for one in measurements:
        if not one.tainted and one.output_throughput_tok_s and one.request_rate_req_s is None:
            rungs.setdefault(one.concurrency_limit, []).append(one.output_throughput_tok_s)
    ladder = [(concurrency, fmean(values)) for concurrency, values in sorted(rungs.items())]
    for place, (concurrency, speed) in enumerate(ladder[:-1]):
        if all(
            other < speed * (1 + LEAST_GAIN) ** _doublings(concurrency, more) for more, other in ladder[place + 1 :]
        ):
            return Knee(concurrency, speed)
    return None


def _doublings(concurrency: int, more: int) -> float:
    doublings, reached = 0.0, float(concurrency)
    while reached * 2 <= more:
        doublings, reached = doublings + 1, reached * 2
    return doublings + (more / reached - 1)

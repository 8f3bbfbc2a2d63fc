"""Which part of a load was steady: every stream busy and the speed without drift or swing, or none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, stdev
from typing import Any

BUSY_SHARE = 0.95
"""Share of the streams that must be in flight: below it the load is ramping up or running out."""

LEAST_BINS = 8
LEAST_S = 3.0
"""A shorter stretch says nothing about a trend."""

LEAST_BLOCKS = 4
BLOCK_S = 1.0
"""The speed is looked at in blocks of a request's length, and of no less: what returns with each wave of requests,
a prefill of all of them at once, is in every block."""

MOST_DRIFT = 0.10
"""Change from the begin of the stretch to its end, by a straight line through its blocks, as a share of its mean."""

MOST_SWING = 0.10
"""Standard deviation of the blocks, as a share of their mean."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady stretch of a load, in seconds after its begin; or why there is none."""

    from_s: float | None = None
    to_s: float | None = None
    tok_s: float | None = None
    reason: str = ""

    def data(self) -> dict[str, Any]:
        """Return it for the protocol of a measurement."""
        if self.reason:
            return {"reason": self.reason}
        return {"from_s": self.from_s, "to_s": self.to_s, "tok_s": self.tok_s}


def steady_stretch(course: Mapping[str, Any], streams: int, closed: bool = True, request_s: float = 0.0) -> Steady:
    """Return the longest steady stretch of a load's course.

    Args:
        course: `bin_s`, and for each bin `tokens` and `running`.
        streams: How many requests are in flight when the load is whole.
        closed: Whether the load is a closed loop; an open one is whole from its first answer to its last arrival.
        request_s: How long a request usually takes.
    """
    wide = float(course.get("bin_s") or 0.0)
    tokens, running = list(course.get("tokens") or ()), list(course.get("running") or ())
    if not wide or not tokens:
        return Steady(reason="the course of the load is not known")
    least = BUSY_SHARE * streams if closed else 0.5 * fmean(running)
    first, last = _longest([busy >= least for busy in running])
    first, last = first + 1, last - 1  # what is half inside belongs to the ramps
    count = last - first
    if count < LEAST_BINS or count * wide < LEAST_S:
        lasted = max(0.0, count * wide)
        return Steady(reason=f"none: all {streams} streams were busy for {lasted:.1f} s only")
    mean = fmean(tokens[first:last])
    speeds = [speed / wide for speed in _blocks(tokens[first:last], max(BLOCK_S, request_s) / wide)]
    if not mean or not fmean(speeds):
        return Steady(reason="none: no tokens came")
    why = _unsteady(speeds)
    if why:
        return Steady(reason=f"none: the speed {why}")
    return Steady(round(first * wide, 3), round(last * wide, 3), round(mean / wide, 2))


def _blocks(values: Sequence[float], wanted: float) -> list[float]:
    """Return the means of blocks of about the wanted number of values, and of at least `LEAST_BLOCKS` blocks."""
    count = max(LEAST_BLOCKS, int(len(values) / max(1.0, wanted)))
    edges = [round(place * len(values) / count) for place in range(count + 1)]
    return [fmean(values[begin:end]) for begin, end in itertools.pairwise(edges)]


def _unsteady(speeds: Sequence[float]) -> str:
    """Return what the speeds of the blocks did that a steady one does not; empty when nothing."""
    slope, mean = linear_regression(range(len(speeds)), speeds).slope, fmean(speeds)
    drift, swing = slope * len(speeds) / mean, stdev(speeds) / mean
    by_drift = abs(drift) / math.sqrt(12)  # the swing of a straight line
    if swing > MOST_SWING and swing > 2 * by_drift:
        return f"went up and down between {min(speeds):,.0f} and {max(speeds):,.0f} tok/s"
    if abs(drift) > MOST_DRIFT:
        return f"{'rose' if drift > 0 else 'fell'} by {abs(drift):.0%} from begin to end"
    return ""


def _longest(whole: Sequence[bool]) -> tuple[int, int]:
    """Return begin and end of the longest run of true values; (0, 0) when there is none."""
    best, began = (0, 0), 0
    for place, value in enumerate([*whole, False]):
        if not value:
            if place - began > best[1] - best[0]:
                best = (began, place)
            began = place + 1
    return best

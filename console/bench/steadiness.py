"""Which part of a load was steady: every stream busy and the speed without a trend, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

BUSY_SHARE = 0.95
"""Share of the streams that must be in flight: below it the load is ramping up or running out."""

LEAST_BINS = 8
LEAST_S = 3.0
"""A shorter stretch says nothing about a trend."""

MOST_TREND = 0.10
"""Change from the first half of the stretch to the second, as a share of its mean, that counts as steady."""


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


def steady_stretch(course: Mapping[str, Any], streams: int, closed: bool = True) -> Steady:
    """Return the longest steady stretch of a load's course.

    Args:
        course: `bin_s`, and for each bin `tokens` and `running`.
        streams: How many requests are in flight when the load is whole.
        closed: Whether the load is a closed loop; an open one is whole from its first answer to its last arrival.
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
    speeds = tokens[first:last]
    mean = fmean(speeds)
    half = len(speeds) // 2
    trend = (fmean(speeds[-half:]) - fmean(speeds[:half])) / mean if mean else 0.0
    if not mean or abs(trend) > MOST_TREND:
        return Steady(reason=f"none: the speed went {trend:+.0%} from its first half to its second" if mean else "none")
    return Steady(round(first * wide, 3), round(last * wide, 3), round(mean / wide, 2))


def _longest(whole: Sequence[bool]) -> tuple[int, int]:
    """Return begin and end of the longest run of true values; (0, 0) when there is none."""
    best, began = (0, 0), 0
    for place, value in enumerate([*whole, False]):
        if not value:
            if place - began > best[1] - best[0]:
                best = (began, place)
            began = place + 1
    return best

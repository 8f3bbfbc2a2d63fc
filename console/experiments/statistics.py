"""Paired ratios: the interval, what it can find, how many more pairs would settle it, and when to stop early.

A pair is one measurement of each side, close in time and with the same seed; what is judged is the mean of the logs
of their ratios. Student's t is computed here: its tail is a regularised incomplete beta function, evaluated by the
continued fraction of Abramowitz and Stegun 26.5.8, which converges to 1e-12 in some dozen steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, stdev

from console.experiments.sharing import Launches, launches_of, sharing, spread

CONFIDENCE = 0.95
LEAST_PAIRS = 3
"""Fewer give no interval: with one degree of freedom its width would say nothing."""

MOST_PAIRS = 200
"""Beyond this no number of pairs is promised to settle anything."""

POWER = 0.8
EARLY_SHARE = 0.1
"""Part of the allowed error that all looks before the last one may spend together."""

FUTILE = 0.05
"""Chance of clearing at the end below which going on is idle."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio with its bounds; 1.0 is no difference."""

    ratio: float
    low: float
    high: float
    pairs: int
    sd_log: float
    """Scatter of the logs of the single ratios."""
    confidence: float = CONFIDENCE
    widening: float = 1.0
    """Factor on its half width for the launches that pairs share."""
    freedom: float = 0.0
    """Degrees of freedom that it was drawn with."""

    @property
    def clear(self) -> bool:
        """Whether it leaves out that there is no difference."""
        return not self.low <= 1.0 <= self.high

    @property
    def change_pct(self) -> float:
        """The change, in percent."""
        return 100 * (self.ratio - 1)

    @property
    def low_pct(self) -> float:
        """Lower bound of the change, in percent."""
        return 100 * (self.low - 1)

    @property
    def high_pct(self) -> float:
        """Upper bound of the change, in percent."""
        return 100 * (self.high - 1)


def t_tail(t: float, freedom: float) -> float:
    """Return the chance that Student's t exceeds `t`."""
    if t < 0:
        return 1 - t_tail(-t, freedom)
    return 0.5 * _beta_share(freedom / 2, 0.5, freedom / (freedom + t * t))


@cache
def t_quantile(level: float, freedom: float) -> float:
    """Return the value that Student's t stays below with the chance `level`.

    Args:
        level: Between 0 and 1.
        freedom: Degrees of freedom, 1 or more, whole or not.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"no quantile of t at level {level} with {freedom} degrees of freedom")
    if level < 0.5:
        return -t_quantile(1 - level, freedom)
    low, high = 0.0, 2.0
    while t_tail(high, freedom) > 1 - level:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_tail(middle, freedom) > 1 - level else (low, middle)
    return (low + high) / 2


def interval(
    base: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE, launches: Launches = ()
) -> Interval | None:
    """Return the paired t interval of arm over base; `None` with fewer than three pairs, or pairs of launches.

    Args:
        base: One positive value a pair.
        arm: The other side of each pair, in the same order.
        confidence: Of the interval.
        launches: The two launches of each pair; empty where each measurement has its own.
    """
    logs = [math.log(b / a) for a, b in zip(base, arm, strict=True)]
    shared = sharing(launches_of(launches, len(logs)))
    if min(len(logs), shared.distinct) < LEAST_PAIRS:
        return None
    mean, sd = fmean(logs), stdev(logs)
    half = half_width(sd, len(logs), 0.5 + confidence / 2, shared.widening, shared.freedom)
    bounds = math.exp(mean - half), math.exp(mean + half)
    return Interval(math.exp(mean), *bounds, len(logs), sd, confidence, shared.widening, shared.freedom)


def half_width(sd_log: float, pairs: int, level: float, widening: float = 1.0, freedom: float = 0.0) -> float:
    """Return how far an interval reaches to either side of its mean, on the log."""
    return t_quantile(level, freedom or pairs - 1) * widening * sd_log / math.sqrt(pairs)


def unpaired(base: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return Welch's t interval of arm over base on the logs; `None` with fewer than three values on a side.

    For measurements that share neither time nor prompts: a winner's own numbers beside those of another day.

    Args:
        base: Positive values.
        arm: Positive values, however many.
        confidence: Of the interval.
    """
    if min(len(base), len(arm)) < LEAST_PAIRS:
        return None
    sides = [[math.log(value) for value in side] for side in (base, arm)]
    parts = [stdev(side) ** 2 / len(side) for side in sides]
    mean, spread = fmean(sides[1]) - fmean(sides[0]), sum(parts)
    if not spread:
        return Interval(math.exp(mean), math.exp(mean), math.exp(mean), min(map(len, sides)), 0.0, confidence)
    freedom = spread**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    half = t_quantile(0.5 + confidence / 2, max(1, int(freedom))) * math.sqrt(spread)
    bounds = math.exp(mean - half), math.exp(mean + half)
    return Interval(math.exp(mean), *bounds, min(map(len, sides)), math.sqrt(spread), confidence)


def power(
    effect: float,
    sd_log: float,
    pairs: int,
    *,
    confidence: float = CONFIDENCE,
    launches: Launches = (),
    between: float = 1.0,
) -> float:
    """Return the chance that an interval over so many pairs clears zero on the side of the effect.

    Args:
        effect: Log of the true ratio.
        sd_log: True scatter of the logs of single ratios.
        pairs: How many.
        confidence: Of the interval.
        launches: The two launches of each pair; empty where each measurement has its own.
        between: True share of launches in the variance of a measurement.
    """
    shared = sharing(launches_of(launches, pairs))
    if min(pairs, shared.distinct) < LEAST_PAIRS:
        return 0.0
    if sd_log <= 0:
        return 1.0 if effect else 0.0
    true = spread(launches_of(launches, pairs), between)
    critical = t_quantile(0.5 + confidence / 2, shared.freedom) * shared.widening * math.sqrt(true.seen / true.mean)
    shift = abs(effect) / sd_log * math.sqrt(pairs / true.mean)
    return _mean_over_scatter(lambda scatter: _NORMAL.cdf(shift - critical * scatter), true.freedom)


def detectable(
    sd_log: float, pairs: int, *, chance: float = POWER, launches: Launches = (), between: float = 1.0
) -> float | None:
    """Return the smallest change in percent that is found with the given chance; `None` when no interval is made.

    Args:
        sd_log: True scatter of the logs of single ratios.
        pairs: How many.
        chance: Of finding it.
        launches: The two launches of each pair; empty where each measurement has its own.
        between: True share of launches in the variance of a measurement.
    """

    def found(effect: float) -> float:
        return power(effect, sd_log, pairs, launches=launches, between=between)

    if min(pairs, sharing(launches_of(launches, pairs)).distinct) < LEAST_PAIRS:
        return None
    if sd_log <= 0:
        return 0.0
    low, high = 0.0, sd_log
    while found(high) < chance:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) >= chance else (middle, high)
    return 100 * (math.exp(high) - 1)


def pairs_to_settle(effect: float, sd_log: float, *, least: int = LEAST_PAIRS) -> int | None:
    """Return how many pairs in all would probably settle an effect of this size; `None` when too many."""
    if sd_log <= 0:
        return least if effect else None
    if power(effect, sd_log, MOST_PAIRS) < POWER:
        return None
    low, high = LEAST_PAIRS - 1, MOST_PAIRS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, sd_log, middle) >= POWER else (middle, high)
    return max(high, least)


def look_confidence(pairs: int, most: int, *, early: bool) -> float:
    """Return the confidence that the interval is drawn with at a look.

    All looks before the last share a tenth of the 5 %, and the last one has the rest: by the union bound an
    experiment without any effect is decided wrongly in at most 5 % of cases however often it is looked at.
    """
    looks = most - LEAST_PAIRS
    if not early or looks < 1:
        return CONFIDENCE
    spent = EARLY_SHARE * (1 - CONFIDENCE)
    return 1 - spent / looks if pairs < most else CONFIDENCE + spent


def futile(mean: float, sd_log: float, pairs: int, most: int) -> bool:
    """Whether going on to `most` pairs will hardly clear, if what was seen so far is how it is."""
    left = most - pairs
    if pairs < LEAST_PAIRS or left < 1 or 2 * pairs < most or sd_log <= 0:
        return False
    confidence = look_confidence(most, most, early=True)
    half = t_quantile(0.5 + confidence / 2, most - 1) * sd_log / math.sqrt(most)
    scatter = sd_log * math.sqrt(left) / most
    return _NORMAL.cdf((abs(mean) - half) / scatter) < FUTILE


def _mean_over_scatter(value: Callable[[float], float], freedom: float) -> float:
    """Return the mean of a function of the sample's scatter (true scatter 1), by Simpson's rule."""
    top = 1 + 8 / math.sqrt(2 * freedom)
    steps = 400
    log_scale = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    total = 0.0
    for step in range(1, steps + 1):
        at = top * step / steps
        density = math.exp(log_scale + (freedom - 1) * math.log(at) - freedom * at * at / 2)
        weight = 1 if step == steps else 4 if step % 2 else 2
        total += weight * density * value(at)
    if freedom == 1:
        total += math.exp(log_scale) * value(0.0)
    return total * top / steps / 3


def _beta_share(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    found = d
    for m in range(1, 400):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            c = 1 + numerator / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            change = c * d
            found *= change
        if abs(change - 1) < 1e-14:
            break
    return found

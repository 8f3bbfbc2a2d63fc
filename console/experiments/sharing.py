"""Pairs that share launches: how much less they tell than as many pairs with launches of their own.

Every launch is worth a little more or less than the next one of the same arguments (placement, autotuning, ports of a
fabric). In the order AB BA AB neighbouring pairs share a launch, so that half of that luck is common to both: taken as
independent, five such pairs call an arm that is the base a winner in 8 % of cases, not in 2.5 %.

The mean over the pairs stays as it is (in that order a drift cancels in it); the interval around it is made wide enough
for the worst case, in which all scatter is that of launches. Pairs i and j then have the covariance of the launches that
they share; from it follow exactly what the variance of the mean is beside the scatter that is seen, and by
Satterthwaite how many degrees of freedom that scatter has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

Launches = Sequence[tuple[str, str]]
"""Of each pair: the launch of the base's side, and of the arm's; an unknown one, empty, is its own."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What of the variance of single pairs is in their mean, and what can be seen of it."""

    mean: float
    """Variance of the mean times the number of pairs, over the variance of a pair: 1 where pairs are independent."""
    seen: float
    """Share of the variance of a pair that the scatter among them shows."""
    freedom: float
    """Degrees of freedom of that scatter."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How far pairs are from having launches of their own."""

    pairs: int
    base: int
    """Launches on the base's side."""
    arm: int
    distinct: int
    """Different pairs of launches; pairs within one and the same are one."""
    widening: float = 1.0
    """Factor on the half width of an interval."""
    freedom: float = 0.0

    @property
    def apart(self) -> bool:
        """Whether every measurement has a launch of its own."""
        return self.base == self.arm == self.pairs

    @property
    def words(self) -> str:
        """`3 + 2 launches`: those of the base and those of the arm."""
        return f"{self.base} + {self.arm} launches"


def launches_of(launches: Launches, pairs: int) -> Launches:
    """Return the launches of so many pairs: where none are told, each measurement has its own."""
    return launches or [("", "")] * pairs


def sharing(launches: Launches) -> Sharing:
    """Return how far these pairs are from having launches of their own."""
    return _sharing(numbered(launches))


def spread(launches: Launches, share: float = 1.0) -> Spread:
    """Return what pairs tell where `share` of the variance of a measurement is that of its launch."""
    return _spread(numbered(launches), share)


def numbered(launches: Launches) -> tuple[tuple[int, int], ...]:
    """Return the launches numbered, so that alike patterns are computed once."""
    known: tuple[dict[str, int], dict[str, int]] = ({}, {})
    return tuple(
        (_number(known[0], base or f"\0{place}"), _number(known[1], arm or f"\0{place}"))
        for place, (base, arm) in enumerate(launches)
    )


def _number(known: dict[str, int], launch: str) -> int:
    return known.setdefault(launch, len(known))


@lru_cache(maxsize=256)
def _sharing(launches: tuple[tuple[int, int], ...]) -> Sharing:
    count = len(launches)
    sides = len({base for base, _ in launches}), len({arm for _, arm in launches})
    found = Sharing(count, *sides, len(set(launches)), freedom=float(max(0, count - 1)))
    if count < 2 or found.apart:
        return found
    told = _spread(launches, 1.0)
    if told.freedom <= 0:
        return Sharing(count, *sides, found.distinct)
    return Sharing(count, *sides, found.distinct, max(1.0, (told.mean / told.seen) ** 0.5), told.freedom)


@lru_cache(maxsize=256)
def _spread(launches: tuple[tuple[int, int], ...], share: float) -> Spread:
    count = len(launches)
    rows = [
        [
            1.0 if i == j else share * ((one[0] == other[0]) + (one[1] == other[1])) / 2
            for j, other in enumerate(launches)
        ]
        for i, one in enumerate(launches)
    ]
    means = [sum(row) / count for row in rows]
    mean = sum(means)
    about = [[value - middle for value, middle in zip(row, means, strict=True)] for row in rows]
    trace = count - mean
    square = sum(about[i][j] * about[j][i] for i in range(count) for j in range(count))
    if trace < 1e-9 or square < 1e-9:
        return Spread(mean, 0.0, 0.0)
    return Spread(mean, trace / (count - 1), trace * trace / square)

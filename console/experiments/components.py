"""What differs between equal measurements: repeats within one launch, and one launch from the next.

A one-way analysis of variance on the logs, the launches its groups: what repeats of one launch differ by is taken off
what the means of launches differ by. An arm that needs a restart pays for both; a second look at a server that is left
alone for the first alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

LEAST_FREEDOM = 2
"""Degrees of freedom below which a scatter is too vague to be told from another one."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Standard deviations of the log of equal measurements."""

    within: float | None
    """Between repeats of one launch; `None` where too few were measured twice."""
    between: float | None
    """Between launches, that of repeats taken off; `None` where one thing was launched once, or repeats are unknown."""
    single: float | None
    """Of a measurement with a launch of its own, both together; `None` where only one launch is known."""
    measurements: int = 0
    """That say something: with another one of the same launch, or of the same thing."""
    launches: int = 0
    share: float | None = None
    """Of launches in the variance of a measurement; `None` where too few launches, or repeats, are known to tell."""


def scatter(things: Iterable[Mapping[str, Sequence[float]]]) -> Scatter | None:
    """Return how equal measurements scatter; `None` where nothing was measured twice.

    Args:
        things: Of each thing its launches, of each launch its measurements; levels differ from thing to thing.
    """
    inner = outer = weight = 0.0
    inner_freedom = outer_freedom = measurements = launches = 0
    for thing in things:
        groups = [[math.log(value) for value in values if value > 0] for values in thing.values()]
        groups = [group for group in groups if group]
        count = sum(map(len, groups))
        if count < 2:
            continue
        inner += sum((value - fmean(group)) ** 2 for group in groups for value in group)
        inner_freedom += count - len(groups)
        measurements, launches = measurements + count, launches + len(groups)
        if len(groups) > 1:
            middle = fmean(value for group in groups for value in group)
            outer += sum(len(group) * (fmean(group) - middle) ** 2 for group in groups)
            outer_freedom += len(groups) - 1
            weight += count - sum(len(group) ** 2 for group in groups) / count
    if not inner_freedom and not outer_freedom:
        return None
    if not outer_freedom:
        return Scatter(math.sqrt(inner / inner_freedom), None, None, measurements, launches)
    pooled = (inner + outer) / (inner_freedom + outer_freedom)
    if inner_freedom < LEAST_FREEDOM:
        return Scatter(None, None, math.sqrt(pooled), measurements, launches)
    within = inner / inner_freedom
    between = (outer - outer_freedom * within) / weight
    if between <= 0:  # launches differ by no more than repeats do: all of it tells of repeats
        within, between = pooled, 0.0
    whole = within + between
    share = between / whole if whole else 0.0
    known = share if outer_freedom >= LEAST_FREEDOM else None
    return Scatter(math.sqrt(within), math.sqrt(between), math.sqrt(whole), measurements, launches, known)

"""Latencies of the last half minute, from the differences of an engine's own histograms.

A histogram tells in which bucket a request fell, not where in it: percentiles are interpolated between the bounds
and no better than these. What began before we looked is not counted.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping

from console.domain.measurement import ENOUGH, Percentiles
from console.telemetry import metrics

WINDOW_S = 30.0

Buckets = Mapping[float, float]
"""Cumulative counts by upper bound in seconds."""


def buckets_of(series: Iterable[metrics.Series], names: Iterable[str]) -> dict[float, float]:
    """Return a histogram, data-parallel ranks summed; empty when no engine has it."""
    known = list(series)
    for name in names:
        for engine in metrics.WITH_HISTOGRAMS:
            own = [one for one in known if one.name == f"{engine}:{name}_bucket"]
            bounds = {one.labels["le"] for one in own if "le" in one.labels}
            if bounds:
                return {_bound(le): metrics.total(own, f"{engine}:{name}_bucket", le=le) or 0.0 for le in bounds}
    return {}


def percentiles(before: Buckets, after: Buckets) -> Percentiles:
    """Return the distribution of what came between two looks, in ms; nothing when the server began anew."""
    bounds = sorted(after)
    counts = [after[bound] - before.get(bound, 0.0) for bound in bounds]
    whole = counts[-1] if counts else 0.0
    if whole <= 0 or any(later < earlier for earlier, later in itertools.pairwise(counts)) or counts[0] < 0:
        return Percentiles(0)
    found = {share: _at(bounds, counts, share * whole) if whole >= enough else None for share, enough in ENOUGH.items()}
    return Percentiles(round(whole), None, found[0.5], found[0.9], found[0.99])


def _at(bounds: list[float], counts: list[float], rank: float) -> float | None:
    """Return the latency in ms below which `rank` of the counted lie; unknown beyond the last bound."""
    low, below = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if count >= rank:
            if math.isinf(bound):
                return None
            share = (rank - below) / (count - below) if count > below else 1.0
            return 1000 * (low + share * (bound - low))
        low, below = bound, count
    return None


def _bound(le: str) -> float:
    try:
        return float(le)
    except ValueError:
        return math.inf


class Latencies:
    """Keeps the histograms of the window."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, dict[str, dict[float, float]]]] = deque()

    def step(self, time: float, series: Iterable[metrics.Series]) -> dict[str, Percentiles]:
        """Take a scrape; return what the window saw, without the words that nothing was seen of."""
        known = [one for one in series if one.name in metrics.BUCKETS]
        now = {word: buckets_of(known, names) for word, names in metrics.HISTOGRAMS.items()}
        if self._kept and _fewer(self._kept[-1][1], now):
            self._kept.clear()  # the server was started anew
        self._kept.append((time, now))
        while len(self._kept) > 2 and time - self._kept[1][0] >= WINDOW_S:
            self._kept.popleft()
        first = self._kept[0][1]
        found = {word: percentiles(first[word], now[word]) for word in metrics.HISTOGRAMS if first[word] and now[word]}
        return {word: one for word, one in found.items() if one.count}


def _fewer(before: Mapping[str, Buckets], after: Mapping[str, Buckets]) -> bool:
    return any(after[word].get(math.inf, 0.0) < count.get(math.inf, 0.0) for word, count in before.items())

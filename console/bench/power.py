"""GPU samples cut to a window: mean and peak watts, joules per token."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console.domain.gpu import GpuSample
from console.telemetry.joined import counted_w


@dataclass(frozen=True, slots=True)
class PowerWindow:
    """Power over the time of a measurement, summed over the GPUs."""

    mean_w: float | None = None
    peak_w: float | None = None
    samples: int = 0
    energy_j: float | None = None
    energy_from: str = ""
    """`counter`: what the GPUs' energy counters moved, carried over the window; `power`: its mean watts times its length."""


def power_between(samples: Iterable[GpuSample], began: float, ended: float) -> PowerWindow:
    """Return the power between two moments of the host's clock, each sample weighted by its time."""
    whole = [sample for sample in samples if began <= sample.time <= ended and sample.reporting == len(sample.gpus)]
    inside = [(sample.time, sample.power_w) for sample in whole if sample.power_w is not None]
    if not inside or ended <= began:
        return PowerWindow()
    mean = _weighted(inside, began, ended)
    counted = counted_w(whole)
    peak, span_s = max(watts for _, watts in inside), ended - began
    if counted is None:
        return PowerWindow(mean, peak, len(inside), mean * span_s, "power")
    return PowerWindow(mean, peak, len(inside), counted * span_s, "counter")


def _weighted(inside: Sequence[tuple[float, float]], began: float, ended: float) -> float:
    """Hold each sample from the middle before it to the middle after it."""
    times = [time for time, _ in inside]
    edges = [began, *((a + b) / 2 for a, b in itertools.pairwise(times)), ended]
    parts = zip(itertools.pairwise(edges), inside, strict=True)
    return sum((right - left) * watts for (left, right), (_, watts) in parts) / (ended - began)

"""Pauses between loads: a verdict looks at the seconds in which the GPUs worked, not at the mean of work and rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.domain.gpu import GpuSample
from console.domain.throughput import ThroughputSample

WINDOW_S = 10.0
"""What a verdict looks at: long enough for several steps of a big batch, short enough to follow a change."""

KEEP_S = 30.0
"""So far back seconds of work are looked for: a ladder's rungs last a few seconds each."""

QUIET_PCT = 3.0
PAUSE_S = 1.0
"""Shorter rests belong to the work: the driver's own utilisation is a mean over about so long."""

LONG_PAUSE_S = 3.0
"""After a longer rest the work is over."""

RAMP_S = 0.4
"""Watts and clocks rise so long after a rest."""

GAP_S = 1.5
"""Samples further apart are no stretch."""

ENGINE_AGE_S = 1.5


@dataclass(frozen=True, slots=True)
class Work:
    """The samples that a verdict looks at."""

    samples: tuple[GpuSample, ...]
    seconds: float
    """What they last, rests left out."""
    rest_s: float = 0.0
    """What was left out between them."""
    resting: bool = False
    """The GPUs rest now, for too short a time to call the work over."""


def work_of(gpus: Sequence[GpuSample], speeds: Sequence[ThroughputSample] = ()) -> Work:
    """Return the newest `WINDOW_S` of work, or of rest where the work is over.

    A rest in which the engine says that requests run is work: the GPUs are kept waiting, which is what is to be found.
    """
    known = [sample for sample in gpus if sample.gpus]
    if not known:
        return Work((), 0.0)
    stretches = _stretches(known, speeds)
    quiet, newest = stretches[-1]
    if quiet and _lasts(newest) < LONG_PAUSE_S and any(not rest for rest, _ in stretches):
        stretches, resting = stretches[:-1], True
    else:
        resting = False
    if quiet and not resting:
        chosen = _newest(newest)
        return Work(tuple(chosen), _lasts(chosen))
    kept: list[list[GpuSample]] = []
    left = WINDOW_S
    rest_s = 0.0
    for place in range(len(stretches) - 1, -1, -1):
        rest, stretch = stretches[place]
        if rest:
            if kept:
                rest_s += _lasts(stretch)
            continue
        part = _newest(_without_ramp(stretch) if place else stretch, left)
        if part:
            kept.insert(0, part)
            left -= _lasts(part)
        if left <= 0:
            break
    samples = tuple(sample for part in kept for sample in part)
    return Work(samples, sum(map(_lasts, kept)), rest_s if len(kept) > 1 else 0.0, resting)


def _stretches(known: Sequence[GpuSample], speeds: Sequence[ThroughputSample]) -> list[tuple[bool, list[GpuSample]]]:
    """Return (at rest, samples) in their order; short rests are put into the work around them."""
    found: list[tuple[bool, list[GpuSample]]] = []
    for sample in known:
        rest = _quiet(sample) and not _runs(sample.time, speeds)
        if found and found[-1][0] == rest and sample.time - found[-1][1][-1].time <= GAP_S:
            found[-1][1].append(sample)
        else:
            found.append((rest, [sample]))
    merged: list[tuple[bool, list[GpuSample]]] = []
    for place, (rest, stretch) in enumerate(found):
        inside = 0 < place < len(found) - 1
        short = rest and inside and _lasts(stretch) < PAUSE_S
        if merged and (short or merged[-1][0] == rest) and stretch[0].time - merged[-1][1][-1].time <= GAP_S:
            merged[-1][1].extend(stretch)
        else:
            merged.append((rest, list(stretch)))
    return merged


def _quiet(sample: GpuSample) -> bool:
    """Whether every GPU that tells its utilisation is at rest; where none tells, nothing is known of rests."""
    told = [gpu.gpu_util_pct for gpu in sample.gpus if gpu.gpu_util_pct is not None and not gpu.lost]
    return bool(told) and max(told) < QUIET_PCT


def _runs(time: float, speeds: Sequence[ThroughputSample]) -> bool:
    near = min(speeds, key=lambda one: abs(one.time - time), default=None)
    return (
        near is not None
        and abs(near.time - time) <= ENGINE_AGE_S
        and not (near.idle or near.stale)
        and bool(near.running and near.output_tok_s)
    )


def _without_ramp(stretch: list[GpuSample]) -> list[GpuSample]:
    began = stretch[0].time
    return [sample for sample in stretch if sample.time - began >= RAMP_S]


def _newest(stretch: Sequence[GpuSample], span_s: float = WINDOW_S) -> list[GpuSample]:
    return [sample for sample in stretch if stretch[-1].time - sample.time <= span_s]


def _lasts(stretch: Sequence[GpuSample]) -> float:
    return stretch[-1].time - stretch[0].time if stretch else 0.0

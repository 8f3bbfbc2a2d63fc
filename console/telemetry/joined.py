"""Readings of GPUs and of the engine joined: joules per token, watts of the limit."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.gpu import GpuSample
from console.domain.throughput import ThroughputSample

AGE_S = 5.0
"""Readings further apart than this do not belong together."""


def joules_per_token(gpus: GpuSample | None, speed: ThroughputSample | None) -> float | None:
    """Return J per output token now; `None` when idle, stale, or one of the two is unknown."""
    if gpus is None or speed is None or gpus.power_w is None or not speed.output_tok_s:
        return None
    if speed.idle or speed.stale or abs(gpus.time - speed.time) > AGE_S:
        return None
    if gpus.reporting < len(gpus.gpus):  # a part of the watts is no price of all the tokens
        return None
    return gpus.power_w / speed.output_tok_s


def tokens_per_joule(gpus: GpuSample | None, speed: ThroughputSample | None) -> float | None:
    """Return output tok/s per W now."""
    price = joules_per_token(gpus, speed)
    return None if not price else 1 / price


def share_of_limit(gpus: GpuSample | None) -> float | None:
    """Return power drawn over power allowed, 0 to 1, of the GPUs that tell both."""
    if gpus is None:
        return None
    both = [(g.power_draw_w, g.power_limit_w) for g in gpus.gpus if g.power_draw_w is not None and g.power_limit_w]
    limit = sum(limit or 0 for _, limit in both)
    return sum(draw or 0 for draw, _ in both) / limit if limit else None


def energy_per_token(gpus: Sequence[GpuSample], speeds: Sequence[ThroughputSample]) -> float | None:
    """Return J per output token from counters alone: energy of every GPU over the output tokens of the same seconds.

    The energy counters are read every few seconds, so each is taken at its first and its last change.
    """
    counted = [one for one in speeds if one.output_tokens is not None]
    if len(counted) < 2 or not gpus:
        return None
    first, last = counted[0], counted[-1]
    tokens, seconds = (last.output_tokens or 0) - (first.output_tokens or 0), last.time - first.time
    watts = counted_w(gpus)
    if tokens <= 0 or seconds < AGE_S or watts is None:
        return None
    return watts * seconds / tokens


def counted_w(gpus: Sequence[GpuSample]) -> float | None:
    """Return the mean watts of all GPUs by their energy counters; `None` where one of them has moved too little."""
    if not gpus:
        return None
    watts = [_counted_w(gpus, place) for place in range(len(gpus[-1].gpus))]
    return None if not watts or any(one is None for one in watts) else sum(one or 0.0 for one in watts)


def _counted_w(gpus: Sequence[GpuSample], place: int) -> float | None:
    moved: list[tuple[float, float]] = []
    for sample in gpus:
        energy = sample.gpus[place].energy_j if place < len(sample.gpus) else None
        if energy is not None and (not moved or moved[-1][1] != energy):
            moved.append((sample.time, energy))
    moved = moved[1:]  # when the first value was reached is not known
    if len(moved) < 2 or moved[-1][1] < moved[0][1]:
        return None
    if moved[-1][0] - moved[0][0] < (gpus[-1].time - gpus[0].time) / 2:
        return None  # what it counted is the lesser part of the time
    return (moved[-1][1] - moved[0][1]) / (moved[-1][0] - moved[0][0])

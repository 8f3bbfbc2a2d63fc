"""Readings of GPUs and of the engine joined: joules per token, watts of the limit."""

from __future__ import annotations

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

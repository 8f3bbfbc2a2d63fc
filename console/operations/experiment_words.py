"""What an experiment's figures are called, alike on screen and in a shell."""

from __future__ import annotations

import time

from console.domain.experiment import ArmOutcome, Rated


def change_words(rung: Rated, few: str) -> str:
    """Return `+122.0 % [+118.0, +125.0]`; without an interval `few` says why."""
    if rung.ratio is None:
        return "—"
    text = f"{100 * (rung.ratio - 1):+.1f} %"
    if rung.low is None or rung.high is None:
        return f"{text} ({few})"
    return f"{text} [{100 * (rung.low - 1):+.1f}, {100 * (rung.high - 1):+.1f}]"


def rollback_words(arm: ArmOutcome) -> str:
    """Return when an arm was taken back, and its base ready again; empty when it was not."""
    if arm.rolled_back_at is None:
        return ""
    ready = f", {arm.rolled_back_to} relaunched, ready {_clock(arm.relaunched_at)}" if arm.relaunched_at else ""
    return f"rolled back {_clock(arm.rolled_back_at)}{ready}"


def _clock(epoch_s: float) -> str:
    return time.strftime("%H:%M", time.localtime(epoch_s))

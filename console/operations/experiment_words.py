"""What an experiment's figures are called, alike on screen and in a shell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from console.domain.experiment import METRICS, ArmOutcome, Dimension, ExperimentState, Rated, SearchSpec
from console.experiments.search import size

if TYPE_CHECKING:
    from console.operations.experiments_noise import Noise


SHARED = " that share launches"
"""Said of pairs whose intervals are the wider for it."""


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


def left_words(seconds: float) -> str:
    """Return `at most 12 min left`."""
    return f"at most {seconds:.0f} s left" if seconds < 90 else f"at most {seconds / 60:.0f} min left"


def noise_words(noise: Noise) -> Iterator[str]:
    """Yield what two equal measurements differ by, what that rests on, and what is taken for granted."""
    known = "" if noise.pair_pct is None else f"two equal arms differ by {noise.pair_pct:.2f} %; "
    yield f"A/A noise: {known}{noise.told}"
    if noise.assumed:
        yield noise.assumed


def scatter_words(told: ExperimentState) -> str:
    """Return what two equal measurements of an experiment differed by; empty where nothing was measured twice."""
    if told.noise_pct is None:
        within = told.noise_within_pct
        return "" if within is None else f"measurements of one launch differed by {within:.2f} % here"
    parts = ((told.noise_within_pct, "within a launch"), (told.noise_between_pct, "between launches"))
    known = ", ".join(f"{value:.2f} % {where}" for value, where in parts if value is not None)
    return f"two equal measurements differed by {told.noise_pct:.2f} % here" + f" ({known})" * bool(known)


def search_words(search: SearchSpec) -> Iterator[str]:
    """Yield how a space is walked, then its dimensions, one a line."""
    points = size(search.space)
    space = "a continuous space" if points is None else f"a space of {points:,} point{'s'[: points != 1]}"
    aims = " against ".join(METRICS[one].title for one in search.objectives)
    early = ", hopeless ones given up early" if search.prune and len(search.objectives) == 1 else ""
    yield f"{search.sampler} searches {space} for {aims}: {search.trials} trials at most, the base before them{early}"
    for one in search.space:
        yield f"  {f'--{one.name}' if one.kind == 'args' else one.name:<30} {_range(one)}"


def search_data(search: SearchSpec) -> dict[str, Any]:
    """Return the same as plain data."""
    return {**asdict(search), "points": size(search.space)}


def _range(one: Dimension) -> str:
    if one.choices:
        return ", ".join(map(str, one.choices))
    step = "" if one.step is None else f" by {one.step:g}"
    return f"{one.low:g} … {one.high:g}{step}{' on a log scale' * one.log}"


def _clock(epoch_s: float) -> str:
    return time.strftime("%H:%M", time.localtime(epoch_s))

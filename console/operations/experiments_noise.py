"""What a plan knows of noise: what equal measurements of this host differed by, and what that lets an experiment find."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.domain.experiment import ExperimentSpec
from console.domain.measurement import Measurement
from console.domain.text import counted
from console.experiments.components import Scatter, scatter
from console.experiments.sharing import numbered, sharing
from console.experiments.statistics import detectable

if TYPE_CHECKING:
    from console.journal.records import RunEntry

Order = Sequence[tuple[str, Sequence[str]]]
"""Stage by stage, the arms of each block in the order that they are measured in."""

AFRESH = "winner, measured afresh"
"""Stage of the winner's fresh measurement in a plan: each of its measurements has a launch of its own."""

SAME = ("argv", "environment", "patches_on", "hashes", "package", "versions", "model_files")
"""What of a run's identity makes its numbers: runs that agree in it are launches of one and the same thing."""

MACHINE = ("driver", "cuda", "nccl", "kernel", "governor", "topology")
LENGTHS = ("input_tokens", "output_tokens")
LOADS = ("input_spread", "output_spread", "ignore_eos", "request_rate_req_s", "flushed", "vantage")

ASSUMED = "launches are taken to differ by as much: no two of the same are known here"
"""Said where only repeats within one launch are known."""

CHEAP = 0.25
"""Part of a plan's time that launches of their own may take to be advised although launches hardly differ."""

DOMINATES = 0.5
"""Share of the variance from which launches, not repeats, make the noise."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What equal measurements of this host differed by, in percent."""

    pair_pct: float | None
    """The ratio of two equal measurements, each in a launch of its own: what an arm pays that needs a restart."""
    within_pct: float | None
    """One measurement from the next of the same launch."""
    between_pct: float | None
    """One launch from the next of the same thing, the scatter within them taken off."""
    measurements: int
    launches: int
    told: str
    """What it rests on, in words."""
    assumed: str = ""
    """What is taken for granted where it is not known."""
    share: float | None = None
    """Of launches in the variance of a measurement; `None` where it is not known."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What an order of measurements costs in launches, and what it can find."""

    launches: int
    shared: bool
    """Whether pairs share launches."""
    detectable_pct: float | None
    """The smallest change that is found in 80 % of cases; `None` where the noise is not known, or no verdict can come."""


def value_of(one: Measurement, metric: str) -> float | None:
    """Return what a measurement says of a metric, if it is a positive number."""
    value = {
        "output_tok_s": one.output_throughput_tok_s,
        "request_req_s": one.request_throughput_req_s,
        "goodput_req_s": one.goodput_req_s,
        "energy_j_per_token": one.energy_j_per_token,
        "ttft_p50_ms": one.ttft_ms.p50_ms,
        "itl_p50_ms": one.itl_ms.p50_ms,
        "e2el_p50_ms": one.e2el_ms.p50_ms,
    }[metric]
    return value if value is not None and value > 0 else None


def noise_of(spec: ExperimentSpec, runs: Sequence[RunEntry]) -> Noise:
    """Return what equal measurements of these runs differed by in what decides an experiment.

    Launches of one day are held to each other, since pairs are of one day, too; where no day has two, those of all days.
    """
    found = scatter(_things(spec, runs, days=True).values())
    if found is None or found.single is None:
        found = scatter(_things(spec, runs, days=False).values()) or found
    if found is None:
        none = f"no repeats at concurrency {spec.decide_at} on this host yet: the first three pairs will tell"
        return Noise(None, None, None, 0, 0, none)
    within, between = _percent(found.within), _percent(found.between)
    rests = f"{counted(found.measurements, 'measurement')} of {counted(found.launches, 'launch')} on this host"
    if found.single is None:
        taken = _percent(found.within and 2 * found.within)
        return Noise(taken, within, None, found.measurements, found.launches, _told(found, rests), ASSUMED)
    pair, told = _percent(math.sqrt(2) * found.single), _told(found, rests)
    return Noise(pair, within, between, found.measurements, found.launches, told, share=found.share)


def _told(found: Scatter, rests: str) -> str:
    if found.within is None:
        return f"too few of one launch to tell what of it is within a launch, by {rests}"
    between = "" if found.between is None else f", {100 * found.between:.2f} % between launches"
    return f"{100 * found.within:.2f} % within a launch{between}, by {rests}"


def _things(
    spec: ExperimentSpec, runs: Sequence[RunEntry], *, days: bool
) -> Mapping[tuple[str, ...], Mapping[str, list[float]]]:
    """Return what was measured at the deciding concurrency: thing, launch, values."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for run in runs:
        day = time.strftime("%Y-%m-%d", time.localtime(run.started_at)) if days else ""
        same = _same(run)
        for one in run.measurements:
            if one.spoilt(spec.tolerate) or one.concurrency_limit != spec.decide_at:
                continue
            if any(one.protocol.get(name) != getattr(spec.bench, name) for name in LENGTHS):
                continue
            if (value := value_of(one, spec.metric)) is not None:
                load = _text([one.requests, *(one.protocol.get(name) for name in LOADS)])
                found.setdefault((day, same, load), {}).setdefault(run.id, []).append(value)
    return found


def _same(run: RunEntry) -> str:
    """Return what tells a run from one of another thing."""
    machine: Mapping[str, Any] = run.identity.get("machine") or {}
    limits = [(gpu.get("name"), gpu.get("power_limit_w")) for gpu in run.identity.get("gpus") or ()]
    return _text(
        [run.profile, *(run.identity.get(name) for name in SAME), *(machine.get(name) for name in MACHINE), limits]
    )


def _text(parts: Sequence[object]) -> str:
    return json.dumps(parts, sort_keys=True, default=str)


def _percent(sd_log: float | None) -> float | None:
    return None if sd_log is None else 100 * sd_log


def finding(order: Order, noise: Noise, relaunch: str) -> Finding:
    """Return what an order of measurements costs and finds; of several arms, the one that is found the least."""
    visits, sides = _visits(order, relaunch), dict[str, dict[str, list[str]]]()
    for stage, arm, launch in visits:
        sides.setdefault(stage, {}).setdefault(arm, []).append(launch)
    patterns = {
        numbered(tuple(zip(base, launches, strict=False)))
        for stage, (base, *others) in ((stage, arms.values()) for stage, arms in sides.items())
        for launches in (others if stage != AFRESH else ())
    }
    share = 1.0 if noise.share is None else noise.share
    found = [
        detectable(noise.pair_pct / 100, len(pairs), launches=_named(pairs), between=share)
        for pairs in patterns
        if noise.pair_pct is not None
    ]
    sure = [one for one in found if one is not None]
    return Finding(
        len({launch for _, _, launch in visits}),
        any(not sharing(_named(pairs)).apart for pairs in patterns),
        max(sure) if sure and len(sure) == len(found) else None,
    )


def _named(pairs: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    return [(str(base), str(arm)) for base, arm in pairs]


def _visits(order: Order, relaunch: str) -> list[tuple[str, str, str]]:
    """Return stage, arm and launch of each measurement, in their order."""
    found: list[tuple[str, str, str]] = []
    for stage, arms in order:
        for arm in arms:
            own = relaunch == "each" or stage == AFRESH or not found or found[-1][1] != arm
            found.append((stage, arm, str(len(found)) if own else found[-1][2]))
    return found


def advice(
    spec: ExperimentSpec, noise: Noise, now: Finding, each: Finding, ready_s: float | None, minutes: float | None
) -> list[str]:
    """Return what is said of an order whose pairs share launches: what a launch for each would cost and bring.

    Args:
        spec: The experiment.
        noise: What is known of this host.
        now: What its order costs and finds.
        each: What it would with a launch for each measurement.
        ready_s: How long a launch takes here, if that is known.
        minutes: How long all of it takes, if that is known.
    """
    if not now.shared:
        return []
    if not spec.interleave:
        return [
            "in one go each arm has one launch, and launches differ: no verdict can come of it;"
            ' order = "interleaved", or relaunch = "each" under [measure]'
        ]
    share, more_min = noise.share, None if ready_s is None else (each.launches - now.launches) * ready_s / 60
    cheap = more_min is not None and minutes is not None and more_min <= CHEAP * minutes
    if share is not None and share <= DOMINATES and not cheap:
        return []
    why = (
        f"launches differ by {noise.between_pct:.2f} %, repeats of one by {noise.within_pct:.2f} %"
        if share is not None
        else f"how far launches differ is {'not' if noise.between_pct is None else 'hardly'} known"
    )
    more = counted(each.launches - now.launches, "restart")
    time_words = "" if more_min is None else f", about {max(1, round(more_min))} min,"
    finds = (
        f"finds {each.detectable_pct:.2f} % instead of {now.detectable_pct:.2f} %"
        if each.detectable_pct is not None and now.detectable_pct is not None
        else "narrows the intervals"
    )
    return [f'pairs share launches, {why}: relaunch = "each" costs {more} more{time_words} and {finds}']

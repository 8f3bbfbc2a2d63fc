"""Plots of runs as numbers: throughput over concurrency, what each user and each GPU gets, power over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from console.domain.measurement import Measurement
from console.experiments.statistics import CONFIDENCE, LEAST_PAIRS, t_quantile

if TYPE_CHECKING:
    from console.journal.records import RunEntry

MOST_MOMENTS = 2000
"""Points of a line over time; more are thinned out, since no terminal has the columns."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point; its bounds are those of the mean of `y` at 95 %."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """What one run contributes."""

    name: str
    points: tuple[Point, ...]
    why: str = ""
    """Why there are none."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    ladder: bool = False
    """Whether `x` is a ladder of concurrencies, drawn in even steps."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(one.points for one in self.series)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a plot needs of a run."""

    name: str
    measurements: tuple[Measurement, ...]
    gpus: int = 0
    """How many it had; 0 is unknown."""


def measured(entry: RunEntry) -> Measured:
    """Return what a plot needs of a run of the journal."""
    return Measured(entry.id, entry.measurements, len(entry.identity.get("gpus") or ()))


def throughput(runs: Sequence[Measured]) -> Plot:
    """Return output tok/s over concurrency, the mean of untainted repeats with its interval from three on."""
    return Plot(
        "Output tok/s by concurrency", "concurrency", "output tok/s",
        tuple(_by_rung(run, lambda rung, one: (float(rung), one.output_throughput_tok_s)) for run in runs),
        ladder=True,
    )  # fmt: skip


def pareto(runs: Sequence[Measured]) -> Plot:
    """Return tok/s per GPU over tok/s per user: what one of them costs of the other."""
    series = []
    for run in runs:
        if not run.gpus:
            series.append(Series(run.name, (), "how many GPUs it had is not known"))
            continue

        def place(rung: int, one: Measurement, gpus: int = run.gpus) -> tuple[float | None, float | None]:
            speed = one.output_throughput_tok_s
            return per_user(one), None if speed is None else speed / gpus

        series.append(_by_rung(run, place))
    return Plot("tok/s per GPU by tok/s per user", "tok/s per user", "tok/s per GPU", tuple(series))


def per_user(one: Measurement) -> float | None:
    """Return the tok/s that one stream sees: 1 / ITL p50, else its share of the whole."""
    gap = one.itl_ms.p50_ms if one.itl_ms.p50_ms is not None else one.tpot_ms.p50_ms
    if gap:
        return 1000 / gap
    speed = one.output_throughput_tok_s
    return None if speed is None or not one.concurrency_limit else speed / one.concurrency_limit


async def power(entries: Sequence[RunEntry]) -> Plot:
    """Return all GPUs' watts over the seconds of each run's measurements, pauses between them cut short."""
    from console.operations import replay

    series = []
    for entry in entries:
        frames = await replay.frames_of(entry)
        known = [
            (time, frame.total_w, frame.concurrency)
            for time, frame in zip(replay.shown_times(frames), frames, strict=True)
            if frame.total_w is not None
        ]
        step = max(1, math.ceil(len(known) / MOST_MOMENTS))
        points = tuple(Point(round(time, 2), round(watts, 1), concurrency=rung) for time, watts, rung in known[::step])
        series.append(Series(entry.id, points, "" if points else "no power was recorded"))
    return Plot("Power while it was measured", "seconds", "W", tuple(series))


async def drawn(entries: Sequence[RunEntry], view: str) -> Plot:
    """Return one plot of some runs: `throughput`, `pareto` or `power`."""
    if view == "power":
        return await power(entries)
    return {"throughput": throughput, "pareto": pareto}[view]([measured(entry) for entry in entries])


async def of_runs(entries: Sequence[RunEntry]) -> Mapping[str, Plot]:
    """Return every plot of some runs, by name."""
    return {view: await drawn(entries, view) for view in ("throughput", "pareto", "power")}


def plain(plot: Plot) -> dict[str, Any]:
    """Return a plot as JSON."""
    return {
        "x": plot.x,
        "y": plot.y,
        "series": [
            {"run": one.name, "reason": one.why or None, "points": [asdict(point) for point in one.points]}
            for one in plot.series
        ],
    }


def _by_rung(run: Measured, place: Callable[[int, Measurement], tuple[float | None, float | None]]) -> Series:
    points = []
    for rung in sorted({one.concurrency_limit for one in run.measurements}):
        seen = [place(rung, one) for one in run.measurements if one.concurrency_limit == rung and not one.tainted]
        known = [(x, y) for x, y in seen if x is not None and y is not None]
        if known:
            low, high = _bounds([y for _, y in known])
            points.append(Point(fmean(x for x, _ in known), fmean(y for _, y in known), low, high, rung))
    none = "nothing untainted was measured" if run.measurements else "nothing is measured yet"
    return Series(run.name, tuple(points), "" if points else none)


def _bounds(values: Sequence[float]) -> tuple[float | None, float | None]:
    if len(values) < LEAST_PAIRS:
        return None, None
    half = t_quantile(0.5 + CONFIDENCE / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half

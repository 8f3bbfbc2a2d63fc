"""Plots as numbers: the same for a screen and for `--json`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.domain.measurement import Measurement, Percentiles
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import plots
from console.operations.plots import Measured

ITL = Percentiles(100, 50.0, 50.0)


def one(rung: int, speed: float, repeat: int = 0, **fields: object) -> Measurement:
    none = Percentiles(0)
    made = Measurement("1", rung, repeat, 100.0, 2.0, 8, 8, 0, 8, 8, speed, 1.0, none, ITL, none, none)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_throughput_has_the_mean_and_from_three_repeats_on_its_interval() -> None:
    run = Measured("1", (one(64, 100), one(64, 102, 1), one(64, 98, 2), one(8, 20), one(128, 9, tainted=("warm",))))
    plot = plots.throughput([run])
    few, many = plot.series[0].points
    assert (few.x, few.y, few.low) == (8, 20, None)
    assert (many.x, many.y) == (64, 100)
    assert many.low == pytest.approx(100 - 4.968, abs=0.01) and many.high == pytest.approx(100 + 4.968, abs=0.01)


def test_pareto_divides_by_the_gpus_and_says_when_it_cannot() -> None:
    plot = plots.pareto([Measured("a", (one(64, 800),), 8), Measured("b", (one(64, 800),))])
    known, unknown = plot.series
    assert (known.points[0].x, known.points[0].y, known.points[0].concurrency) == (20.0, 100.0, 64)
    assert not unknown.points and "not known" in unknown.why
    assert plots.per_user(replace(one(64, 640), itl_ms=Percentiles(0))) == 10.0


async def test_power_is_what_was_recorded_and_a_run_without_it_says_so() -> None:
    journal = Journal()
    entries = [RunEntry(name, "h", "p", "sglang", 0.0) for name in ("1", "2")]
    for entry in entries:
        await journal.record_run(entry)
    rows = [[100.0 + second, [250.0, 250.0]] for second in range(5000)]
    await journal.record_measurement("h", one(64, 100), telemetry=rows)
    plot = await plots.power(entries)
    told, nothing = plot.series
    assert len(told.points) <= plots.MOST_MOMENTS and told.points[0].y == 500.0 and told.points[0].concurrency == 64
    assert nothing.why == "no power was recorded" and not plot.empty
    assert plots.plain(plot)["series"][1] == {"run": "2", "reason": "no power was recorded", "points": []}


def test_a_run_without_a_point_says_why() -> None:
    begun, spoilt = plots.throughput([Measured("1", ()), Measured("2", (one(8, 9, tainted=("warm",)),))]).series
    assert (begun.why, spoilt.why) == ("nothing is measured yet", "nothing untainted was measured")

"""A plan's noise: what it rests on, what it lets an order find, and when a launch for each measurement is advised."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from console.cli.experiment_text import plan_lines
from console.domain.experiment import ExperimentSpec
from console.domain.measurement import Measurement, Percentiles
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import experiments
from console.operations.experiments_noise import AFRESH, ASSUMED, Noise, advice, finding, noise_of
from console.ui.widgets.experiment_plan import plan_rows

DAY_S = 86_400.0
NOON = 1_000_000_000.0
FILE = """schema = 1
base = "small"
[measure]
repeats = 5
[[arm]]
name = "wide"
args = { max-running-requests = 64 }
"""


def spec_in(folder: Path, text: str = FILE) -> ExperimentSpec:
    (folder / "small.toml").write_text(
        'schema = 1\n[host]\nssh = "box"\n[launch.args]\nmodel-path = "m"\n'
        "[bench]\nconcurrency = [8]\noutput_tokens = 16\n"
    )
    (folder / "two.toml").write_text(text)
    return experiments.load(str(folder / "two.toml"))


def measured(run: str, value: float, repeat: int, **fields: object) -> Measurement:
    none = Percentiles(0)
    told = Measurement(
        run, 8, repeat, 1.0, 60.0, 32, 32, 0, 100, 100, value, 3.0, none, none, none, none,
        protocol={"input_tokens": 1024, "output_tokens": 16},
    )  # fmt: skip
    return replace(told, **fields)  # type: ignore[arg-type]


def launched(
    number: int, values: Sequence[float], *, argv: str = "a", at: float = NOON, profile: str = "small"
) -> RunEntry:
    name = f"run-{number}"
    return RunEntry(
        name, "box", profile, "sglang", at,
        identity={"argv": ["python3", argv], "patches_on": [], "ready_s": 180.0},
        measurements=tuple(measured(name, value, repeat) for repeat, value in enumerate(values)),
    )  # fmt: skip


def some(between: float, within: float, *, launches: int = 8, repeats: int = 4, seed: int = 1) -> list[RunEntry]:
    source = random.Random(seed)
    found = []
    for number in range(launches):
        own = 880 * (1 + source.gauss(0, between))
        found.append(launched(number, [own * (1 + source.gauss(0, within)) for _ in range(repeats)]))
    return found


async def keep(run: RunEntry) -> None:
    await Journal().record_run(run)
    for one in run.measurements:
        await Journal().record_measurement(run.host, one)


def order(count: int, *arms: str) -> list[tuple[str, Sequence[str]]]:
    return [(arms[0], arms if block % 2 == 0 else arms[::-1]) for block in range(count)]


def test_repeats_of_one_launch_are_not_taken_for_launches(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    told = noise_of(spec, some(0.01, 0.002, launches=30))
    assert told.within_pct == pytest.approx(0.2, rel=0.2) and told.between_pct == pytest.approx(1.0, rel=0.3)
    assert told.pair_pct == pytest.approx(2**0.5 * (1.0**2 + 0.2**2) ** 0.5, rel=0.3)
    assert (told.measurements, told.launches, told.assumed) == (120, 30, "")
    assert (
        told.told == "0.19 % within a launch, 0.81 % between launches, by 120 measurements of 30 launches on this host"
    )


def test_one_launch_alone_says_what_is_assumed(tmp_path: Path) -> None:
    told = noise_of(spec_in(tmp_path), [launched(1, [880.0, 884.4, 875.6])])
    assert told.within_pct == pytest.approx(0.5, rel=0.01) and told.between_pct is None
    assert told.pair_pct == pytest.approx(1.0, rel=0.01)
    assert (told.assumed, told.launches) == (ASSUMED, 1)
    assert told.told == "0.50 % within a launch, by 3 measurements of 1 launch on this host"


def test_launches_that_were_measured_once_each_tell_both_together(tmp_path: Path) -> None:
    told = noise_of(spec_in(tmp_path), [launched(number, [value]) for number, value in enumerate((880, 890, 870))])
    assert (told.within_pct, told.between_pct, told.share) == (None, None, None)
    assert told.pair_pct == pytest.approx(1.607, abs=0.01)
    assert told.told.startswith("too few of one launch to tell what of it is within a launch, by 3 measurements of 3 ")


def test_other_things_lengths_and_tainted_measurements_are_no_noise(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    apart = [launched(1, [880.0]), launched(2, [1950.0], argv="b"), launched(3, [900.0], profile="small+wide")]
    assert noise_of(spec, apart).pair_pct is None
    long = replace(apart[0], measurements=(measured("run-1", 500.0, 1, protocol={"output_tokens": 512}),))
    late = replace(apart[0], measurements=(measured("run-1", 500.0, 1, tainted=("the client was late",)),))
    limited = replace(apart[0], id="run-9", identity={**apart[0].identity, "gpus": [{"power_limit_w": 450}]})
    tolerant = replace(spec, tolerate=("the client was",))
    assert noise_of(tolerant, [apart[0], replace(late, id="run-6")]).launches == 2
    told = noise_of(spec, [*apart, replace(long, id="run-5"), replace(late, id="run-6"), limited])
    assert (told.pair_pct, told.launches) == (None, 0)
    assert told.told == "no repeats at concurrency 8 on this host yet: the first three pairs will tell"


def test_launches_of_one_day_are_held_to_each_other_and_those_of_all_days_where_no_day_has_two(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    monday = [launched(1, [880.0, 881.0]), launched(2, [882.0, 881.0])]
    tuesday = [launched(3, [980.0, 981.0], at=NOON + DAY_S)]
    near, far = noise_of(spec, monday + tuesday), noise_of(spec, [monday[0], *tuesday])
    assert near.pair_pct is not None and near.pair_pct < 0.3 and near.launches == 3
    assert far.between_pct == pytest.approx(7.6, abs=0.2)


def test_what_an_order_finds_depends_on_the_launches_that_its_pairs_share() -> None:
    noise = Noise(1.0, 0.3, 0.64, 30, 10, "", share=0.82)
    blocks = [*order(5, "base", "wide"), *((AFRESH, arms) for _, arms in order(3, "base", "the winner"))]
    now, each = (finding(blocks, noise, relaunch) for relaunch in ("switch", "each"))
    assert (now.launches, each.launches) == (6 + 6, 10 + 6)
    assert now.shared and not each.shared
    assert each.detectable_pct == pytest.approx(1.70, abs=0.05)
    assert now.detectable_pct is not None and now.detectable_pct > 1.4 * 1.70
    alone = [("base", ("base",) * 5), ("base", ("wide",) * 5)]
    assert finding(alone, noise, "switch").detectable_pct is None
    assert finding(alone, noise, "each").detectable_pct == each.detectable_pct


def test_a_launch_for_each_is_advised_where_launches_make_the_noise_or_nobody_knows(tmp_path: Path) -> None:
    spec, blocks = spec_in(tmp_path), order(5, "base", "wide")

    def said(
        noise: Noise, relaunch: str = "switch", ready_s: float | None = 180.0, minutes: float | None = 40.0
    ) -> list[str]:
        now, each = (finding(blocks, noise, how) for how in (relaunch, "each"))
        return advice(spec, noise, now, each, ready_s, minutes)

    launches = Noise(1.0, 0.3, 0.64, 30, 10, "", share=0.82)
    (told,) = said(launches)
    assert told.startswith("pairs share launches, launches differ by 0.64 %, repeats of one by 0.30 %: relaunch = ")
    assert 'relaunch = "each" costs 4 restarts more, about 12 min, and finds 1.70 % instead of ' in told
    (unknown,) = said(Noise(None, None, None, 0, 0, ""), ready_s=None)
    assert unknown == (
        "pairs share launches, how far launches differ is not known:"
        ' relaunch = "each" costs 4 restarts more and narrows the intervals'
    )
    assert said(launches, "each") == []
    assert "how far launches differ is hardly known" in said(Noise(1.0, 0.3, 0.64, 6, 2, ""))[0]
    repeats = Noise(0.5, 0.35, 0.05, 30, 10, "", share=0.02)
    assert said(repeats) == [] == said(repeats, minutes=None)
    assert "launches differ by 0.05 %, repeats of one by 0.35 %" in said(repeats, minutes=60.0)[0]  # 12 min of 60
    one = replace(spec, interleave=False)
    alone = [("base", ("base",) * 5), ("base", ("wide",) * 5)]
    now = finding(alone, launches, "switch")
    assert "no verdict can come of it" in advice(one, launches, now, now, None, None)[0]


async def test_a_plan_tells_its_noise_in_a_shell_on_screen_and_in_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for run in some(0.01, 0.002):
        await keep(run)
    plan = await experiments.plan(None, spec_in(tmp_path))
    told = experiments.plain_plan(plan)
    assert told["noise_between_launches_pct"] > told["noise_within_launch_pct"] > 0
    assert (told["noise_measurements"], told["noise_launches"], told["noise_assumed"]) == (32, 8, None)
    assert told["pairs_share_launches"] and (told["restarts"], told["relaunch_each"]["restarts"]) == (12, 16)
    better, now = told["relaunch_each"]["smallest_detectable_effect_pct"], told["smallest_detectable_effect_pct"]
    assert 0 < better < now
    (note,) = [note for note in told["notes"] if "relaunch" in note]
    assert "4 restarts more, about 12 min" in note
    shell = "\n".join(plan_lines(plan))
    assert note in shell and "% between launches" in shell and "with 5 pairs that share launches" in shell
    screen = " ".join(" ".join("".join(part for part, _ in row) for row in plan_rows(plan, 78)).split())
    assert note in screen and "8 launches on this host" in screen


async def test_a_plan_of_one_launch_says_what_it_takes_for_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    await keep(launched(1, [880.0, 884.4, 875.6]))
    plan = await experiments.plan(None, spec_in(tmp_path))
    assert experiments.plain_plan(plan)["noise_assumed"] == ASSUMED
    assert ASSUMED in "\n".join(plan_lines(plan))
    assert ASSUMED in " ".join(" ".join("".join(part for part, _ in row) for row in plan_rows(plan, 118)).split())
    assert any("how far launches differ is not known" in note for note in plan.notes)

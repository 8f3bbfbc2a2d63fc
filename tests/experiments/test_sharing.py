"""Pairs that share launches, by simulation: launches differ, and a verdict must not take that for a gain."""

from __future__ import annotations

import math
import random

import pytest

from console.experiments import statistics as stats
from console.experiments.components import scatter
from console.experiments.sharing import sharing, spread
from console.experiments.verdicts import Judged, judge

Launched = tuple[tuple[str, str], ...]
CV = 0.005
"""Of a measurement, its launch included."""


def chain(count: int) -> Launched:
    """Return the launches of blocks AB BA AB …, neighbours sharing one."""
    return tuple((f"a{(block + 1) // 2}", f"b{block // 2}") for block in range(count))


def pairs(
    source: random.Random, launches: Launched, *, share: float = 1.0, gain: float = 0.0, drift: float = 0.0
) -> tuple[list[float], list[float]]:
    """Return both sides of pairs in the order AB BA AB …; `share` of the variance is that of launches."""
    luck: dict[str, float] = {}
    sides: tuple[list[float], list[float]] = ([], [])
    for block, names in enumerate(launches):
        for side, name in enumerate(names):
            place = 2 * block + (side if block % 2 == 0 else 1 - side)
            own = luck.setdefault(name, source.gauss(0, CV * math.sqrt(share)))
            value = math.exp(own + source.gauss(0, CV * math.sqrt(1 - share)))
            sides[side].append(880 * value * (1 + gain * side) * (1 + drift * place / (2 * len(launches) - 1)))
    return sides


def decided(base: list[float], arm: list[float], launches: Launched, *, early: bool = False) -> Judged:
    """Return the verdict of an experiment; with `early` it looks after every pair."""
    for count in range(1 if early else len(base), len(base) + 1):
        told = judge(base[:count], arm[:count], len(base), early=early, launches=launches[:count])
        if told.final:
            return told
    return told


def kept(launches: Launched, known: Launched, trials: int = 2500, seed: int = 1, **how: float) -> float:
    """Return how often an arm that is the base is kept, where the verdict knows of these launches."""
    source = random.Random(seed)
    return sum(decided(*pairs(source, launches, **how), known).verdict == "KEEP" for _ in range(trials)) / trials


@pytest.mark.parametrize("count", [4, 5, 10])
def test_pairs_taken_as_independent_keep_nothing_too_often_and_these_do_not(count: int) -> None:
    launches = chain(count)
    assert kept(launches, ()) > 0.06
    assert kept(launches, launches) <= 0.05


@pytest.mark.parametrize("count", [3, 5, 10])
def test_one_launch_a_side_is_no_evidence_however_often_it_is_measured(count: int) -> None:
    launches = (("a", "b"),) * count
    assert kept(launches, (), share=0.8) > 0.15
    told = decided(*pairs(random.Random(1), launches, gain=0.5), launches)
    assert (told.verdict, told.interval, told.pairs) == ("INCONCLUSIVE", None, count)
    assert told.told() == (
        f"{count} pairs come from 1 pair of launches, an interval needs 3;"
        ' relaunch = "each" under [measure] gives every measurement a launch of its own'
    )


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("count", [3, 5, 10])
def test_whatever_launches_are_worth_nothing_is_kept_too_often_with_drift_and_looks(count: int, share: float) -> None:
    source, launches = random.Random(2), chain(count)
    found = [decided(*pairs(source, launches, share=share, drift=0.03), launches, early=True) for _ in range(1500)]
    assert sum(one.verdict == "KEEP" for one in found) / len(found) <= 0.05


@pytest.mark.parametrize("count", [3, 5, 10])
def test_the_interval_of_pairs_that_share_launches_covers_the_truth(count: int) -> None:
    source, launches, held, naive = random.Random(3 + count), chain(count), 0, 0
    for _ in range(3000):
        base, arm = pairs(source, launches, gain=0.02)
        told, other = stats.interval(base, arm, launches=launches), stats.interval(base, arm)
        assert told is not None and other is not None
        held += told.low <= 1.02 <= told.high
        naive += other.low <= 1.02 <= other.high
    assert 0.93 <= held / 3000 <= 0.97
    assert naive / 3000 < 0.90


def test_launches_of_their_own_are_the_plain_paired_interval() -> None:
    base, arm = pairs(random.Random(4), chain(5))
    own = tuple((f"a{block}", f"b{block}") for block in range(5))
    assert stats.interval(base, arm, launches=own) == stats.interval(base, arm)
    assert stats.interval(base, arm, launches=(("", ""),) * 5) == stats.interval(base, arm)
    assert sharing(own).apart and sharing(own).freedom == 4
    assert (spread(own).mean, spread(own).seen) == pytest.approx((1.0, 1.0))


def test_a_base_that_was_launched_once_has_its_luck_in_every_pair() -> None:
    told = sharing(tuple(("a", f"b{block}") for block in range(5)))
    assert (told.base, told.arm, told.distinct) == (1, 5, 5)
    assert told.widening == pytest.approx(math.sqrt(6)) and told.freedom == pytest.approx(4)


def test_power_at_shared_launches_is_what_simulation_finds() -> None:
    source, launches = random.Random(5), chain(5)
    size, noise = math.log(1.02), CV * math.sqrt(2)
    found = sum(decided(*pairs(source, launches, gain=0.02), launches).verdict == "KEEP" for _ in range(3000)) / 3000
    assert found == pytest.approx(stats.power(size, noise, 5, launches=launches), abs=0.03)
    assert found < stats.power(size, noise, 5)
    least = stats.detectable(noise, 5, launches=launches)
    apart = stats.detectable(noise, 5)
    assert least is not None and apart is not None and least > 1.3 * apart
    assert stats.power(math.log1p(least / 100), noise, 5, launches=launches) == pytest.approx(0.8, abs=1e-3)
    assert stats.detectable(noise, 5, launches=(("a", "b"),) * 5) is None


def test_a_great_gain_is_kept_from_few_launches_and_says_from_how_many() -> None:
    base, arm = pairs(random.Random(6), chain(4), gain=0.5)
    told = decided(base, arm, chain(4))
    assert (told.verdict, told.reason) == ("KEEP", "from 3 + 2 launches")
    assert told.interval is not None and told.interval.widening > 1.5


def test_scatter_within_launches_and_between_them_are_told_apart() -> None:
    source = random.Random(7)

    def thing(launches: int, repeats: int) -> dict[str, list[float]]:
        level = source.uniform(100, 4000)
        return {
            str(launch): [level * math.exp(own + source.gauss(0, 0.004)) for _ in range(repeats)]
            for launch in range(launches)
            for own in [source.gauss(0, 0.009)]
        }

    told = scatter([thing(4, 3) for _ in range(300)] + [thing(3, 1) for _ in range(300)])
    assert told is not None and told.within is not None and told.between is not None
    assert (told.within, told.between) == pytest.approx((0.004, 0.009), rel=0.05)
    assert told.single == pytest.approx(math.hypot(0.004, 0.009), rel=0.05)
    assert told.share == pytest.approx(0.835, abs=0.03)
    assert (told.measurements, told.launches) == (300 * 15, 300 * 7)


def test_what_scatter_is_not_known_is_not_made_up() -> None:
    once = scatter([{"1": [100.0, 101.0, 102.0]}])
    assert once is not None and once.within is not None
    assert (once.between, once.single, once.share, once.launches) == (None, None, None, 1)
    single = scatter([{"1": [100.0], "2": [103.0], "3": [101.0]}])
    assert single is not None and single.single is not None
    assert (single.within, single.between, single.launches) == (None, None, 3)
    assert scatter([{"1": [100.0]}, {"2": [200.0]}, {}]) is None
    few = scatter([{"1": [100.0], "2": [103.0, 97.0], "3": [101.0]}])  # one repeat is no measure of repeats
    assert few is not None and (few.within, few.between, few.share) == (None, None, None)
    two = scatter([{"1": [100.0, 101.0], "2": [103.0, 104.0]}])
    assert two is not None and two.between is not None and two.share is None
    mixed = scatter([{"1": [100.0, 104.0], "2": [101.0, 103.0], "3": [102.0, 102.5]}])
    assert mixed is not None and (mixed.between, mixed.share, mixed.within) == (0.0, 0.0, mixed.single)
    equal = scatter([{launch: [100.0, 100.0] for launch in "123"}])
    assert equal is not None and (equal.within, equal.between, equal.single, equal.share) == (0.0, 0.0, 0.0, 0.0)


def test_an_open_question_says_how_many_pairs_of_their_own_launches_would_settle_it() -> None:
    told = decided([100.0] * 5, [101.2, 100.1, 100.9, 99.8, 101.0], chain(5))
    assert told.verdict == "INCONCLUSIVE" and told.more_pairs is not None and told.interval is not None
    apart = stats.pairs_to_settle(told.gain, told.interval.sd_log)
    assert apart is not None and apart < 5 + told.more_pairs
    assert told.told() == (
        f'about {told.more_pairs} more pairs would settle it, or {apart} in all with relaunch = "each"'
    )

"""The statistics by simulation, seeded: what is promised of verdicts must come out of chance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from console.experiments import statistics as stats
from console.experiments.verdicts import Judged, judge

TABLE = {  # published tables of Student's t
    (0.975, 1): 12.7062047,
    (0.975, 2): 4.3026527,
    (0.975, 4): 2.7764451,
    (0.975, 9): 2.2621572,
    (0.95, 2): 2.9199856,
    (0.995, 5): 4.0321430,
    (0.9995, 3): 12.9239786,
    (0.975, 30): 2.0422725,
    (0.975, 1000): 1.9623391,
}


@pytest.mark.parametrize(("where", "wanted"), TABLE.items(), ids=str)
def test_quantiles_of_t_are_those_of_the_tables(where: tuple[float, int], wanted: float) -> None:
    assert stats.t_quantile(*where) == pytest.approx(wanted, abs=2e-7)
    assert stats.t_quantile(1 - where[0], where[1]) == pytest.approx(-wanted, abs=2e-7)


@pytest.mark.parametrize(("level", "freedom"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_there_is_no_quantile_there(level: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        stats.t_quantile(level, freedom)


def pairs(
    source: random.Random, count: int, *, gain: float, cv: float, drift: float = 0.0
) -> list[tuple[float, float]]:
    """Return (base, arm) of blocks AB BA AB …, with a drift over the whole session."""
    found = []
    for block in range(count):
        seen = []
        for place in range(2):
            at = (2 * block + place) / (2 * count - 1)
            seen.append(880 * (1 + drift * at) * math.exp(source.gauss(0, cv)))
        base, arm = seen if block % 2 == 0 else seen[::-1]
        found.append((base, arm * (1 + gain)))
    return found


def decided(found: list[tuple[float, float]], early: bool) -> Judged:
    """Return the verdict of an experiment that looks after every pair, as a real one does."""
    for count in range(1, len(found) + 1):
        told = judge([a for a, _ in found[:count]], [b for _, b in found[:count]], len(found), early=early)
        if told.final:
            return told
    return told


def rate(trials: int, seed: int, one: Callable[[random.Random], bool]) -> float:
    source = random.Random(seed)
    return sum(one(source) for _ in range(trials)) / trials


@pytest.mark.parametrize("early", [False, True], ids=["one-look", "looked-at-after-each-pair"])
@pytest.mark.parametrize("count", [3, 5, 10])
def test_an_arm_that_is_the_base_is_hardly_ever_kept(count: int, early: bool) -> None:
    def kept(source: random.Random) -> bool:
        return decided(pairs(source, count, gain=0, cv=0.005, drift=0.03), early).verdict == "KEEP"

    assert rate(4000, 1, kept) <= 0.05


def test_looking_often_decides_nothing_wrongly_without_drift_either() -> None:
    def wrong(source: random.Random) -> bool:
        return decided(pairs(source, 8, gain=0, cv=0.005), True).verdict in ("KEEP", "REVERT")

    assert rate(4000, 2, wrong) <= 0.05 + 0.007


def test_a_gain_is_found_as_often_as_theory_says() -> None:
    """Two per cent at a CV of one, with five pairs; theory is the noncentral t."""

    def found(source: random.Random) -> bool:
        return decided(pairs(source, 5, gain=0.02, cv=0.01), False).verdict == "KEEP"

    theory = stats.power(math.log(1.02), 0.01 * math.sqrt(2), 5)
    assert theory == pytest.approx(0.65435, abs=1e-4)  # scipy.stats.nct
    assert rate(6000, 3, found) == pytest.approx(theory, abs=0.03)


@pytest.mark.parametrize("count", [3, 5, 10])
def test_the_interval_covers_the_truth(count: int) -> None:
    def covered(source: random.Random) -> bool:
        found = pairs(source, count, gain=0.02, cv=0.01)
        told = stats.interval([a for a, _ in found], [b for _, b in found])
        assert told is not None
        return told.low <= 1.02 <= told.high

    assert 0.93 <= rate(6000, 4 + count, covered) <= 0.97


def test_a_large_gain_is_decided_at_the_first_look() -> None:
    told = decided(pairs(random.Random(5), 10, gain=1.2, cv=0.01), True)
    assert (told.verdict, told.pairs) == ("KEEP", 3)
    worse = decided(pairs(random.Random(5), 10, gain=-0.88, cv=0.01), True)
    assert (worse.verdict, worse.pairs) == ("REVERT", 3)


def test_a_hopeless_case_ends_before_the_last_pair() -> None:
    source = random.Random(6)
    ended = [decided(pairs(source, 10, gain=0, cv=0.01), True) for _ in range(200)]
    assert sum(one.pairs < 10 for one in ended) > 100
    assert {one.verdict for one in ended if one.pairs < 10} <= {"INCONCLUSIVE", "REVERT", "KEEP"}


def test_fewer_than_three_pairs_give_no_interval() -> None:
    assert stats.interval([1.0, 1.0], [2.0, 2.0]) is None
    told = judge([880.0, 881.0], [1950.0, 1951.0], 2, early=True)
    assert (told.verdict, told.interval) == ("INCONCLUSIVE", None)
    assert told.final and "an interval needs 3 pairs, there are 2; about 1 more pairs" in told.told()


def test_what_can_be_found_and_what_would_settle_it_agree() -> None:
    for count in (3, 5, 12):
        size = stats.detectable(0.01, count)
        assert size is not None
        assert stats.power(math.log1p(size / 100), 0.01, count) == pytest.approx(stats.POWER, abs=1e-3)
        assert stats.pairs_to_settle(math.log1p(size / 100) + 1e-9, 0.01) == count
    assert stats.detectable(0.01, 2) is None
    assert stats.pairs_to_settle(0.0, 0.01) is None
    assert stats.pairs_to_settle(0.0, 0.0) is None


def test_values_without_any_scatter_are_judged() -> None:
    """A clock of whole seconds can do this; nothing divides by zero."""
    assert judge([100.0] * 3, [110.0] * 3, 5, early=True).verdict == "KEEP"
    assert judge([100.0] * 3, [100.0] * 3, 3, early=True).verdict == "INCONCLUSIVE"


def test_the_unpaired_interval_covers_the_truth_as_often_as_it_says() -> None:
    source = random.Random(11)
    held = 0
    for _ in range(4000):
        base = [100 * math.exp(source.gauss(0, 0.01)) for _ in range(4)]
        arm = [103 * math.exp(source.gauss(0, 0.01)) for _ in range(5)]
        told = stats.unpaired(base, arm)
        assert told is not None
        held += told.low <= 1.03 <= told.high
    assert 0.93 <= held / 4000 <= 0.98
    assert stats.unpaired([1.0, 2.0], [1.0, 2.0, 3.0]) is None

"""Figures of an experiment, in the words that screen and shell share."""

from __future__ import annotations

import re

from console.domain.experiment import ArmOutcome, ExperimentState, Rated, Verdict
from console.operations.experiment_words import change_words, noise_words, rollback_words, scatter_words
from console.operations.experiments_noise import ASSUMED, Noise


def test_a_change_has_its_interval_or_says_why_not() -> None:
    assert (
        change_words(Rated(8, 880.0, 1950.0, pairs=5, ratio=2.22, low=2.18, high=2.25), "")
        == "+122.0 % [+118.0, +125.0]"
    )
    assert change_words(Rated(8, 880.0, 236.0, pairs=2, ratio=0.12), "2 of 3 pairs") == "-88.0 % (2 of 3 pairs)"
    assert change_words(Rated(8, None, None), "nothing") == "—"


def test_a_rollback_tells_what_was_relaunched_and_when() -> None:
    arm = ArmOutcome("fusion", "wide", Verdict.REVERT)
    assert rollback_words(arm) == ""
    back = ArmOutcome("fusion", "wide", Verdict.REVERT, rolled_back_to="wide", rolled_back_at=60.0, relaunched_at=180.0)
    assert re.fullmatch(r"rolled back \d\d:\d1, wide relaunched, ready \d\d:\d3", rollback_words(back))


def test_noise_is_told_with_its_parts_where_they_are_known() -> None:
    def said(*parts: float | None) -> str:
        whole, within, between = parts
        return scatter_words(
            ExperimentState("x", "x", "h", 0.0, noise_pct=whole, noise_within_pct=within, noise_between_pct=between)
        )

    assert said(1.0, 0.3, 0.64) == (
        "two equal measurements differed by 1.00 % here (0.30 % within a launch, 0.64 % between launches)"
    )
    assert said(1.0, None, None) == "two equal measurements differed by 1.00 % here"
    assert said(None, 0.3, None) == "measurements of one launch differed by 0.30 % here"
    assert said(None, None, None) == ""
    told = list(noise_words(Noise(1.0, 0.5, None, 3, 1, "0.50 % within a launch", ASSUMED)))
    assert told == ["A/A noise: two equal arms differ by 1.00 %; 0.50 % within a launch", ASSUMED]

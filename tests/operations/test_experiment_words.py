"""Figures of an experiment, in the words that screen and shell share."""

from __future__ import annotations

import re

from console.domain.experiment import ArmOutcome, Rated, Verdict
from console.operations.experiment_words import change_words, rollback_words


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

"""What may be kept as a winner, and what of a sealed one was edited, each in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.config.profiles import parse_profile
from console.domain.profile import BenchSection
from console.errors import RefusedError
from console.journal.records import RunEntry
from console.operations.drifts import Found, check_seal
from console.operations.winner import plain_profile, seal_of
from console.operations.winner_fit import as_planned, edits, must_be_rebuildable
from tests.journal.test_book import ONE

BENCH = BenchSection(input_tokens=128, output_tokens=8)
PLAN: dict[str, Any] = {"input_tokens": 128, "output_tokens": 8, "ignore_eos": True, "request_rate_req_s": None}
GOOD = replace(ONE, protocol=PLAN, tainted=())
TEXT = """schema = 1
[launch]
port = 30000
[launch.args]
tp-size = 8
[launch.env]
A = "1"
[patches]
on = ["p"]
[bench]
output_tokens = 8
[winner]
run = "r"
"""


def _run(*measurements: Any, git: Any = None) -> RunEntry:
    return RunEntry("r", "box", "p", "sglang", 1.0, "", {"git": git}, measurements)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"input_tokens": 1024}, "input_tokens 1024 instead of 128"),
        ({"output_tokens": 256}, "output_tokens 256 instead of 8"),
        ({"ignore_eos": False}, "ignore_eos off instead of on"),
        ({"request_rate_req_s": 5.0}, "request_rate_req_s 5 instead of none"),
    ],
)
def test_a_run_measured_by_another_protocol_is_refused_and_beside_others_left_out(
    told: dict[str, Any], said: str
) -> None:
    other = replace(GOOD, protocol=PLAN | told)
    with pytest.raises(RefusedError, match="another protocol") as caught:
        as_planned(_run(other), BENCH)
    assert said in caught.value.detail
    assert as_planned(_run(GOOD, other), BENCH).measurements == (GOOD,)


def test_what_a_measurement_does_not_tell_excludes_nothing() -> None:
    assert as_planned(_run(ONE), BENCH).measurements == (ONE,)
    assert as_planned(_run(), BENCH).measurements == ()


def test_uncommitted_changes_that_no_patch_holds_are_refused_by_name() -> None:
    git = {"commit": "a", "uncommitted": {"python/sglang/srt/a.py": "11", "python/sglang/srt/b.py": "22"}}
    must_be_rebuildable(_run(git=git), ["srt/a.py", "srt/b.py"])
    must_be_rebuildable(_run(git=None), [])
    with pytest.raises(RefusedError, match=r"no patch of its profile holds: python/sglang/srt/b\.py$") as caught:
        must_be_rebuildable(_run(git=git), ["srt/a.py"])
    assert "patch capture" in caught.value.hint and "--dirty" in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tp-size = 8", "tp-size = 4", ("argument tp-size", 8, 4)),
        ("tp-size = 8", "tp-size = 8\nextra = true", ("argument extra", "none", True)),
        ('A = "1"', 'A = "2"', ("environment A", "1", "2")),
        ('A = "1"', "", ("environment A", "1", "none")),
        ('on = ["p"]', "on = []", ("[patches] on", ["p"], ["none"])),
        ("output_tokens = 8", "output_tokens = 16", ("bench output_tokens", 8, 16)),
    ],
)
def test_an_edit_of_a_sealed_profile_is_named(old: str, new: str, said: tuple[object, ...]) -> None:
    sealed = plain_profile(parse_profile(TEXT, "won.toml"))
    assert edits(parse_profile(TEXT, "won.toml"), sealed) == []
    edited = parse_profile(TEXT.replace(old, new), "won.toml")
    assert [(one.what, one.saved, one.now) for one in edits(edited, sealed)] == [said]
    seal = seal_of(edited, sealed)
    found = Found()
    check_seal(edited, {"seal": seal, "profile": sealed}, found)
    assert [one.what for one in found.drifts] == [said[0]]
    found = Found()
    check_seal(edited, {"seal": "0" * 64, "profile": sealed}, found)  # its evidence was edited, too
    assert [one.what for one in found.drifts] == [said[0], "evidence under [winner]"]

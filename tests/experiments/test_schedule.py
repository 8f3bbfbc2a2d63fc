"""The order of steps, as a pretend host would live through it; cut anywhere, it goes on to the same end."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from console.domain.experiment import BASE, Verdict
from console.experiments import schedule
from console.experiments.progress import CONFIRM, Progress, Rules, folded, take
from console.experiments.report import blocks_of
from console.experiments.schedule import Finish, Leave, Refute, RollBack, Settle, Step, Visit, next_step

Event = tuple[str, float, Mapping[str, Any]]


class Host:
    """A pretend host: what each arm is worth, and every step that was done."""

    def __init__(self, rules: Rules, speeds: Mapping[str, float], seed: int = 1, cv: float = 0.005) -> None:
        self.rules = rules
        self.speeds = speeds
        self.source = random.Random(seed)
        self.cv = cv
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self.same: dict[str, str] = {}
        self.dead: set[str] = set()
        self.each = False
        """Whether every visit has a launch of its own."""
        self.taint: Callable[[Visit], str] = lambda visit: ""

    def happened(self, kind: str, **data: Any) -> None:
        self.events.append((kind, float(len(self.events)), data))

    def enter(self, arm: str, after: str = "") -> bool:
        self.happened("step", arm=arm, step="launch")
        if arm in self.dead:
            self.happened("verdict", arm=arm, verdict="failed", reason="out of memory")
            return False
        self.happened("ready", arm=arm, run=f"run-{len(self.events)}", after=after)
        return True

    def check(self, arm: str) -> bool:
        if arm in self.same:
            self.happened("verdict", arm=arm, verdict="same arm", same_as=self.same[arm])
            return False
        self.happened("checked", arm=arm)
        return True

    def do(self, step: Step) -> None:
        self.steps.append(step)
        match step:
            case Visit(stage, block, arm):
                told = folded(self.events)
                used = told.run_visits > 0 and (self.each or stage.startswith(CONFIRM))
                if (told.current != arm or used) and not self.enter(arm):
                    return
                if arm not in folded(self.events).checked and not self.check(arm):
                    return
                tainted = self.taint(step)
                seen = random.Random(f"{stage} {block} {arm}")  # the same however often it is asked
                value = self.speeds[arm] * (1 + self.cv * seen.gauss(0, 1))
                values = {} if tainted else {str(self.rules.decide_at): value}
                self.happened("measured", stage=stage, block=block, arm=arm, values=values, tainted=tainted)
            case Settle(arm, verdict, reason):
                self.happened("verdict", arm=arm, verdict=verdict.value, reason=reason)
            case RollBack(arm, to):
                self.happened("rolled_back", arm=arm)
                self.enter(to, arm)
            case Refute(arm, reason):
                self.happened("refuted", arm=arm, reason=reason)
            case Leave(arm):
                if folded(self.events).current != arm:
                    self.enter(arm)
                self.happened("left", arm=arm)

    def walk(self, limit: int = 400) -> Progress:
        for _ in range(limit):
            step = next_step(self.rules, folded(self.events))
            if isinstance(step, Finish):
                return folded(self.events)
            self.do(step)
        raise AssertionError("it never ends")

    @property
    def visits(self) -> list[str]:
        return [f"{step.block}{step.arm}" for step in self.steps if isinstance(step, Visit)]


def rules(against: Mapping[str, str], **fields: Any) -> Rules:
    return Rules((BASE, *against), against, decide_at=256, concurrency=(256,), **fields)


def test_blocks_go_forth_and_back_and_a_winner_is_measured_afresh() -> None:
    host = Host(rules({"wide": BASE}, repeats=5), {BASE: 880, "wide": 1950})
    told = host.walk()
    assert host.visits[:6] == ["0base", "0wide", "1wide", "1base", "2base", "2wide"]  # clear after three pairs
    assert host.visits[6:] == ["0base", "0wide", "1wide", "1base", "2base", "2wide"]
    assert told.settled["wide"].verdict is Verdict.KEEP
    assert told.left_in == "wide"


def test_each_change_is_compared_with_the_arm_that_it_changes() -> None:
    arms = {"wide": BASE, "fusion": "wide", "cutlass": "wide"}
    host = Host(rules(arms, repeats=5, confirm=0), {BASE: 880, "wide": 1950, "fusion": 236, "cutlass": 2126})
    told = host.walk()
    verdicts = {name: settled.verdict.value for name, settled in told.settled.items()}
    assert verdicts == {"wide": "KEEP", "fusion": "REVERT", "cutlass": "KEEP"}
    backs = [(step.arm, step.to) for step in host.steps if isinstance(step, RollBack)]
    assert backs == [("fusion", "wide")]
    assert told.left_in == "cutlass"
    assert told.relaunched["fusion"] > told.rolled_back["fusion"]
    after = next(place for place, step in enumerate(host.steps) if isinstance(step, RollBack))
    assert not any(isinstance(step, Visit) and step.arm == "fusion" for step in host.steps[after:])


def test_an_arm_that_resolves_alike_is_not_measured_and_what_builds_on_it_is_compared_with_what_it_is() -> None:
    host = Host(rules({"tuned": BASE, "more": "tuned"}, confirm=0), {BASE: 880, "more": 1950})
    host.same["tuned"] = BASE
    told = host.walk()
    assert told.settled["tuned"].verdict is Verdict.SAME_ARM
    assert not [key for key in told.visits if key[2] == "tuned"]
    assert told.settled["more"].verdict is Verdict.KEEP
    assert {stage for stage, _, _ in told.visits} == {BASE}


def test_a_dead_arm_is_kept_with_its_cause_and_the_others_go_on() -> None:
    host = Host(rules({"dead": BASE, "child": "dead", "wide": BASE}, confirm=0), {BASE: 880, "wide": 1950})
    host.dead.add("dead")
    told = host.walk()
    assert told.settled["dead"].verdict is Verdict.FAILED and told.settled["dead"].reason == "out of memory"
    assert told.settled["child"].verdict is Verdict.SKIPPED
    assert told.settled["wide"].verdict is Verdict.KEEP
    assert told.left_in == "wide"


def test_nothing_won_leaves_the_base_running() -> None:
    host = Host(rules({"slow": BASE}, repeats=3), {BASE: 880, "slow": 870})
    told = host.walk()
    assert told.settled["slow"].verdict in (Verdict.REVERT, Verdict.INCONCLUSIVE)
    assert told.left_in == told.current == BASE


def test_a_winner_by_luck_is_refuted_and_not_left_running() -> None:
    lucky = Host(rules({"same": BASE}, repeats=3), {BASE: 880, "same": 880})
    for block in range(3):
        for arm, value in ((BASE, 880.0 + block), ("same", 890.0 + block)):
            lucky.happened("measured", stage=BASE, block=block, arm=arm, values={"256": value}, tainted="")
    told = lucky.walk()
    assert told.settled["same"].verdict is Verdict.KEEP
    assert "measured afresh against base" in told.refuted["same"]
    again = Host(rules({"same": BASE}, repeats=3), {BASE: 880, "same": 886}, cv=0.004)
    again.events = lucky.events[:6]
    assert re.search(r"INCONCLUSIVE .*; confirm = \d+ would probably settle it", again.walk().refuted["same"])
    assert told.left_in == BASE


def test_tainted_visits_are_made_good_by_further_blocks_and_not_for_ever() -> None:
    once = Host(rules({"wide": BASE}, repeats=3, confirm=0), {BASE: 880, "wide": 1950})
    once.taint = lambda visit: "3 retractions" if (visit.block, visit.arm) == (1, "wide") else ""
    assert once.walk().settled["wide"].verdict is Verdict.KEEP
    always = Host(rules({"wide": BASE}, repeats=3, confirm=0), {BASE: 880, "wide": 1950})
    always.taint = lambda visit: "3 retractions" if visit.arm == "wide" else ""
    told = always.walk().settled["wide"]
    assert told.verdict is Verdict.INCONCLUSIVE and "3 retractions" in told.reason
    assert len(folded(always.events).visits) == 4, "what spoils every measurement of an arm alike spoils the rest, too"
    varied = Host(rules({"wide": BASE}, repeats=3, confirm=0), {BASE: 880, "wide": 1950})
    varied.taint = lambda visit: f"{visit.block + 1} retractions" if visit.arm == "wide" and visit.block < 2 else ""
    assert varied.walk().settled["wide"].verdict is Verdict.KEEP


def test_two_pairs_are_no_verdict() -> None:
    told = Host(rules({"wide": BASE}, repeats=2), {BASE: 880, "wide": 1950}).walk()
    assert told.settled["wide"].verdict is Verdict.INCONCLUSIVE
    assert told.left_in == BASE


def test_without_interleaving_each_arm_is_measured_in_one_go() -> None:
    host = Host(rules({"wide": BASE}, repeats=3, confirm=0, interleave=False), {BASE: 880, "wide": 1950})
    host.each = True
    assert host.walk().settled["wide"].verdict is Verdict.KEEP
    assert host.visits == ["0base", "1base", "2base", "0wide", "1wide", "2wide"]


def test_pairs_of_one_launch_each_are_one_pair_and_no_verdict() -> None:
    """An arm that is the base was once kept at +2.4 %: all of its measurements came from one launch."""
    host = Host(rules({"same": BASE}, repeats=5, interleave=False), {BASE: 880, "same": 901})
    told = host.walk()
    same = told.settled["same"]
    assert same.verdict is Verdict.INCONCLUSIVE and told.left_in == BASE
    assert same.reason.startswith("5 pairs come from 1 pair of launches, an interval needs 3; relaunch = ")
    judged = schedule.judged(host.rules, told, "same", last=True)
    assert judged.interval is None and judged.more_pairs is None


def test_a_small_gain_of_pairs_that_share_launches_is_kept_once_each_has_its_own() -> None:
    arms = rules({"wide": BASE}, repeats=4, confirm=0, early_stop=False)
    shared, apart = (Host(arms, {BASE: 880, "wide": 890}, cv=0.003) for _ in range(2))
    apart.each = True
    told = shared.walk().settled["wide"]
    assert told.verdict is Verdict.INCONCLUSIVE
    assert "clear only if launches do not differ: 4 pairs from 3 + 2 launches; relaunch" in told.reason
    assert apart.walk().settled["wide"].verdict is Verdict.KEEP


def test_less_is_better_where_the_metric_says_so() -> None:
    host = Host(rules({"wide": BASE}, metric="energy_j_per_token", confirm=0), {BASE: 2.2, "wide": 1.0})
    assert host.walk().settled["wide"].verdict is Verdict.KEEP


ARMS = {"wide": BASE, "tuned": "wide", "fusion": "wide", "cutlass": "tuned"}
SPEEDS = {BASE: 880, "wide": 1950, "fusion": 236, "cutlass": 2126}


def whole() -> Host:
    host = Host(rules(ARMS), SPEEDS)
    host.same["tuned"] = "wide"
    host.walk()
    return host


@pytest.mark.parametrize("cut", range(0, len(whole().events), 3))
def test_cut_anywhere_it_ends_with_the_same_verdicts(cut: int) -> None:
    first = whole()
    again = Host(rules(ARMS), SPEEDS)
    again.same["tuned"] = "wide"
    again.events = first.events[:cut]
    told, wanted = again.walk(), folded(first.events)
    assert {name: one.verdict for name, one in told.settled.items()} == {
        name: one.verdict for name, one in wanted.settled.items()
    }
    assert told.visits == wanted.visits
    assert (told.left_in, told.current) == (wanted.left_in, wanted.current) == ("cutlass", "cutlass")


def test_the_deepest_kept_arm_wins() -> None:
    progress = folded(whole().events)
    assert schedule.candidate(rules(ARMS), progress) == "cutlass"
    take(progress, "refuted", 0.0, {"arm": "cutlass", "reason": ""})
    assert schedule.candidate(rules(ARMS), progress) == "wide"


def test_rounds_tell_what_was_measured_what_is_under_way_and_what_is_planned() -> None:
    host = Host(rules({"wide": BASE, "dead": BASE}, repeats=4), {BASE: 880, "wide": 1950})
    host.dead.add("dead")
    seen: list[list[tuple[str, str, int]]] = []
    for _ in range(60):
        told = folded(host.events)
        seen.append([(one.stage, " ".join(one.arms), one.done) for one in blocks_of(host.rules, told)])
        step = next_step(host.rules, told)
        if isinstance(step, Finish):
            break
        host.do(step)
    planned = ["base wide dead", "dead wide base"] * 2
    assert seen[0] == [(BASE, arms, 0) for arms in planned]
    assert [(BASE, "base wide", 2), (BASE, "wide base", 1)] in [one[:2] for one in seen]  # the dead one left
    fresh = [(f"{CONFIRM} wide", arms, 0) for arms in ("base wide", "wide base", "base wide")]
    assert any(one[-3:] == fresh for one in seen)
    whole = [(BASE, arms, 2) for arms in ("base wide", "wide base", "base wide")]
    assert seen[-1] == whole + [(stage, arms, 2) for stage, arms, _ in fresh]

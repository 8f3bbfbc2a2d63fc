"""The order of an experiment: stages of arms with one parent, blocks AB BA, verdicts, the winner's fresh measurement.

The next step follows from what happened alone, so that an experiment that was cut anywhere goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.domain.experiment import BASE, Verdict
from console.experiments.progress import CONFIRM, Progress, Rules
from console.experiments.verdicts import Judged, judge

LOST_BLOCKS = 2
"""Tainted visits of one arm in a stage that are made good by further blocks."""

SPOILT_BLOCKS = 2
"""An arm whose every visit was tainted alike in so many blocks is measured no more: what spoils it stays."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Bring an arm into force and measure it."""

    stage: str
    block: int
    arm: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Write down a verdict."""

    arm: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Take an arm's changes back: patches, arguments, and the server relaunched."""

    arm: str
    to: str


@dataclass(frozen=True, slots=True)
class Refute:
    """The winner did not win again."""

    arm: str
    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the host in an arm: the winner, or the base."""

    arm: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do."""


Step = Visit | Settle | RollBack | Refute | Leave | Finish

BAD = (Verdict.REVERT, Verdict.FAILED, Verdict.SAME_ARM)
GONE = (Verdict.REVERT, Verdict.FAILED, Verdict.REFUSED, Verdict.SKIPPED)


def next_step(rules: Rules, progress: Progress) -> Step:
    """Return what is to be done next."""
    for name in rules.arms:
        settled = progress.settled.get(name)
        if settled and settled.verdict in BAD and name in progress.entered and name not in progress.relaunched:
            return RollBack(name, progress.same(rules.against[name]))
    for parent in stages(rules, progress):
        step = _in_stage(rules, progress, parent)
        if step is not None:
            return step
    winner = candidate(rules, progress)
    if winner and rules.confirm:
        step = _confirming(rules, progress, winner)
        if step is not None:
            return step
    if not progress.left_in and progress.entered:
        return Leave(winner or BASE)
    return Finish()


def stages(rules: Rules, progress: Progress) -> tuple[str, ...]:
    """Return the arms that others are compared with, in the order of the file; equal ones once."""
    parents = (progress.same(rules.against[name]) for name in rules.arms[1:])
    return tuple(dict.fromkeys(parents))


def children(rules: Rules, progress: Progress, parent: str) -> tuple[str, ...]:
    """Return the arms of a stage."""
    return tuple(name for name in rules.arms[1:] if progress.same(rules.against[name]) == parent)


def order(block: int, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the order of a block: every other one backwards, so that a drift cancels and neighbours share a launch."""
    return tuple(arms) if block % 2 == 0 else tuple(reversed(arms))


def judged(rules: Rules, progress: Progress, arm: str, *, at: int = 0, stage: str = "", last: bool = False) -> Judged:
    """Return the verdict on an arm from its pairs so far."""
    base = progress.same(rules.against[arm])
    pairs = progress.pairs(stage or base, base, arm, at or rules.decide_at)
    return judge(
        pairs.base,
        pairs.arm,
        len(pairs) if last else rules.repeats,
        early=rules.early_stop and rules.interleave,
        more_is_better=rules.measure_of.more_is_better,
        min_gain_pct=rules.min_gain_pct,
        launches=pairs.launches,
    )


def candidate(rules: Rules, progress: Progress) -> str:
    """Return the kept arm that is the furthest above the base, and was not refuted."""
    kept = [
        name
        for name, settled in progress.settled.items()
        if settled.verdict is Verdict.KEEP and name not in progress.refuted
    ]
    return max(kept, key=lambda name: total_gain(rules, progress, name), default="")


def total_gain(rules: Rules, progress: Progress, arm: str) -> float:
    """Return the log of an arm's gain over the base, step by step down to it."""
    gain, sign = 0.0, 1 if rules.measure_of.more_is_better else -1
    while arm in rules.against:
        arm = progress.same(arm)
        if arm == BASE:
            break
        parent = progress.same(rules.against[arm])
        pairs = progress.pairs(parent, parent, arm, rules.decide_at)
        gain += sign * sum(pairs.logs) / max(1, len(pairs))
        arm = parent
    return gain


def confirmed_against(rules: Rules, progress: Progress, winner: str) -> tuple[str, ...]:
    """Return what the winner must beat again: the base, and the step below it where that is another."""
    return tuple(dict.fromkeys((BASE, progress.same(rules.against[winner]))))


def confirm_stage(winner: str) -> str:
    """Return the name of a winner's own fresh stage: another winner has another one."""
    return f"{CONFIRM} {winner}"


def _in_stage(rules: Rules, progress: Progress, parent: str) -> Step | None:
    arms = [name for name in children(rules, progress, parent) if name not in progress.settled]
    if not arms:
        return None
    lost = progress.settled.get(parent)
    if lost is not None and lost.verdict in GONE:
        return Settle(arms[0], Verdict.SKIPPED, f"it builds on {parent}: {lost.verdict}")
    blocks = rules.repeats + _made_good(progress, parent, (parent, *arms))
    for visit in _visits(rules, parent, blocks, (parent, *arms)):
        begun = any(progress.measured(parent, visit.block, arm) for arm in (parent, *arms))
        if not begun and (due := _due(rules, progress, parent, arms, visit.block)) is not None:
            return due
        if not progress.measured(parent, visit.block, visit.arm):
            return visit
    return _due(rules, progress, parent, arms, blocks)


def _visits(rules: Rules, parent: str, blocks: int, arms: Sequence[str]) -> list[Visit]:
    if rules.interleave:
        return [Visit(parent, block, arm) for block in range(blocks) for arm in order(block, arms)]
    return [Visit(parent, block, arm) for arm in arms for block in range(blocks)]


def _due(rules: Rules, progress: Progress, parent: str, arms: Sequence[str], block: int) -> Settle | None:
    """Return the verdict that is due once all blocks before this one are whole."""
    if rules.interleave and not all(
        progress.measured(parent, before, arm) for before in range(block) for arm in (parent, *arms)
    ):
        return None
    for arm in arms:
        whole = all(progress.measured(parent, at, name) for at in range(rules.repeats) for name in (parent, arm))
        if block < 1 or (not rules.interleave and not whole):
            continue
        if why := _spoilt(progress, parent, arm, block):
            return Settle(arm, Verdict.INCONCLUSIVE, why)
        told = judged(rules, progress, arm)
        spent = block >= rules.repeats + _made_good(progress, parent, (parent, *arms))
        if told.final or spent:
            return Settle(arm, told.verdict, told.told() if told.final else _too_few(progress, parent, arm))
    return None


def _spoilt(progress: Progress, parent: str, arm: str, block: int) -> str:
    """Return why further pairs would be as useless as those before; empty when they need not be."""
    for name in (parent, arm) if block >= SPOILT_BLOCKS else ():
        told = [progress.taints.get((parent, at, name), "") for at in range(block)]
        if told[0] and len(set(told)) == 1:
            return f"no measurement of {name} may be compared: {told[0]}; no more were made, `tolerate` would take them"
    return ""


def _too_few(progress: Progress, parent: str, arm: str) -> str:
    why = [text for (stage, _, name), text in progress.taints.items() if stage == parent and name in (parent, arm)]
    return f"{len(why)} measurements must not be compared: {why[-1]}" if why else "too few pairs"


def _made_good(progress: Progress, parent: str, arms: Sequence[str]) -> int:
    """Return how many further blocks make up for tainted visits."""
    spoiled = {block for (stage, block, arm), why in progress.taints.items() if stage == parent and arm in arms and why}
    return min(LOST_BLOCKS, len(spoiled))


def _confirming(rules: Rules, progress: Progress, winner: str) -> Step | None:
    stage, rivals = confirm_stage(winner), confirmed_against(rules, progress, winner)
    arms = (*rivals, winner)
    blocks = rules.confirm + _made_good(progress, stage, arms)
    for block in range(blocks):
        for arm in order(block, arms):
            if not progress.measured(stage, block, arm):
                return Visit(stage, block, arm)
    for rival in rivals:
        told = _fresh(rules, progress, stage, rival, winner)
        if told.verdict is not Verdict.KEEP:
            more = f"; confirm = {told.pairs + told.more_pairs} would probably settle it" if told.more_pairs else ""
            return Refute(winner, f"measured afresh against {rival}: {told.verdict}{_change(told)}{more}")
    return None


def _fresh(rules: Rules, progress: Progress, stage: str, rival: str, winner: str) -> Judged:
    pairs = progress.pairs(stage, rival, winner, rules.decide_at)
    return judge(
        pairs.base,
        pairs.arm,
        max(1, len(pairs)),
        early=False,
        more_is_better=rules.measure_of.more_is_better,
        launches=pairs.launches,
    )


def _change(told: Judged) -> str:
    if told.interval is None:
        return f", {told.reason}"
    return f" {told.interval.change_pct:+.1f} % [{told.interval.low_pct:+.1f}, {told.interval.high_pct:+.1f}]"

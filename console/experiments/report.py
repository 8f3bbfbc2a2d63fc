"""An experiment told: its entry in the journal made what tables, documents and screens show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from console.domain.experiment import BASE, Arm, ArmOutcome, Block, ExperimentSpec, ExperimentState, Rated, Verdict
from console.experiments import schedule
from console.experiments.components import Scatter, scatter
from console.experiments.progress import CONFIRM, Pairs, Progress, Rules, folded
from console.experiments.verdicts import ledger, rated
from console.journal.experiments import ExperimentEntry

GAPS_NEEDED = 2
"""Times between visits that an estimate needs."""


def plan_of(spec: ExperimentSpec, arms: tuple[Arm, ...]) -> dict[str, Any]:
    """Return what of a plan goes into the journal: all that its report needs."""
    names = (
        "title",
        "metric",
        "decide_at",
        "repeats",
        "confirm",
        "min_gain_pct",
        "early_stop",
        "interleave",
        "relaunch",
    )
    shown = ("name", "against", "hypothesis", "changes", "same_as", "reason", "refused", "combines")
    return {
        **{name: getattr(spec, name) for name in names},
        "base": spec.base.name,
        "concurrency": list(spec.bench.concurrency),
        "target": target_words(spec),
        "arms": [{name: _plain(getattr(arm, name)) for name in shown} for arm in arms],
    }


def target_words(spec: ExperimentSpec) -> str:
    """Return the profile's target: from another model it is a line to look at, never a comparison."""
    target = spec.base.target
    if target.output_tok_s is None:
        return ""
    return (
        f"target {target.output_tok_s:,.0f} tok/s, from {target.origin or 'elsewhere'}: not measured here, not compared"
    )


def rules_of(plan: Mapping[str, Any]) -> Rules:
    """Return what the next step of an experiment depends on."""
    return Rules(
        arms=tuple(one["name"] for one in plan["arms"]),
        against={one["name"]: one["against"] for one in plan["arms"] if one["against"]},
        concurrency=tuple(plan["concurrency"]),
        **{
            name: plan[name]
            for name in ("repeats", "confirm", "metric", "decide_at", "min_gain_pct", "early_stop", "interleave")
        },
    )


def progress_of(entry: ExperimentEntry) -> Progress:
    """Return how far an experiment is."""
    return folded((event.kind, event.at, event.data) for event in entry.events)


def state_of(entry: ExperimentEntry) -> ExperimentState:
    """Return an experiment as it stands."""
    plan, progress, rules = entry.plan, progress_of(entry), rules_of(entry.plan)
    outcomes = tuple(_outcome(one, rules, progress) for one in plan["arms"])
    winner = schedule.candidate(rules, progress) if progress.left_in not in ("", BASE) else ""
    noise = _noise(rules, progress)
    return ExperimentState(
        id=entry.id,
        name=entry.name,
        host=entry.host,
        created_at=entry.created_at,
        title=plan["title"],
        badge=entry.badge,
        operator=entry.operator,
        path=entry.path,
        digest=entry.digest,
        base=plan["base"],
        metric=plan["metric"],
        decide_at=plan["decide_at"],
        concurrency=tuple(plan["concurrency"]),
        repeats=plan["repeats"],
        target=plan["target"],
        outcomes=outcomes,
        ledger=_ledger(plan, rules, progress),
        where=entry.where,
        current=progress.current,
        done=len(progress.visits),
        planned=len(progress.visits) + (left := visits_left(rules, progress)),
        left_s=_left_s(progress, left),
        winner=winner,
        confirmed=_confirmed(rules, progress, winner) if winner and rules.confirm else (),
        finished=entry.finished,
        notes=tuple(progress.notes),
        noise_pct=_percent(noise.single, math.sqrt(2)) if noise else None,
        noise_within_pct=_percent(noise.within) if noise else None,
        noise_between_pct=_percent(noise.between) if noise else None,
        error=progress.error,
        blocks=blocks_of(rules, progress),
    )


def blocks_of(rules: Rules, progress: Progress) -> tuple[Block, ...]:
    """Return the rounds that were measured, the one under way, and those of its stage that are planned."""
    found: dict[tuple[str, int], list[str]] = {}
    for stage, block, arm in progress.visits:
        found.setdefault((stage, block), []).append(arm)
    done = {key: len(arms) for key, arms in found.items()}
    step = schedule.next_step(rules, progress)
    if isinstance(step, schedule.Visit):
        if step.stage.startswith(CONFIRM):
            winner = schedule.candidate(rules, progress)
            arms, count = (*schedule.confirmed_against(rules, progress, winner), winner), rules.confirm
        else:
            children = schedule.children(rules, progress, step.stage)
            arms = (step.stage, *(name for name in children if name not in progress.settled))
            count = rules.repeats
        for block in range(max(count, step.block + 1)):
            have = found.setdefault((step.stage, block), [])
            have += [arm for arm in schedule.order(block, arms) if arm not in have]
    return tuple(Block(stage, tuple(arms), done.get((stage, at), 0)) for (stage, at), arms in found.items())


def _so_far(rules: Rules, progress: Progress, arm: str) -> str:
    """Return where an arm stands that is not decided yet."""
    told = schedule.judged(rules, progress, arm)
    if told.interval is None:
        return told.reason if told.pairs else ""
    low, high = told.interval.low, told.interval.high
    if low <= 1.0 <= high:
        more = told.more_pairs
        return "not clear so far" + (f", about {more} more pairs would settle it" if more else "")
    ahead = (low > 1.0) is rules.measure_of.more_is_better
    return f"{'ahead' if ahead else 'behind'} so far, not yet by enough to stop early"


def _left_s(progress: Progress, visits: int) -> float | None:
    """Return how long so many visits take by those before, launches between them included."""
    gaps = [later - sooner for sooner, later in pairwise(progress.measured_at)]
    return median(gaps) * visits if len(gaps) >= GAPS_NEEDED and not progress.finished else None


def visits_left(rules: Rules, progress: Progress) -> int:
    """Return how many visits there will be at most from here on, the winner's fresh ones included."""
    left = 0
    for parent in schedule.stages(rules, progress):
        open_arms = [name for name in schedule.children(rules, progress, parent) if name not in progress.settled]
        if open_arms:
            left += sum(
                not progress.measured(parent, block, arm)
                for block in range(rules.repeats)
                for arm in (parent, *open_arms)
            )
    if progress.finished or progress.left_in:
        return 0
    winner = schedule.candidate(rules, progress)
    if winner:
        arms = (*schedule.confirmed_against(rules, progress, winner), winner)
        stage = schedule.confirm_stage(winner)
        return left + sum(not progress.measured(stage, block, arm) for block in range(rules.confirm) for arm in arms)
    return left + (2 * rules.confirm if left else 0)


def _outcome(one: Mapping[str, Any], rules: Rules, progress: Progress) -> ArmOutcome:
    name, against = one["name"], one["against"]
    told = ArmOutcome(
        name=name,
        against=against,
        verdict=Verdict.OPEN,
        hypothesis=one["hypothesis"],
        changes=tuple(one["changes"]),
        rolled_back_to=progress.same(against) if against else "",
        rolled_back_at=progress.rolled_back.get(name),
        relaunched_at=progress.relaunched.get(name),
        runs=tuple(progress.runs.get(name, ())),
    )
    if not against:
        return replace(told, verdict=Verdict.OPEN, rungs=_base_rungs(rules, progress, name))
    settled = progress.settled.get(name)
    parent = progress.same(against)
    rungs = [rated(rung, progress.pairs(parent, parent, name, rung)) for rung in rules.concurrency]
    told = replace(told, rungs=tuple(rung for rung in rungs if rung.pairs))
    if settled is None:
        return replace(told, so_far=_so_far(rules, progress, name) if told.rungs else "")
    reason, verdict = settled.reason, settled.verdict
    if settled.verdict is Verdict.SAME_ARM:
        reason = f"same as {settled.same_as}: {reason}" if settled.same_as != parent else reason
    if name in progress.refuted:
        verdict, reason = Verdict.INCONCLUSIVE, progress.refuted[name]
    more = None
    if verdict is Verdict.INCONCLUSIVE and told.rungs:
        more = schedule.judged(rules, progress, name, last=True).more_pairs
    worse = _worse(rules, told) if verdict is Verdict.KEEP else ""
    return replace(told, verdict=verdict, reason="; ".join(filter(None, (reason, worse))), more_pairs=more)


def _worse(rules: Rules, told: ArmOutcome) -> str:
    """Return at which other concurrencies a kept arm lost."""
    sign = 1 if rules.measure_of.more_is_better else -1
    lost = [
        f"{rung.concurrency} ({100 * (rung.ratio - 1):+.1f} %)"
        for rung in told.rungs
        if rung.concurrency != rules.decide_at
        and rung.ratio and rung.low and rung.high
        and max(sign * math.log(rung.low), sign * math.log(rung.high)) < 0
    ]  # fmt: skip
    return f"worse at {', '.join(lost)}" if lost else ""


def _base_rungs(rules: Rules, progress: Progress, name: str) -> tuple[Rated, ...]:
    found = []
    for rung in rules.concurrency:
        visits = {
            key: values[rung] for key, values in progress.visits.items() if key[2] == name == key[0] and rung in values
        }
        seen, launches = tuple(visits.values()), [progress.launches.get(key, "") for key in visits]
        one = rated(rung, Pairs(seen, seen, tuple(zip(launches, launches, strict=True))))
        if seen:
            found.append(replace(one, ratio=None, low=None, high=None))
    return tuple(found)


def _ledger(plan: Mapping[str, Any], rules: Rules, progress: Progress) -> tuple[Any, ...]:
    effects, against, parts = {}, {}, {}
    for one in plan["arms"]:
        name = one["name"]
        if not one["against"]:
            continue
        parent = progress.same(one["against"])
        effects[name] = progress.pairs(parent, parent, name, rules.decide_at)
        against[name], parts[name] = parent, one["combines"]
    return ledger(effects, against, parts)


def _confirmed(rules: Rules, progress: Progress, winner: str) -> tuple[Rated, ...]:
    stage = schedule.confirm_stage(winner)
    found = [rated(rung, progress.pairs(stage, BASE, winner, rung)) for rung in rules.concurrency]
    return tuple(rung for rung in found if rung.pairs)


def _noise(rules: Rules, progress: Progress) -> Scatter | None:
    """Return the scatter between measurements of the same arm in the same stage, by their launches."""
    things: dict[tuple[str, str], dict[str, list[float]]] = {}
    for key, values in sorted(progress.visits.items()):
        stage, block, arm = key
        if rules.decide_at in values:
            launch = progress.launches.get(key) or f"of block {block}"
            things.setdefault((stage, arm), {}).setdefault(launch, []).append(values[rules.decide_at])
    return scatter(things.values())


def _percent(sd_log: float | None, factor: float = 1.0) -> float | None:
    return None if sd_log is None else round(100 * factor * sd_log, 3)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value

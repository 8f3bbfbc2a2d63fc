"""Experiments as a shell shows them: plan, table of verdicts, ledger, and the document of `--json`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from console.cli.output import when
from console.domain.experiment import METRICS, ArmOutcome, ExperimentState, Rated, Verdict
from console.domain.text import dash
from console.operations.experiment_words import (
    SHARED,
    change_words,
    noise_words,
    rollback_words,
    scatter_words,
    search_words,
)

if TYPE_CHECKING:
    from console.operations.experiments import Plan


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield a plan, what decides first."""
    spec, problems = plan.spec, dict(plan.problems)
    metric = METRICS[spec.metric]
    rungs = ", ".join(map(str, spec.bench.concurrency))
    yield f"{spec.title or spec.name} · base {spec.base.name} · {metric.title} at {spec.decide_at} decides (measured at {rungs})"
    yield f"  {'base':<22} {' '.join(map(str, plan.arms[0].profile.patches_on)) or 'as the profile says'}"
    for arm in plan.arms[1:]:
        on = f" (on {arm.against})" if arm.against != plan.arms[0].name else ""
        yield f"  {arm.name:<22} {', '.join(arm.changes) or 'nothing'}{on}"
        if arm.hypothesis:
            yield f"  {'':<22} because: {arm.hypothesis}"
        if arm.refused:
            yield f"  {'':<22} refused: {arm.reason}"
        elif arm.same_as:
            yield f"  {'':<22} same arm as {arm.same_as}: {arm.reason}; not measured"
        elif arm.name in problems:
            yield f"  {'':<22} cannot be measured: {problems[arm.name]}"
    if spec.search is not None:
        yield from (f"  {line}" for line in search_words(spec.search))
    yield ""
    for number, (stage, arms) in enumerate(plan.order, 1):
        yield f"  {number:>3}  {' → '.join(arms)}" + (f"   [{stage}]" if stage not in arms else "")
    yield ""
    minutes = "—" if plan.minutes is None else f"{plan.minutes:.0f} minutes"
    yield f"  at most {plan.visits} measurements, {plan.launches} restarts, {minutes} ({plan.minutes_why})"
    found = "—" if plan.detectable_pct is None else f"{plan.detectable_pct:.2f} %"
    yield f"  smallest detectable effect: {found} with {spec.repeats} pairs{SHARED * plan.finds.shared}"
    yield from (f"  {line}" for line in noise_words(plan.noise))
    for note in plan.notes:
        yield f"  ! {note}"


def arm_lines(told: ExperimentState) -> Iterator[str]:
    """Yield the table of verdicts."""
    metric = METRICS[told.metric]
    badge = f" [{told.badge}]" if told.badge else ""
    yield f"{told.id}  {told.title or told.name} · {told.host}{badge} · {metric.title} at {told.decide_at}"
    for arm in told.outcomes:
        yield _arm_line(arm, told)
        if arm.hypothesis:
            yield f"  {'':<22} because: {arm.hypothesis}"
        if arm.against and len(told.concurrency) > 1:
            for rung in arm.rungs:
                if rung.concurrency != told.decide_at:
                    yield f"  {'':<22} at {rung.concurrency}: {ratio_words(rung)}"
    if told.target:
        yield f"  {told.target}"
    if noise := scatter_words(told):
        yield f"  {noise}"
    yield f"  the host: {told.where or 'as it was'}"


def _arm_line(arm: ArmOutcome, told: ExperimentState) -> str:
    rung = next((one for one in arm.rungs if one.concurrency == told.decide_at), None)
    digits = METRICS[told.metric].digits
    if not arm.against:
        value = "—" if rung is None else _spread(rung.base_mean, rung.base_sd, digits)
        return f"  {arm.name:<22} {value:>16}"
    value = "" if rung is None else _spread(rung.arm_mean, rung.arm_sd, digits)
    change = "" if rung is None else ratio_words(rung)
    verdict = "" if arm.verdict is Verdict.OPEN else str(arm.verdict)
    parts = [f"  {arm.name:<22} {value:>16}", f"{change:<26}", verdict]
    return "  ".join(parts) + "".join(f" · {text}" for text in (arm.reason, rollback_words(arm)) if text)


def _spread(mean: float | None, sd: float | None, digits: int) -> str:
    return dash(mean, digits) + ("" if sd is None else f" ± {dash(sd, digits)}")


def ratio_words(rung: Rated) -> str:
    """Return the change of an arm, or how few pairs there are."""
    return change_words(rung, f"{rung.pairs} pair{'s'[: rung.pairs != 1]}: no interval")


def confirmed_line(told: ExperimentState) -> Iterator[str]:
    """Yield what the winner did when it was measured afresh."""
    for rung in told.confirmed:
        if rung.concurrency == told.decide_at:
            yield f"winner: {told.winner}, measured afresh against the base: {ratio_words(rung)}"


def ledger_lines(told: ExperimentState) -> Iterator[str]:
    """Yield what each change is worth."""
    if not told.ledger:
        return
    yield "what each change is worth:"
    for line in told.ledger:
        bounds = "" if line.low_pct is None else f" [{line.low_pct:+.1f}, {line.high_pct:+.1f}]"
        text = f"  {line.name:<22} {line.change_pct:+.1f} %{bounds} over {line.over}"
        if line.interaction_pct is not None:
            inner = (
                ""
                if line.interaction_low_pct is None
                else f" [{line.interaction_low_pct:+.1f}, {line.interaction_high_pct:+.1f}]"
            )
            text += f"; beyond its parts {line.interaction_pct:+.1f} %{inner}"
        yield text


def document(told: ExperimentState) -> dict[str, Any]:
    """Return an experiment as the one document of `--json`."""
    return {
        "id": told.id,
        "experiment": told.name,
        "title": told.title,
        "host": told.host,
        "badge": told.badge,
        "operator": told.operator,
        "file": told.path,
        "started_at": when(told.created_at),
        "base": told.base,
        "metric": told.metric,
        "decide_at": told.decide_at,
        "concurrency": list(told.concurrency),
        "verdict": str(told.verdict),
        "winner": told.winner or None,
        "finished": told.finished,
        "state": told.where or None,
        "measurements": told.done,
        "left_s": None if told.left_s is None else round(told.left_s, 1),
        "noise_pct": told.noise_pct,
        "noise_within_launch_pct": told.noise_within_pct,
        "noise_between_launches_pct": told.noise_between_pct,
        "target": told.target or None,
        "arms": [_arm(arm) for arm in told.outcomes],
        "ledger": [asdict(line) for line in told.ledger],
        "confirmed": [_rung(rung) for rung in told.confirmed],
        "order": [{"stage": one.stage, "arms": list(one.arms), "done": one.done} for one in told.blocks],
        "notes": list(told.notes),
        "error": told.error or None,
    }


def _arm(arm: ArmOutcome) -> dict[str, Any]:
    return {
        "name": arm.name,
        "against": arm.against or None,
        "hypothesis": arm.hypothesis,
        "changes": list(arm.changes),
        "verdict": str(arm.verdict) if arm.against else None,
        "reason": arm.reason,
        "so_far": arm.so_far or None,
        "more_pairs": arm.more_pairs,
        "rolled_back_to": arm.rolled_back_to if arm.rolled_back_at is not None else None,
        "rolled_back_at": None if arm.rolled_back_at is None else when(arm.rolled_back_at),
        "relaunched_at": None if arm.relaunched_at is None else when(arm.relaunched_at),
        "runs": list(arm.runs),
        "rungs": [_rung(rung) for rung in arm.rungs],
    }


def _rung(rung: Rated) -> dict[str, Any]:
    return {
        "concurrency": rung.concurrency,
        "base": rung.base_mean,
        "arm": rung.arm_mean,
        "base_sd": rung.base_sd,
        "arm_sd": rung.arm_sd,
        "pairs": rung.pairs,
        "ratio": rung.ratio,
        "ratio_low": rung.low,
        "ratio_high": rung.high,
        "base_launches": rung.base_launches,
        "arm_launches": rung.arm_launches,
    }

"""An experiment drawn: its plan before, the table of verdicts while and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from console.domain.experiment import METRICS, ArmOutcome, ExperimentState, Rated, Verdict
from console.domain.text import clean, dash
from console.operations.experiment_words import change_words, rollback_words
from console.ui.drawing import Span, bar, fit, wrapped
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from console.operations.experiments import Plan

Row = list[Span]

INKS = {
    Verdict.KEEP: "good strong",
    Verdict.REVERT: "bad strong",
    Verdict.FAILED: "bad strong",
    Verdict.INCONCLUSIVE: "warn strong",
    Verdict.REFUSED: "warn",
    Verdict.SAME_ARM: "dim",
    Verdict.SKIPPED: "dim",
}
NAME = 20
LOG_SIDE = 12
"""Half the width of the picture of an interval, in cells."""


class ExperimentView(Lines, Framed):
    """A plan, or an experiment under way or done."""

    def __init__(self) -> None:
        super().__init__(id="experiment-view")
        self.plan: Plan | None = None
        self.told: ExperimentState | None = None
        self._rows: tuple[int, list[Row]] = (0, [])
        self.entitle("", "Nothing chosen")

    def show_plan(self, plan: Plan) -> None:
        """Show what would be done."""
        self.plan, self.told = plan, None
        self.entitle("", f"Plan: {clean(plan.spec.name)}", "r runs it")
        self._again()

    def show_state(self, told: ExperimentState) -> None:
        """Show how an experiment stands."""
        self.plan, self.told = None, told
        right = "t stops, u resumes" if not told.finished else "ctrl+s saves the winner" if told.winner else ""
        self.entitle("", f"{clean(told.id)} {clean(told.title or told.name)}", right)
        self._again()

    def _again(self) -> None:
        self._rows = (0, [])
        self.changed(keep=False)

    def on_resize(self) -> None:
        """Break the lines anew."""
        super().on_resize()
        self._rows = (0, [])
        self.changed()

    @property
    def rows(self) -> list[Row]:
        """The lines at this width."""
        width = max(40, self.scrollable_content_region.width or self.size.width - 2)
        if self._rows[0] != width:
            made = plan_rows(self.plan, width) if self.plan else state_rows(self.told, width) if self.told else iter(())
            self._rows = (width, list(made))
        return self._rows[1]

    def count(self) -> int:
        """Return how many lines there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one line."""
        rows = self.rows
        return rows[index] if index < len(rows) else []

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        return [[], [("  enter shows the plan of a file, or what came of an experiment", "dim")]]


def plan_rows(plan: Plan, width: int) -> Iterator[Row]:
    """Yield a plan: arms with their reasons, then what it costs and what it can find, then the order."""
    spec, problems = plan.spec, dict(plan.problems)
    metric = METRICS[spec.metric]
    yield [(f" {clean(spec.title or spec.name)}", "strong"), (f" · base {clean(spec.base.name)}", "dim")]
    yield []
    for arm in plan.arms[1:]:
        ink = "dim" if arm.same_as else "warn" if arm.refused or arm.name in problems else "strong"
        on = f"  on {clean(arm.against)}" if arm.against != "base" else ""
        changes = clean(", ".join(arm.changes))
        yield [
            (f" {fit(clean(arm.name), NAME)} ", ink),
            (fit(changes, max(8, width - NAME - len(on) - 4)).rstrip(), ""),
            (on, "dim"),
        ]
        if arm.hypothesis:
            yield from wrapped(f"because: {clean(arm.hypothesis)}", width, "dim", NAME + 2)
        said = problems.get(arm.name, arm.reason)
        if said:
            what = (
                "refused"
                if arm.refused
                else f"same arm as {arm.same_as}, not measured"
                if arm.same_as
                else "cannot be measured"
            )
            yield from wrapped(clean(f"{what}: {said}"), width, "warn", NAME + 2)
    yield []
    minutes = "—" if plan.minutes is None else f"{plan.minutes:.0f}"
    yield [
        (f" at most {plan.visits} measurements, {plan.launches} restarts, ", ""),
        (f"{minutes} minutes", "strong"),
        (f"  {clean(plan.minutes_why)}", "dim"),
    ]
    found = "—" if plan.detectable_pct is None else f"{plan.detectable_pct:.2f} %"
    yield [
        (f" {metric.title} at {spec.decide_at:,} decides · smallest effect found ", ""),
        (found, "strong"),
        (f" with {spec.repeats} pairs", ""),
    ]
    yield from wrapped(f"A/A noise: {clean(plan.noise_from)}", width, "dim", 1)
    for note in plan.notes:
        yield from wrapped(f"! {clean(note)}", width, "warn", 1)
    yield []
    for number, (stage, arms) in enumerate(plan.order, 1):
        where = f"  {clean(stage)}" if stage not in arms else ""
        yield [(f" {number:>3}  ", "dim"), (clean(" → ".join(arms)), ""), (where, "dim")]


def state_rows(told: ExperimentState, width: int) -> Iterator[Row]:
    """Yield an experiment: what is being done, the arms with their verdicts, what each change is worth."""
    metric = METRICS[told.metric]
    badge: Row = [(f" {clean(told.badge)} ", "cursor accent strong"), (" ", "")] if told.badge else []
    yield [
        *badge,
        (f" {metric.title} at {told.decide_at:,}", ""),
        (f" · {clean(told.host)} · base {clean(told.base)}", "dim"),
    ]
    yield _standing(told)
    yield []
    for arm in told.outcomes:
        yield from _arm_rows(arm, told, width)
    yield []
    for rung in told.confirmed:
        if rung.concurrency == told.decide_at:
            yield [
                (" winner ", "dim"),
                (clean(told.winner), "good strong"),
                (f", afresh against the base {ratio(rung)}", ""),
            ]
    if told.target:
        yield [(f" {clean(told.target)}", "dim")]
    if told.noise_pct is not None:
        yield [(f" two equal measurements differed by {told.noise_pct:.2f} % here (A/A noise)", "dim")]
    yield from wrapped(f"the host: {clean(told.where or 'as it was')}", width, "", 1)
    for note in told.notes:
        yield from wrapped(f"! {clean(note)}", width, "warn", 1)
    if told.error:
        yield from wrapped(f"✗ {clean(told.error)}", width, "bad", 1)
    if len(told.ledger) > 1:
        yield []
        yield [(" what each change is worth", "dim")]
        for line in told.ledger:
            bounds = "" if line.low_pct is None else f" [{line.low_pct:+.1f}, {line.high_pct:+.1f}]"
            both = "" if line.interaction_pct is None else f"  beyond its parts {line.interaction_pct:+.1f} %"
            yield [
                (f" {fit(clean(line.name), NAME)} ", "strong"),
                (f"{line.change_pct:+.1f} %{bounds}", "good" if line.change_pct > 0 else "bad"),
                (f" over {clean(line.over)}{both}", "dim"),
            ]


def _standing(told: ExperimentState) -> Row:
    if told.finished:
        return [(" ✓ done", "good"), (f" · {told.done} measurements", "dim")]
    share = told.done / told.planned if told.planned else 0.0
    live = "" if told.live_tok_s is None else f"  {dash(told.live_tok_s)} tok/s"
    doing = clean(told.step) or "interrupted: u goes on"
    return [(" ", ""), *bar(share, 12), (f" {told.done} of {told.planned}  ", "dim"), (doing, "info"), (live, "strong")]


def _arm_rows(arm: ArmOutcome, told: ExperimentState, width: int) -> Iterator[Row]:
    rung = next((one for one in arm.rungs if one.concurrency == told.decide_at), None)
    digits = METRICS[told.metric].digits
    mean, sd = (
        (None, None)
        if rung is None
        else (rung.arm_mean, rung.arm_sd)
        if arm.against
        else (rung.base_mean, rung.base_sd)
    )
    value = dash(mean, digits) + (f" ± {dash(sd, digits)}" if sd is not None else "")
    now: Span = ("▶" if told.current == arm.name else " ", "accent")
    row: Row = [now, (fit(clean(arm.name), NAME), "strong"), (f" {value:>15}", "" if mean is not None else "dim")]
    if not arm.against:
        yield row
        return
    verdict = "" if arm.verdict is Verdict.OPEN else str(arm.verdict)
    word: Row = [(f"  {verdict}", INKS.get(arm.verdict, ""))] if verdict else []
    change: Row = [(f"  {ratio(rung):<24}", _ink(rung, told))] if rung is not None else []
    picture: Row = [("  ", ""), *interval(rung)] if rung is not None and width >= 100 else []
    yield [*row, *change, *picture, *word]
    inner = NAME + 2
    details = [
        ", ".join(arm.changes) + (f" · on {arm.against}" if arm.against != "base" else ""),
        arm.reason,
        rollback_words(arm),
    ]
    if arm.verdict is Verdict.INCONCLUSIVE and arm.more_pairs and "more pairs" not in arm.reason:
        details.append(f"about {arm.more_pairs} more pairs would settle it")
    for text, ink in zip(details, ("dim", "", "warn", "dim"), strict=False):
        if text:
            yield from wrapped(clean(text), width, ink, inner)


def interval(rung: Rated) -> Row:
    """Return a picture of a ratio: where its interval lies beside no change, `┊`, on an axis of ±25 %."""
    cells = ["·"] * (2 * LOG_SIDE + 1)

    def place(value: float) -> int:
        return LOG_SIDE + max(-LOG_SIDE, min(LOG_SIDE, round((value - 1) * 4 * LOG_SIDE)))

    if rung.low is not None and rung.high is not None:
        for at in range(place(rung.low), place(rung.high) + 1):
            cells[at] = "━"
    cells[LOG_SIDE] = "┊" if cells[LOG_SIDE] == "·" else "┿"
    if rung.ratio is not None:
        cells[place(rung.ratio)] = "●"
    return [("".join(cells), "dim" if rung.low is None else "accent")]


def ratio(rung: Rated) -> str:
    """Return the change of an arm, or how far the pairs are."""
    return change_words(rung, f"{rung.pairs} of 3 pairs")


def _ink(rung: Rated, told: ExperimentState) -> str:
    if rung.low is None or rung.high is None:
        return "dim"
    better = rung.low > 1 if METRICS[told.metric].more_is_better else rung.high < 1
    worse = rung.high < 1 if METRICS[told.metric].more_is_better else rung.low > 1
    return "good" if better else "bad" if worse else "warn"

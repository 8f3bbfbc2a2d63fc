"""An experiment drawn: its plan before, the table of verdicts while and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from console.domain.experiment import METRICS, ArmOutcome, ExperimentState, Rated, Verdict
from console.domain.text import clean, dash
from console.operations.experiment_words import change_words, left_words, rollback_words, scatter_words
from console.ui.drawing import Span, bar, fit, wrapped
from console.ui.widgets.experiment_plan import NAME, Row, hanging, letter, plan_rows, rounds
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from console.operations.experiments import Plan

INKS = {
    Verdict.KEEP: "good strong",
    Verdict.REVERT: "bad strong",
    Verdict.FAILED: "bad strong",
    Verdict.INCONCLUSIVE: "warn strong",
    Verdict.REFUSED: "warn",
    Verdict.SAME_ARM: "dim",
    Verdict.SKIPPED: "dim",
}
SIDE = 12
"""Half the width of the picture of an interval, in cells."""

WIDE = 104
"""Columns from which the picture has room."""

AXES = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 4.0, 20.0)
"""Half axes of the picture, as a share of no change; the first one that holds every interval is taken."""


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


def state_rows(told: ExperimentState, width: int) -> Iterator[Row]:
    """Yield an experiment: what is being done, the arms with their verdicts, what each change is worth."""
    metric = METRICS[told.metric]
    badge: Row = [(f" {clean(told.badge)} ", "cursor accent strong"), (" ", "")] if told.badge else []
    axis = axis_of(told)
    yield [
        *badge,
        (f" {metric.title} at {told.decide_at:,} decides", ""),
        (f" · {clean(told.host)} · base {clean(told.base)}", "dim"),
    ]
    yield _standing(told, width)
    names = [arm.name for arm in told.outcomes]
    yield from rounds(told.blocks, names, width, told.repeats)
    yield []
    if width >= WIDE and axis:
        yield [(f"{'':{NAME + 49}}{f'−{axis:.0%}':<{SIDE}}0{f'+{axis:.0%}':>{SIDE}}", "dim")]
    for number, arm in enumerate(told.outcomes):
        yield from _arm_rows(letter(number), arm, told, width, axis)
    yield []
    yield from _ending(told, width)
    if len(told.ledger) > 1:
        yield []
        yield from _ledger(told, METRICS[told.metric].more_is_better)


def _ending(told: ExperimentState, width: int) -> Iterator[Row]:
    for rung in told.confirmed:
        if rung.concurrency == told.decide_at:
            yield [
                (" winner ", "dim"),
                (clean(told.winner), "good strong"),
                (f", afresh against the base {ratio(rung)}", ""),
            ]
    for text in filter(None, (told.target, scatter_words(told))):
        yield from wrapped(clean(text), width, "dim", 1)
    yield from wrapped(f"the host: {clean(told.where or 'as it was')}", width, "", 1)
    for note in told.notes:
        yield from wrapped(f"! {clean(note)}", width, "warn", 1)
    if told.error:
        yield from wrapped(f"✗ {clean(told.error)}", width, "bad", 1)


def _ledger(told: ExperimentState, more_is_better: bool) -> Iterator[Row]:
    yield [(" what each change is worth", "dim")]
    for line in told.ledger:
        bounds = "" if line.low_pct is None else f" [{line.low_pct:+.1f}, {line.high_pct:+.1f}]"
        low, high = line.low_pct, line.high_pct
        clear = low is not None and high is not None and not low <= 0 <= high
        ink = "dim" if not clear else "good" if (line.change_pct > 0) == more_is_better else "bad"
        yield [
            (f"   {fit(clean(line.name), NAME)} ", "strong"),
            (f"{line.change_pct:+.1f} %{bounds}", ink),
            (f" over {clean(line.over)}", "dim"),
        ]
        if line.interaction_pct is not None:
            lower, upper = line.interaction_low_pct, line.interaction_high_pct
            inner = "" if lower is None or upper is None else f" [{lower:+.1f}, {upper:+.1f}]"
            yield [(f"{'':{NAME + 4}}beyond its parts {line.interaction_pct:+.1f} %{inner}", "dim")]


def _standing(told: ExperimentState, width: int) -> Row:
    if told.finished:
        return [(" ✓ done", "good"), (f" · {told.done} measurements · {told.verdict}", "dim")]
    share = told.done / told.planned if told.planned else 0.0
    live = "" if told.live_tok_s is None else f"  {dash(told.live_tok_s)} tok/s"
    count = f" {told.done} of {told.planned}  " if told.planned else "  "
    if not told.step:
        return [(" ", ""), *bar(share, 12), (count, "dim"), ("interrupted: ", "warn"), ("u", "accent"),
                (" goes on, ", "dim"), ("a", "accent"), (" brings the base back", "dim")]  # fmt: skip
    left = "" if told.left_s is None else f"  {left_words(told.left_s)}"
    room = max(8, width - 14 - len(count) - len(live) - len(left))
    return [
        (" ", ""),
        *bar(share, 12),
        (count, "dim"),
        (fit(clean(told.step), room).rstrip(), "info"),
        (live, "strong"),
        (left, "dim"),
    ]


def _arm_rows(sign: str, arm: ArmOutcome, told: ExperimentState, width: int, axis: float) -> Iterator[Row]:
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
    now: Span = ("▶" if told.current == arm.name and not told.finished else " ", "accent")
    lead: Row = [now, (f"{sign} ", "accent"), (fit(clean(arm.name), NAME), "strong")]
    row: Row = [*lead, (f" {value:>14}", "" if mean is not None else "dim")]
    if not arm.against:
        yield row
        return
    room = 27 if width >= 84 else 23  # or the longest verdict is cut
    change: Row = [] if rung is None else [(f"  {ratio(rung):<{room}}", _ink(rung, told))]
    picture: Row = [("  ", ""), *interval(rung, axis)] if rung is not None and width >= WIDE else []
    word: Row = [] if arm.verdict is Verdict.OPEN else [(f"  {arm.verdict}", INKS.get(arm.verdict, ""))]
    yield [*row, *change, *picture, *word]
    changes = ", ".join(arm.changes) + (f" · on {arm.against}" if arm.against != "base" else "")
    yield from hanging(changes, width, "dim")
    if arm.hypothesis:
        yield from hanging(f"because: {arm.hypothesis}", width, "dim")
    elsewhere = [f"{ratio(one)} at {one.concurrency:,}" for one in arm.rungs if one.concurrency != told.decide_at]
    if elsewhere:
        yield from hanging(" · ".join(elsewhere), width, "dim")
    settles = f"about {arm.more_pairs} more pairs would settle it"
    open_still = arm.verdict is Verdict.INCONCLUSIVE and arm.more_pairs and "more pairs" not in arm.reason
    for text, ink in (
        (arm.reason or arm.so_far, "" if arm.reason else "dim"),
        (settles if open_still else "", "dim"),
        (rollback_words(arm), "warn"),
    ):
        if text:
            yield from hanging(text, width, ink)


def axis_of(told: ExperimentState) -> float:
    """Return half the axis that holds every interval of the arms; 0 when there is nothing to draw."""
    deciding = [
        rung for arm in told.outcomes for rung in arm.rungs if arm.against and rung.concurrency == told.decide_at
    ]
    reach = [
        abs(value - 1) for rung in deciding for value in (rung.ratio, rung.low, rung.high) if value is not None
    ]  # fmt: skip
    return next((axis for axis in AXES if axis >= max(reach)), AXES[-1]) if reach else 0.0


def interval(rung: Rated, axis: float) -> Row:
    """Return a picture of a ratio: where its interval lies beside no change, `┊`, on an axis of ± `axis`."""
    cells = ["·"] * (2 * SIDE + 1)

    def place(value: float) -> int:
        return SIDE + max(-SIDE, min(SIDE, round((value - 1) / (axis or 1.0) * SIDE)))

    if rung.low is not None and rung.high is not None:
        for at in range(place(rung.low), place(rung.high) + 1):
            cells[at] = "━"
    cells[SIDE] = "┊" if cells[SIDE] == "·" else "┿"
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

"""A plan drawn: what it costs and can find first, then its arms, then the order of their rounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from console.domain.experiment import BASE, METRICS, Arm, Block
from console.domain.text import clean
from console.operations.experiment_words import SHARED, noise_words, search_words
from console.ui.drawing import Span, fit, width_of, wrapped

if TYPE_CHECKING:
    from console.operations.experiments import Plan

Row = list[Span]

WIDE = 100
"""Columns from which all of a figure's words have room."""

NAME = 18
INDENT = NAME + 4
"""Where what is said of an arm begins."""


def letter(number: int) -> str:
    """Return the letter of an arm: A is the base."""
    return chr(ord("A") + number) if number < 26 else "·"


def hanging(text: str, width: int, ink: str) -> list[Row]:
    """Return what is said of an arm, below its name."""
    return wrapped(clean(text), width, ink, INDENT if width >= 60 else 4)


def plan_rows(plan: Plan, width: int) -> Iterator[Row]:
    """Yield a plan: what it costs and what it can find, the arms with their reasons, the order."""
    spec = plan.spec
    title = f" {clean(spec.title or spec.name)}"
    yield [(fit(title, min(len(title), width - 2)), "strong"), (f" · base {clean(spec.base.name)}", "dim")]
    yield from _costs(plan, width)
    yield []
    yield [("  A ", "accent"), (fit("base", NAME), "strong"), (f" {clean(spec.base.name)} as it is", "dim")]
    for number, arm in enumerate(plan.arms[1:], 1):
        yield from _arm(plan, number, arm, width)
    for line in search_words(spec.search) if spec.search is not None else ():
        yield from wrapped(clean(line), width, "", 2)
    yield []
    yield from _order(plan, width)


def _costs(plan: Plan, width: int) -> Iterator[Row]:
    spec = plan.spec
    minutes = "—" if plan.minutes is None else f"{max(1, round(plan.minutes)):,}"
    yield [
        (f" {minutes} minutes", "strong accent"),
        (" at most: ", "dim"),
        (f"{plan.visits} measurements", "strong"),
        (", ", "dim"),
        (f"{plan.launches} restarts", "strong"),
    ]
    yield from wrapped(clean(plan.minutes_why), width, "dim", 3)
    found = "—" if plan.detectable_pct is None else f"{plan.detectable_pct:.2f} %"
    yield [
        (" smallest effect found ", ""),
        (found, "strong accent"),
        (f" with {spec.repeats} pairs{SHARED * (plan.finds.shared and width >= WIDE)}", "dim"),
        (f" · {METRICS[spec.metric].title} at {spec.decide_at:,} decides", "dim"),
    ]
    for line in noise_words(plan.noise):
        yield from wrapped(clean(line), width, "dim", 3)
    for note in plan.notes:
        yield from wrapped(f"! {clean(note)}", width, "warn", 1)


def _arm(plan: Plan, number: int, arm: Arm, width: int) -> Iterator[Row]:
    problem = dict(plan.problems).get(arm.name, "")
    ink = "dim" if arm.same_as else "warn" if arm.refused or problem else "strong"
    on = f" · on {arm.against}" if arm.against != BASE else ""
    changes = hanging(", ".join(arm.changes) + on, width, "")
    first = changes[0] if changes and width >= 60 else []
    lead: Row = [(f"  {letter(number)} ", "accent"), (fit(clean(arm.name), NAME), ink)]
    yield [*lead, (f" {first[0][0].strip()}", "")] if first else lead
    yield from changes[1:] if first else changes
    if arm.hypothesis:
        yield from hanging(f"because: {arm.hypothesis}", width, "dim")
    said = problem or arm.reason
    if said:
        same = f"same arm as {arm.same_as}, not measured"
        what = "refused" if arm.refused else same if arm.same_as else "cannot be measured"
        yield from hanging(f"{what}: {said}", width, "warn")


def _order(plan: Plan, width: int) -> Iterator[Row]:
    names = [arm.name for arm in plan.arms]
    yield [(" order, so that a drift cancels", "dim")]
    for stage, group in itertools.groupby(plan.order, key=lambda one: one[0]):
        words = ["".join(_sign(arm, names) for arm in arms) for _, arms in group]
        told = f"against {stage}" if stage in names else stage
        yield [(f"   {' '.join(words)}", "strong"), (f"  {clean(told)}", "dim")]
    if any("the winner" in arms for _, arms in plan.order):
        yield from wrapped("W: the arm that won, whichever that is", width, "dim", 3)


def rounds(blocks: Sequence[Block], names: Sequence[str], width: int, repeats: int) -> Iterator[Row]:
    """Yield the rounds by stage: done ones, the one under way with brackets around what is measured, planned ones."""
    told = {stage: list(group) for stage, group in itertools.groupby(blocks, key=lambda one: one.stage)}
    under_way = False
    for stage, group in told.items():
        known = stage in names
        what = f"against {stage}" if known else f"{stage.removeprefix('confirm').strip() or 'winner'} afresh"
        row: Row = [(f" {fit(clean(what), 18)} ", "dim")]
        for block in group:
            signs = [_sign(arm, names) for arm in block.arms]
            row.append(("".join(signs[: block.done]), "good"))
            left = signs[block.done :]
            if left and not under_way:
                under_way = True
                row.append((f"[{left[0]}]", "accent strong"))
                left = left[1:]
            row += [("".join(left), "dim"), (" ", "")]
        whole = sum(block.done == len(block.arms) for block in group)
        row.append((f" pair {min(whole + 1, len(group))} of {len(group)}" if whole < len(group) else "", "dim"))
        yield row if width_of(row) <= width else row[:-1]


def _sign(arm: str, names: Sequence[str]) -> str:
    return letter(names.index(arm)) if arm in names else "W"

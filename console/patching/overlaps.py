"""Several patches on one file: who stands over whom, and who is in whose way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from console.domain.patch import DiskState, FileChange, Patch
from console.patching.plan import PatchPlan

Planner = Callable[[Patch, Mapping[str, bytes | None]], PatchPlan]
"""`plan` with the facts of the host filled in."""


def with_changes(files: Mapping[str, bytes | None], changes: Sequence[FileChange]) -> dict[str, bytes | None]:
    """Return the contents as they would be after the changes."""
    return {**files, **{change.path: change.after for change in changes}}


def broken_by(
    changes: Sequence[FileChange], others: Sequence[PatchPlan], files: Mapping[str, bytes | None], planner: Planner
) -> tuple[str, ...]:
    """Return the names of patches that are on now and would be broken by the changes.

    One that is cleanly off afterwards, its lines gone with the others, is the same patch by another name: it goes along.
    """
    after = with_changes(files, changes)
    broken = []
    for other in others:
        if other.state is not DiskState.ON:
            continue
        state = planner(other.patch, after).state
        if state is not DiskState.ON and not (state is DiskState.OFF and _taken_along(other, after)):
            broken.append(other.patch.name)
    return tuple(broken)


def _taken_along(other: PatchPlan, after: Mapping[str, bytes | None]) -> bool:
    """Return whether a patch's own lines went, too; where they only stand elsewhere now, it looks off and is not."""
    for change in other.changes(on=False):
        on, off, now = (
            Counter((data or b"").splitlines()) for data in (change.before, change.after, after[change.path])
        )
        if any(now[line] > off[line] for line in on - off) or any(now[line] < off[line] for line in off - on):
            return False
    return True


def explained(
    plan: PatchPlan,
    others: Sequence[PatchPlan],
    files: Mapping[str, bytes | None],
    planner: Planner,
    ours: bool = False,
) -> PatchPlan:
    """Return the plan with the patch named that is in its way, when there is one.

    A patch whose text another one took conflicts with that one; a patch whose result another one
    changed further is drifted under it. One that is ours and looks off may lie there too: an upper
    patch that begins with the same text leaves it to be found again.
    """
    doubtful = plan.state in (DiskState.CONFLICT, DiskState.DRIFTED)
    if not doubtful and not (ours and plan.state is DiskState.OFF):
        return plan
    for other in others:
        if other.state is not DiskState.ON or not set(other.files) & set(plan.files):
            continue
        without = planner(plan.patch, with_changes(files, other.changes(on=False)))
        name = other.patch.name
        if without.state is DiskState.OFF and doubtful:
            return replace(plan, reason=f"conflicts with {name}, which is on; {plan.reason}")
        if without.state is DiskState.ON:
            return _covered(plan, (name,))
    return _peeled(plan, others, files, planner)


def _covered(plan: PatchPlan, over: tuple[str, ...]) -> PatchPlan:
    verb = "is on and lies" if len(over) == 1 else "are on and lie"
    reason = f"{' and '.join(over)} {verb} over it; {plan.reason}"
    return replace(plan, state=DiskState.DRIFTED, reason=reason, can_on=False, can_off=False, under=over)


def _peeled(
    plan: PatchPlan, others: Sequence[PatchPlan], files: Mapping[str, bytes | None], planner: Planner
) -> PatchPlan:
    """Return the plan with every patch named that lies over it, where only several together explain it."""
    near = [item for item in others if item.patch.name != plan.patch.name and set(item.files) & set(plan.files)]
    waiting = list(reversed(near))  # also those that look off: they may lie under one that has not been peeled yet
    off: list[str] = []
    moved = True
    while moved:
        moved = False
        for item in list(waiting):
            now = planner(item.patch, files)
            if now.state is not DiskState.ON or not now.can_off:
                continue
            files = with_changes(files, now.changes(on=False))
            waiting.remove(item)
            off.append(item.patch.name)
            moved = True
            if planner(plan.patch, files).state is DiskState.ON:
                return _covered(plan, tuple(off))
    return plan


def ordered(plan: PatchPlan, others: Sequence[PatchPlan]) -> PatchPlan:
    """Return the plan with what its own file says of other patches: `after` and `conflicts_with`."""
    if plan.state is not DiskState.OFF:
        return plan
    states = {other.patch.name: other.state for other in others}
    beside = [
        other.patch.name
        for other in others
        if other.state is DiskState.ON
        and (other.patch.name in plan.patch.conflicts_with or plan.patch.name in other.patch.conflicts_with)
    ]
    if beside:
        reason = f"conflicts with {beside[0]}, which is on: conflicts_with says so"
        return replace(plan, state=DiskState.CONFLICT, reason=reason, can_on=False)
    met = (DiskState.ON, DiskState.ALREADY_UPSTREAM)
    for name in plan.patch.after:
        if states.get(name) not in met:
            is_now = states[name].value.replace("_", " ") if name in states else "not known here"
            reason = f"goes on after {name}, which is {is_now}"
            return replace(plan, state=DiskState.CONFLICT, reason=reason, can_on=False)
    return plan

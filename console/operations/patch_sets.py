"""A profile's set of patches from any state: one plan, one diff, one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from console.domain.diff import unified
from console.domain.patch import DiskState, FileChange
from console.domain.text import SafeText
from console.errors import AlreadySoError, ConflictError, ConsoleError, DriftError
from console.operations.patch_scene import Scene
from console.operations.patch_sides import refuse_lower, to_off, to_on
from console.operations.patch_writing import Step
from console.patching.plan import sha256

_THERE = (DiskState.ON, DiskState.ALREADY_UPSTREAM)


@dataclass(frozen=True, slots=True)
class SetPlan:
    """What brings a host to a set of patches; nothing of it was written yet."""

    steps: tuple[Step, ...] = ()
    changes: tuple[FileChange, ...] = ()
    """Of all steps together, from the files as they are to what they will be."""
    already: tuple[tuple[str, str], ...] = ()
    """(patch, why nothing has to be done for it)."""
    refused: tuple[tuple[str, str], ...] = ()
    """(patch, why it cannot be brought there); with one of these nothing is written at all."""
    left: tuple[str, ...] = ()
    """Patches that stay on although the set does not name them."""
    after: Scene | None = None
    """The scene once it is written."""

    @property
    def diff(self) -> tuple[SafeText, ...]:
        """Unified diff of the whole."""
        lines: list[SafeText] = []
        for change in self.changes:
            lines += unified(change.before, change.after, change.shown)
        return tuple(lines)

    @property
    def told(self) -> tuple[str, ...]:
        """One line a patch, in the order of the write."""
        lines = [f"{step.verb} {step.name}: {', '.join(c.shown for c in step.changes)}" for step in self.steps]
        lines += [f"already so: {name}: {why}" for name, why in self.already]
        lines += [f"refused: {name}: {why}" for name, why in self.refused]
        return (*lines, *(f"stays on, not in the set: {name}" for name in self.left))


def planned_set(
    scene: Scene,
    wanted: Sequence[str],
    *,
    off: Collection[str] = (),
    force: bool = False,
    accept_fuzz: bool = False,
) -> SetPlan:
    """Plan a set: first what has to go, upper before lower, then what has to come, each on what it needs.

    Args:
        scene: What is on the host, with every known patch planned.
        wanted: Patches that shall be on, in the order in which they are tried.
        off: Patches that shall be off.
        force: Complete and take back drifted patches.
        accept_fuzz: Take hunks whose context differs.
    """
    on_now = {item.patch.name for item in scene.plans if item.state is DiskState.ON}
    going = [name for name in reversed([p.patch.name for p in scene.plans]) if name in off and name not in wanted]
    going = [name for name in going if name in on_now or name in scene.ours]
    now, gone, stuck, _ = _turned(scene, going, False, lambda at, name: _off(at, name, force))
    now, come, failed, already = _turned(now, wanted, True, lambda at, name: _on(at, name, force, accept_fuzz, wanted))
    refused = {**stuck, **failed}
    for name in wanted:
        item = now.plan_of(name)
        if name not in refused and item.state not in _THERE and not set(item.under) & set(wanted):
            refused[name] = f"would not be on beside the others: {item.reason}"
    left = [name for name in sorted(on_now | set(scene.ours)) if name not in wanted and name not in off]
    if refused:
        return SetPlan(already=tuple(already.items()), refused=tuple(refused.items()), left=tuple(left))
    steps = (*gone, *come)
    return SetPlan(steps, _merged(steps), tuple(already.items()), (), tuple(left), now)


def inverse(last: Mapping[str, Any], kept: Mapping[str, bytes]) -> tuple[Step, ...]:
    """Return the steps that take a journalled set back; none where a content is not kept any more."""
    steps = []
    for part in reversed(last.get("parts") or []):
        changes = []
        for file in part["files"]:
            before, after = file["before"] or "", file["after"] or ""
            if any(sha and sha not in kept for sha in (before, after)):
                return ()
            path = str(file["path"])
            one, other = kept.get(after), kept.get(before)
            mode, mode_before = file.get("mode_before"), file.get("mode")
            changes.append(FileChange(path, path, one, other, after, before, mode, mode_before=mode_before))
        verb = "revert" if part["verb"] == "apply" else "apply"
        steps.append(Step(str(part["name"]), verb, tuple(changes)))
    return tuple(steps)


def _turned(
    scene: Scene, names: Sequence[str], on: bool, switch: Callable[[Scene, str], tuple[FileChange, ...]]
) -> tuple[Scene, list[Step], dict[str, str], dict[str, str]]:
    """Switch what can be switched until nothing more can: one may wait for another.

    Returns:
        The scene after it, the steps, why others could not be switched, and what was so already.
    """
    steps: list[Step] = []
    already: dict[str, str] = {}
    failed: dict[str, str] = {}
    waiting = list(dict.fromkeys(names))
    moved = True
    while waiting and moved:
        moved = False
        for name in list(waiting):
            try:
                changes = switch(scene, name)
                if not changes:
                    raise AlreadySoError(f"{name}: nothing to change")
            except AlreadySoError as error:
                already[name] = error.detail or error.title
                waiting.remove(name)
                continue
            except ConsoleError as error:
                failed[name] = error.one_line()
                continue
            steps.append(Step(name, "apply" if on else "revert", changes))
            scene = scene.after(changes, name, on)
            waiting.remove(name)
            failed.pop(name, None)
            moved = True
    return scene, steps, {name: failed[name] for name in waiting}, already


def _on(scene: Scene, name: str, force: bool, accept_fuzz: bool, wanted: Collection[str]) -> tuple[FileChange, ...]:
    item = scene.plan_of(name)
    if set(item.under) & set(wanted):
        raise AlreadySoError(f"{name} is on", f"under {' and '.join(item.under)}")
    scene.must_read(item)
    changes = to_on(item, force, accept_fuzz)
    refused = [scene.refusals[file] for file in item.files if scene.refusals.get(file)]
    if refused:
        raise ConflictError(f"{name} cannot be written", refused[0])
    return changes


def _off(scene: Scene, name: str, force: bool) -> tuple[FileChange, ...]:
    scene.must_read(scene.plan_of(name))
    changes = to_off(scene, scene.plan_of(name), force)
    refuse_lower(scene, name, changes)
    return changes


def _merged(steps: Sequence[Step]) -> tuple[FileChange, ...]:
    """Return one change a file out of the steps on it."""
    merged: dict[str, FileChange] = {}
    for change in (change for step in steps for change in step.changes):
        first = merged.get(change.path)
        if first is None:
            merged[change.path] = change
            continue
        merged[change.path] = replace(
            first,
            after=change.after,
            after_sha256=sha256(change.after),
            mode=change.mode if change.mode is not None else first.mode,
            like=first.like or change.like,
        )
    return tuple(c for c in merged.values() if c.before != c.after or c.mode not in (None, c.mode_before))


def refuse_other(seen: SetPlan, found: SetPlan) -> None:
    """Raise when the plan is not the one that the operator looked at."""
    before = {change.shown: (change.before_sha256, change.after_sha256) for change in seen.changes}
    now = {change.shown: (change.before_sha256, change.after_sha256) for change in found.changes}
    for file in sorted(before.keys() | now.keys()):
        if before.get(file) != now.get(file):
            raise DriftError(f"{file} changed since the set was looked at", hint="look again")

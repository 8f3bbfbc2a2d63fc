"""Patches on the desk's host: look, switch on, switch off, take the last change back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from console.config import paths
from console.config.patches import DIFF_SUFFIXES
from console.config.patches import load_patch as read_patch
from console.domain.patch import DiskState, Patch, PatchStatus, WriteReceipt
from console.errors import (
    AlreadySoError,
    ConflictError,
    DriftError,
    FormatError,
    RemoteError,
    UsageError,
)
from console.operations.desk import Desk
from console.operations.known import known_patches as known_patches
from console.operations.patch_activity import activity, running
from console.operations.patch_activity import told as told
from console.operations.patch_capture import capture as capture
from console.operations.patch_capture import capture_split as capture_split
from console.operations.patch_process import shared
from console.operations.patch_scene import Scene, preview, read_scene, status_of, strangers, unknown
from console.operations.patch_sets import SetPlan, inverse, planned_set, refuse_other
from console.operations.patch_sides import recorded, refuse_drift, refuse_lower, to_off, to_on
from console.operations.patch_writing import write


def load_patch(desk: Desk | None, name_or_file: str) -> Patch:
    """Return one patch by name, TOML file or bare diff file.

    Raises:
        UsageError: There is none.
        FormatError: Its file is wrong; the title names file, line and key.
    """
    file = Path(name_or_file).expanduser()
    if file.suffix in DIFF_SUFFIXES:
        if not file.is_file():
            raise UsageError(f"{name_or_file}: no such diff file")
        return read_patch(file)
    try:
        return read_patch(paths.find_patch(name_or_file))
    except UsageError as error:
        named = [patch for patch in known_patches(desk) if patch.name == name_or_file]
        if isinstance(error, FormatError) or not named:
            raise
        return named[0]


async def statuses(desk: Desk, names: Sequence[str] = ()) -> tuple[PatchStatus, ...]:
    """Return the state of patches on disk and in the process; fills the store.

    Args:
        desk: Whose host.
        names: Names or files; empty means every known patch.

    Raises:
        UsageError: A name is of no patch. A patch file that is wrong is a status, not an error.
    """
    wanted = [_load_or_fault(desk, name) for name in names]
    patches = _with_known(desk, wanted)
    try:
        scene = await read_scene(desk, patches)
    except RemoteError as error:
        found = {patch.name: unknown(patch, error.one_line()) for patch in patches}
    else:
        found = {item.patch.name: status_of(desk, scene, item) for item in scene.plans}
        found |= {status.name: status for status in strangers(scene)}
    if not wanted:
        desk.store.update(patches=tuple(found.values()))
        return tuple(found.values())
    chosen = tuple(found[patch.name] for patch in wanted)
    shown = {status.name: status for status in desk.store.snapshot.patches}
    desk.store.update(patches=tuple({**shown, **{status.name: status for status in chosen}}.values()))
    return chosen


async def apply(
    desk: Desk,
    name: str,
    *,
    force: bool = False,
    accept_fuzz: bool = False,
    seen: PatchStatus | None = None,
    take_over: bool = False,
) -> WriteReceipt:
    """Switch a patch on: all its files, compared, compiled, read back and journalled.

    Args:
        desk: Whose host.
        name: Name or file of the patch.
        force: Complete a patch of which some edits are on already.
        accept_fuzz: Take hunks that match only when some context is ignored.
        seen: The status that the operator looked at; files that changed since refuse.
        take_over: End a writer that has held the lock for long.

    Raises:
        AlreadySoError: It is on, or upstream has it.
        RefusedError: Drift, conflict, fuzz, not applicable; nothing was written.
        FormatError: The patch file is wrong.
    """
    return await _switch(desk, load_patch(desk, name), True, force, accept_fuzz, seen, take_over)


async def revert(
    desk: Desk, name: str, *, force: bool = False, seen: PatchStatus | None = None, take_over: bool = False
) -> WriteReceipt:
    """Switch a patch off: exactly our edits, the original bytes when nothing else changed since.

    Raises:
        AlreadySoError: It is off.
        RefusedError: Its lines were changed since, or another patch lies over it; nothing was written.
    """
    return await _switch(desk, _load_for_revert(desk, name), False, force, False, seen, take_over)


async def toggle(
    desk: Desk, name: str, *, force: bool = False, accept_fuzz: bool = False, seen: PatchStatus | None = None
) -> WriteReceipt:
    """Switch a patch to its other side, as the status that was looked at tells it."""
    if seen is None:
        seen = (await statuses(desk, [name]))[0]
    if seen.disk is DiskState.ON:
        return await revert(desk, name, force=force, seen=seen)
    return await apply(desk, name, force=force, accept_fuzz=accept_fuzz, seen=seen)


async def plan_set(
    desk: Desk, *, off: bool = False, exact: bool = False, force: bool = False, accept_fuzz: bool = False
) -> SetPlan:
    """Return what would bring the host to the profile's `[patches] on`: one round trip, nothing is written.

    Args:
        desk: Whose host and profile.
        off: Take the set off instead.
        exact: Take off every other known patch that is on, too.
        force: Complete and take back drifted patches.
        accept_fuzz: Take hunks whose context differs.

    Raises:
        UsageError: There is no profile, or it names a patch that is not there.
    """
    return (await _set_plan(desk, off, exact, force, accept_fuzz))[1]


async def apply_set(
    desk: Desk,
    *,
    off: bool = False,
    exact: bool = False,
    force: bool = False,
    accept_fuzz: bool = False,
    take_over: bool = False,
    seen: SetPlan | None = None,
) -> WriteReceipt:
    """Turn the profile's patches on from any state, or off: one plan, one transaction, one undo.

    Args:
        desk: Whose host and profile.
        off: Take the set off instead.
        exact: Take off every other known patch that is on, too.
        force: Complete and take back drifted patches.
        accept_fuzz: Take hunks whose context differs.
        take_over: End a writer that has held the lock for long.
        seen: The plan that the operator looked at; files that changed since refuse.

    Raises:
        AlreadySoError: Everything is as the set wants it.
        ConflictError: One of them cannot be brought there; nothing was written.
    """
    profile = desk.must_profile()
    verb = "revert" if off else "apply"
    desk.must_write(f"{verb} the set of {profile.name}")
    async with activity(desk, verb, f"{verb} the patches of {profile.name}", "z") as report:
        began, trips = time.monotonic(), 1 + (desk.package is None)
        scene, found = await _set_plan(desk, off, exact, force, accept_fuzz)
        if found.refused:
            reasons = "; ".join(f"{name}: {why}" for name, why in found.refused)
            raise ConflictError(f"the set of {profile.name} does not fit", reasons, "nothing was changed")
        if seen is not None:
            refuse_other(seen, found)
        if not found.changes or found.after is None:
            raise AlreadySoError(f"the patches of {profile.name} are {'off' if off else 'on'}")
        notes = [*found.told, *running(desk)]
        name = f"patches of {profile.name}"
        receipt = await write(
            desk, scene, name, "set", found.changes, began, trips, notes=notes, steps=found.steps, take_over=take_over
        )
        _refresh(desk, found.after)
        report.append(receipt)
    return receipt


async def _set_plan(desk: Desk, off: bool, exact: bool, force: bool, accept_fuzz: bool) -> tuple[Scene, SetPlan]:
    profile = desk.must_profile()
    chosen = [load_patch(desk, name) for name in profile.patches_on]
    known = _with_known(desk, chosen)
    scene = await read_scene(desk, known, [patch.name for patch in known])
    names = [patch.name for patch in chosen]
    others = [patch.name for patch in known if patch.name not in names] if exact else []
    wanted = () if off else names
    gone = [*names, *others] if off else others
    return scene, planned_set(scene, wanted, off=gone, force=force, accept_fuzz=accept_fuzz)


async def undo(desk: Desk) -> WriteReceipt:
    """Take back the last change that was written to this host's package; once more redoes it.

    Raises:
        AlreadySoError: Nothing was ever written.
        DriftError: Its lines were changed since.
    """
    desk.must_write("undo")
    async with activity(desk, "undo", "undo the last change", "z") as report:
        began, trips = time.monotonic(), 1 + (desk.package is None)
        first = await read_scene(desk, known_patches(desk), ("*last",))
        last = first.told.get("last")
        if not last:
            raise AlreadySoError("nothing was written here that could be undone")
        name, verb = str(last["name"]), str(last["verb"])
        changes = recorded(first, last["files"])
        if changes is None:
            raise DriftError(f"{verb} {name}: changed by somebody since", hint="revert it by name, or by hand")
        steps = inverse(last, first.kept)
        refuse_lower(first, name, changes, [str(part["name"]) for part in last.get("parts") or []])
        back = {"apply": "revert", "revert": "apply"}.get(verb, verb)
        receipt = await write(desk, first, name, back, changes, began, trips, undoes=str(last["id"]), steps=steps)
        after = first.after(changes, name, back == "apply")
        for step in steps:
            after = after.after((), step.name, step.verb == "apply")
        _refresh(desk, after)
        report.append(receipt)
    return receipt


async def _switch(
    desk: Desk, patch: Patch, on: bool, force: bool, accept_fuzz: bool, seen: PatchStatus | None, take_over: bool
) -> WriteReceipt:
    verb = "apply" if on else "revert"
    desk.must_write(f"{verb} {patch.name}")
    async with activity(desk, verb, f"{verb} {patch.name}", "z") as report:
        if patch.fault and on:
            raise FormatError(patch.fault)
        began, trips = time.monotonic(), 1 + (desk.package is None)
        scene = await read_scene(desk, _with_known(desk, [patch]), () if on else (patch.name,))
        item = scene.plan_of(patch.name)
        if seen is not None:
            refuse_drift(scene, item, seen)
        if patch.fault and patch.name not in scene.ours:
            raise FormatError(patch.fault)
        scene.must_read(item)
        changes = to_on(item, force, accept_fuzz) if on else to_off(scene, item, force)
        if not on:
            refuse_lower(scene, patch.name, changes)
        if not on and seen is None and patch.name not in scene.ours:
            desk.say(f"{patch.name} was not written by tokwatt; it is taken back by its own definition:")
            for line in preview(item):
                desk.say(line)
        after = scene.after(changes, patch.name, on)
        stay = [f"{file}: uncommitted changes that are not ours stay" for file in after.foreign(item.files)]
        notes = [*item.notes, *stay, *shared(scene, item)]
        notes += running(desk)
        receipt = await write(desk, scene, patch.name, verb, changes, began, trips, notes=notes, take_over=take_over)
        _refresh(desk, after)
        report.append(receipt)
    return receipt


def _refresh(desk: Desk, scene: Scene) -> None:
    """Put what a write left behind into the store, without asking the host again."""
    known = {status.name for status in desk.store.snapshot.patches}
    fresh = {item.patch.name: status_of(desk, scene, item) for item in scene.plans}
    gone = {item.patch.name for item in scene.plans if item.patch.fault and not Path(item.patch.path).exists()}
    kept = [fresh.pop(status.name, status) for status in desk.store.snapshot.patches if status.name not in gone]
    added = [] if known else list(fresh.values())
    desk.store.update(patches=(*kept, *added))


def _with_known(desk: Desk, first: Sequence[Patch]) -> list[Patch]:
    """Return the patches with every other known one: they may stand on the same lines."""
    names = {patch.name for patch in first}
    return [*first, *(patch for patch in known_patches(desk) if patch.name not in names)]


def _load_or_fault(desk: Desk, name: str) -> Patch:
    try:
        return load_patch(desk, name)
    except FormatError as error:
        return Patch(name=Path(name).name.removesuffix(".toml"), path=name, fault=error.one_line())


def _load_for_revert(desk: Desk, name: str) -> Patch:
    """Return a patch to be reverted: what was written comes off even when its file is gone or wrong now."""
    try:
        return load_patch(desk, name)
    except UsageError as error:
        return Patch(name=Path(name).name.removesuffix(".toml"), path=name, fault=error.one_line())


__all__ = [
    "apply",
    "apply_set",
    "capture",
    "known_patches",
    "load_patch",
    "plan_set",
    "revert",
    "statuses",
    "toggle",
    "told",
    "undo",
]

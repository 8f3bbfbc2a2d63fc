"""Patches on the desk's host: look, switch on, switch off, take the last change back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.config import paths
from console.config.patches import DIFF_SUFFIXES, load_or_fault
from console.config.patches import load_patch as read_patch
from console.domain.activity import Activity, Outcome
from console.domain.patch import DiskState, FileChange, Patch, PatchStatus, WriteReceipt
from console.domain.text import clean
from console.errors import (
    AlreadySoError,
    ConflictError,
    ConsoleError,
    DriftError,
    FormatError,
    FuzzError,
    NotApplicableError,
    RefusedError,
    RemoteError,
    UsageError,
)
from console.operations.desk import Desk
from console.operations.patch_capture import capture as capture
from console.operations.patch_scene import Scene, preview, read_scene, status_of, strangers, unknown
from console.operations.patch_writing import write
from console.patching import overlaps
from console.patching.plan import PatchPlan, sha256
from console.patching.process import GONE
from console.patching.undoing import take_back
from console.state.store import Mark


def known_patches(desk: Desk | None) -> tuple[Patch, ...]:
    """Return every patch that a name can reach; one whose file is wrong says so in `fault`."""
    found: dict[str, Patch] = {}
    for path in paths.all_patches():
        patch = load_or_fault(path)
        if patch.name in found:
            fault = f"{path}:1: the name {patch.name} is taken by {found[patch.name].path}"
            patch = replace(patch, name=path.stem, fault=fault)
        found[patch.name] = patch
    return tuple(found.values())


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
    desk: Desk, name: str, *, force: bool = False, accept_fuzz: bool = False, seen: PatchStatus | None = None
) -> WriteReceipt:
    """Switch a patch on: all its files, compared, compiled, read back and journalled.

    Args:
        desk: Whose host.
        name: Name or file of the patch.
        force: Complete a patch of which some edits are on already.
        accept_fuzz: Take hunks that match only when some context is ignored.
        seen: The status that the operator looked at; files that changed since refuse.

    Raises:
        AlreadySoError: It is on, or upstream has it.
        RefusedError: Drift, conflict, fuzz, not applicable; nothing was written.
        FormatError: The patch file is wrong.
    """
    return await _switch(desk, load_patch(desk, name), True, force, accept_fuzz, seen)


async def revert(desk: Desk, name: str, *, force: bool = False, seen: PatchStatus | None = None) -> WriteReceipt:
    """Switch a patch off: exactly our edits, the original bytes when nothing else changed since.

    Raises:
        AlreadySoError: It is off.
        RefusedError: Its lines were changed since, or another patch lies over it; nothing was written.
    """
    return await _switch(desk, _load_for_revert(desk, name), False, force, False, seen)


async def toggle(
    desk: Desk, name: str, *, force: bool = False, accept_fuzz: bool = False, seen: PatchStatus | None = None
) -> WriteReceipt:
    """Switch a patch to its other side, as the status that was looked at tells it."""
    if seen is None:
        seen = (await statuses(desk, [name]))[0]
    if seen.disk is DiskState.ON:
        return await revert(desk, name, force=force, seen=seen)
    return await apply(desk, name, force=force, accept_fuzz=accept_fuzz, seen=seen)


async def undo(desk: Desk) -> WriteReceipt:
    """Take back the last change that was written to this host's package; once more redoes it.

    Raises:
        AlreadySoError: Nothing was ever written.
        DriftError: Its lines were changed since.
    """
    desk.must_write("undo")
    async with _activity(desk, "undo", "undo the last change", "z") as report:
        began, trips = time.monotonic(), 1 + (desk.package is None)
        first = await read_scene(desk, known_patches(desk), ("*last",))
        last = first.told.get("last")
        if not last:
            raise AlreadySoError("nothing was written here that could be undone")
        name, verb = str(last["name"]), str(last["verb"])
        changes = _recorded(first, last["files"])
        if changes is None:
            raise DriftError(f"{verb} {name}: changed by somebody since", hint="revert it by name, or by hand")
        _refuse_lower(first, name, changes)
        back = {"apply": "revert", "revert": "apply"}.get(verb, verb)
        receipt = await write(desk, first, name, back, changes, began, trips, undoes=str(last["id"]))
        _refresh(desk, first.after(changes, name, back == "apply"))
        report.append(receipt)
    return receipt


async def _switch(
    desk: Desk, patch: Patch, on: bool, force: bool, accept_fuzz: bool, seen: PatchStatus | None
) -> WriteReceipt:
    verb = "apply" if on else "revert"
    desk.must_write(f"{verb} {patch.name}")
    async with _activity(desk, verb, f"{verb} {patch.name}", "z") as report:
        if patch.fault and on:
            raise FormatError(patch.fault)
        began, trips = time.monotonic(), 1 + (desk.package is None)
        scene = await read_scene(desk, _with_known(desk, [patch]), () if on else (patch.name,))
        item = scene.plan_of(patch.name)
        if seen is not None:
            _refuse_drift(scene, item, seen)
        if patch.fault and patch.name not in scene.ours:
            raise FormatError(patch.fault)
        changes = _to_on(item, force, accept_fuzz) if on else _to_off(scene, item, force)
        if not on:
            _refuse_lower(scene, patch.name, changes)
        if not on and seen is None and patch.name not in scene.ours:
            desk.say(f"{patch.name} was not written by tokwatt; it is taken back by its own definition:")
            for line in preview(item):
                desk.say(line)
        after = scene.after(changes, patch.name, on)
        stay = [f"{file}: uncommitted changes that are not ours stay" for file in after.foreign(item.files)]
        notes = [*item.notes, *stay]
        run = desk.store.snapshot.run
        if run is not None and run.phase not in GONE:
            notes.append(f"run {run.id} keeps the old code until it is restarted")
        receipt = await write(desk, scene, patch.name, verb, changes, began, trips, notes=notes)
        _refresh(desk, after)
        report.append(receipt)
    return receipt


def _to_on(item: PatchPlan, force: bool, accept_fuzz: bool) -> tuple[FileChange, ...]:
    name, state, reason = item.patch.name, item.state, item.reason
    if state is DiskState.INVALID:
        raise FormatError(reason)
    if state is DiskState.ON:
        raise AlreadySoError(f"{name} is on", reason)
    if state is DiskState.ALREADY_UPSTREAM:
        raise AlreadySoError(f"{name} is not needed", reason)
    if state is DiskState.NOT_APPLICABLE:
        raise NotApplicableError(f"{name} does not apply", reason)
    if not item.can_on:
        raise ConflictError(f"{name} conflicts", reason, "nothing was changed")
    if item.needs_fuzz and not accept_fuzz:
        raise FuzzError(f"{name} matches only with fuzz", reason, "look at the diff, then --accept-fuzz")
    if state is DiskState.DRIFTED and not force:
        raise RefusedError(f"{name} has drifted", reason, "--force completes it")
    return item.changes(on=True)


def _to_off(scene: Scene, item: PatchPlan, force: bool) -> tuple[FileChange, ...]:
    name, state, reason = item.patch.name, item.state, item.reason
    entry = scene.ours.get(name)
    if state is DiskState.OFF:
        raise AlreadySoError(f"{name} is off", reason)
    recorded = _recorded(scene, entry["files"]) if entry else None
    if recorded is not None and state is not DiskState.DRIFTED:
        return recorded
    if state is DiskState.INVALID:
        raise FormatError(reason)
    if state in (DiskState.ALREADY_UPSTREAM, DiskState.NOT_APPLICABLE):
        raise NotApplicableError(f"{name} is not ours to revert", reason)
    if not item.can_off:
        hint = "its lines were changed since it was written; nothing was changed" if entry else "nothing was changed"
        raise ConflictError(f"{name} cannot be taken back", reason, hint)
    if state is DiskState.DRIFTED and not force:
        raise RefusedError(f"{name} has drifted", reason, "--force takes back what is on of it")
    return item.changes(on=False)


def _recorded(scene: Scene, files: Sequence[Mapping[str, Any]]) -> tuple[FileChange, ...] | None:
    """Return what takes a journalled change back; `None` where its lines are not as they were left."""
    changes = []
    for file in files:
        path, before_sha, after_sha = str(file["path"]), file["before"], file["after"]
        if path not in scene.files:
            return None
        present = scene.files[path]
        before = scene.kept.get(before_sha) if before_sha else None
        after = scene.kept.get(after_sha) if after_sha else None
        if before_sha and before is None:
            return None
        if sha256(present) == (after_sha or ""):
            wanted = before
        elif before is None or after is None or present is None:
            return None
        else:
            wanted = take_back(before, after, present)
            if wanted is None:
                return None
        mode = file.get("mode_before") if present is None or file.get("mode") is not None else None
        changes.append(
            FileChange(
                path, path, present, wanted, sha256(present), sha256(wanted), mode if wanted is not None else None
            )
        )
    return tuple(change for change in changes if change.before != change.after or change.mode is not None)


def _refuse_lower(scene: Scene, name: str, changes: tuple[FileChange, ...]) -> None:
    over = overlaps.broken_by(changes, scene.others(name), scene.files, scene.planned)
    if over:
        others = " and ".join(over)
        raise ConflictError(
            f"{name} lies under {others}", "which is on and changes the same lines", f"revert {over[-1]} first"
        )


def _refuse_drift(scene: Scene, item: PatchPlan, seen: PatchStatus) -> None:
    before = dict(seen.seen)
    for file in item.files:
        now = sha256(scene.files.get(file))
        if before.get(file, now) != now:
            was = f"{before[file][:8] or 'no file'} then, {now[:8] or 'no file'} now"
            raise DriftError(f"{file} changed since it was looked at", was, "look again")


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


@contextlib.asynccontextmanager
async def _activity(desk: Desk, verb: str, text: str, undo_key: str) -> AsyncIterator[list[WriteReceipt]]:
    """Show an operation in the store from begin to end; the body hands its receipt over."""
    began = time.monotonic()
    number = desk.store.begin(Activity(0, verb, clean(text), started_at=time.time()))
    receipts: list[WriteReceipt] = []
    try:
        yield receipts
    except ConsoleError as error:
        refused = isinstance(error, (RefusedError, AlreadySoError, UsageError))
        outcome = Outcome.REFUSED if refused else Outcome.FAILED
        desk.store.amend(number, outcome=outcome, detail=clean(error.one_line()), ms=(time.monotonic() - began) * 1000)
        raise
    except BaseException:
        desk.store.amend(number, outcome=Outcome.FAILED, detail=clean("interrupted"))
        raise
    receipt = receipts[0]
    mark = Mark(time.time(), "patch", f"{receipt.verb} {receipt.name}")
    desk.store.update(marks=(*desk.store.snapshot.marks, mark))
    desk.store.amend(number, outcome=Outcome.DONE, detail=clean(told(receipt)), ms=receipt.ms, undo=undo_key)


def told(receipt: WriteReceipt) -> str:
    """Return a receipt in one line, as the screen tells it."""
    files = [
        f"{file.rpartition('/')[2]} +{added} −{removed}, {before[:8] or 'new'} → {after[:8] or 'removed'}"
        for file, before, after, added, removed in receipt.files
    ]
    by = f"compiled by {receipt.compiled_by}" if receipt.compiled_by else "not compiled"
    trips = "1 round trip" if receipt.round_trips == 1 else f"{receipt.round_trips} round trips"
    return f"{'; '.join(files)}; {by}, {trips}, {receipt.ms:.0f} ms"


__all__ = [
    "apply",
    "capture",
    "known_patches",
    "load_patch",
    "revert",
    "statuses",
    "toggle",
    "told",
    "undo",
]

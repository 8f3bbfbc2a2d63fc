"""What switching one patch would write, or why it is refused: from a scene alone, without the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from console.domain.patch import DiskState, FileChange, PatchStatus
from console.errors import (
    AlreadySoError,
    ConflictError,
    DriftError,
    FormatError,
    FuzzError,
    NotApplicableError,
    RefusedError,
)
from console.operations.patch_scene import Scene
from console.patching import overlaps
from console.patching.plan import PatchPlan, sha256
from console.patching.undoing import take_back


def to_on(item: PatchPlan, force: bool, accept_fuzz: bool) -> tuple[FileChange, ...]:
    """Return what switches a patch on, or raise why it stays as it is."""
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


def to_off(scene: Scene, item: PatchPlan, force: bool) -> tuple[FileChange, ...]:
    """Return what switches a patch off, or raise why it stays as it is."""
    name, state, reason = item.patch.name, item.state, item.reason
    entry = scene.ours.get(name)
    if state is DiskState.OFF:
        raise AlreadySoError(f"{name} is off", reason)
    original = recorded(scene, entry["files"]) if entry else None
    if original is not None and state is not DiskState.DRIFTED:
        return original
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


def recorded(scene: Scene, files: Sequence[Mapping[str, Any]]) -> tuple[FileChange, ...] | None:
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


def refuse_lower(scene: Scene, name: str, changes: tuple[FileChange, ...], along: Collection[str] = ()) -> None:
    """Raise when another patch that is on stands on these lines, or needs this one.

    Args:
        scene: What is on the host.
        name: The patch, or set, that is to go.
        changes: What would be written.
        along: Patches that go with it.
    """
    others = [item for item in scene.others(name) if item.patch.name not in along]
    needing = [other.patch.name for other in others if name in other.patch.after and other.state is DiskState.ON]
    if needing:
        raise ConflictError(
            f"{name} is needed by {' and '.join(needing)}", "which is on", f"revert {needing[-1]} first"
        )
    over = overlaps.broken_by(changes, others, scene.files, scene.planned)
    if over:
        raise ConflictError(
            f"{name} lies under {' and '.join(over)}",
            "which is on and changes the same lines",
            f"revert {over[-1]} first",
        )


def refuse_drift(scene: Scene, item: PatchPlan, seen: PatchStatus) -> None:
    """Raise when a file is not as the operator saw it."""
    before = dict(seen.seen)
    for file in item.files:
        now = sha256(scene.files.get(file))
        if before.get(file, now) != now:
            was = f"{before[file][:8] or 'no file'} then, {now[:8] or 'no file'} now"
            raise DriftError(f"{file} changed since it was looked at", was, "look again")

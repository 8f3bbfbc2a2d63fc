"""One verified write on the host, and its faults in the operator's words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from console.domain.diff import counts
from console.domain.patch import FileChange, WriteReceipt
from console.errors import AlreadySoError, DeadlineError, DriftError, LinkLostError, RefusedError, RemoteError
from console.operations.desk import Desk
from console.operations.holds import guarded
from console.operations.keeping import keep_write
from console.operations.patch_scene import Scene

_OPEN = "whether it was written is not known yet"

_HINTS = {
    "eacces": "log in as its owner, or have the rights changed",
    "eperm": "log in as its owner",
    "erofs": "the file system is mounted read-only",
    "enospc": "make room on that file system",
    "edquot": "make room: the quota of this login is used up",
    "immutable": "take the attribute away (chattr) if that is meant",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One patch of a set: what switching it changes from where the step before left the files."""

    name: str
    verb: str
    """`apply` or `revert`."""
    changes: tuple[FileChange, ...]


async def write(
    desk: Desk,
    scene: Scene,
    name: str,
    verb: str,
    changes: Sequence[FileChange],
    began: float,
    trips: int,
    *,
    notes: Sequence[str] = (),
    undoes: str = "",
    steps: Sequence[Step] = (),
    take_over: bool = False,
) -> WriteReceipt:
    """Write all changes or none: one round trip.

    Args:
        desk: Whose host.
        scene: What was read; its hashes must still hold on the host.
        name: Patch or file, for the journal.
        verb: `apply`, `revert` or `edit`, for the journal.
        changes: New contents.
        began: `time.monotonic()` when the operation began, for the receipt.
        trips: Round trips that reading took; others use the link at the same time.
        notes: What else the receipt shall say.
        undoes: Journal entry that this takes back.
        steps: The patches of a set, in their order: the host remembers each by itself.
        take_over: End a writer that has held the lock for long, and whose process is there to be ended.
    """
    if not changes:
        raise AlreadySoError(f"{verb} {name}: nothing to change")
    args: dict[str, object] = {
        "root": scene.package.folder,
        "name": name,
        "verb": verb,
        "operator": desk.operator,
        "python": scene.package.interpreter or (desk.profile.engine.python if desk.profile else ""),
        "about": {"package": scene.package.name, "version": scene.package.version, "undoes": undoes},
        "files": [_spec(change) for change in changes],
        "take_over": take_over,
    }
    between = _between(changes, steps) if steps else []
    if steps:
        args |= {"parts": [_part(step) for step in steps], "extra": [len(data) for data in between]}
    body = b"".join([*(change.after for change in changes if change.after is not None), *between])
    said = await _written(desk, args, body, name, verb)
    receipt = WriteReceipt(
        name=name,
        verb=verb,
        files=_rows(changes),
        compiled_by=str(said["compiled_by"]),
        round_trips=trips + 1,
        ms=(time.monotonic() - began) * 1000,
        notes=(*notes, *_notes(said)),
    )
    for step in steps:
        await keep_write(desk, replace(receipt, name=step.name, verb=step.verb, files=_rows(step.changes)))
    if not steps:
        await keep_write(desk, receipt)
    return receipt


def _notes(said: Mapping[str, Any]) -> list[str]:
    """Return what the host has to say of a write that is done."""
    told = [str(note) for note in said["notes"]]
    if said["compile_note"]:
        told.append(f"not compiled: {said['compile_note']}")
    return told + [f"{one['verb']} {one['name']} had been cut short: {one['outcome']}" for one in said["recovered"]]


async def _written(desk: Desk, args: Mapping[str, object], body: bytes, name: str, verb: str) -> Mapping[str, Any]:
    """Return what the host says of the write; its faults in the operator's words."""
    try:
        return (await guarded(desk, "transaction", args, body, what=f"{verb} {name}", deadline_s=180)).result
    except LinkLostError as error:
        hint = "the host writes all files or none; look at the patch's state once the link is back"
        raise LinkLostError(f"{verb} {name}: {error.title}", _OPEN, hint) from error
    except DeadlineError as error:
        hint = "look at the patch's state before anything else"
        raise DeadlineError(f"{verb} {name}: {error.title}", _OPEN, hint, kind=error.kind) from error
    except RemoteError as error:
        raise _worded(error, name, verb) from error


def _spec(change: FileChange) -> dict[str, object]:
    return {
        "path": change.path,
        "before": change.before_sha256 or None,
        "after": change.after_sha256 or None,
        "size": len(change.after or b""),
        **({"mode": change.mode} if change.mode is not None else {}),
        **({"like": change.like} if change.like else {}),
    }


def _rows(changes: Sequence[FileChange]) -> tuple[tuple[str, str, str, int, int], ...]:
    rows = []
    for change in changes:
        added, removed = counts(change.before, change.after)
        rows.append((change.shown, change.before_sha256, change.after_sha256, added, removed))
    return tuple(rows)


def _part(step: Step) -> dict[str, object]:
    files = [
        {
            "path": change.path,
            "before": change.before_sha256 or None,
            "after": change.after_sha256 or None,
            "mode": change.mode,
            "mode_before": change.mode_before,
        }
        for change in step.changes
    ]
    return {"name": step.name, "verb": step.verb, "files": files}


def _between(changes: Sequence[FileChange], steps: Sequence[Step]) -> list[bytes]:
    """Return the contents that lie between the steps: neither at the beginning nor at the end."""
    ends = {change.before_sha256 for change in changes} | {change.after_sha256 for change in changes}
    found: dict[str, bytes] = {}
    for step in steps:
        for change in step.changes:
            for sha, data in ((change.before_sha256, change.before), (change.after_sha256, change.after)):
                if data is not None and sha not in ends:
                    found[sha] = data
    return list(found.values())


def _worded(error: RemoteError, name: str, verb: str) -> Exception:
    path = str(error.facts.get("path") or "")
    if error.kind == "changed":
        now = str(error.facts.get("found") or "gone")[:8]
        return DriftError(
            f"{path} changed while {name} was looked at", f"it is {now} now; nothing was written", "look again"
        )
    if error.kind == "locked":
        owner = str(error.facts.get("owner") or "another console")
        age = error.facts.get("age_s")
        since = f"for {age:.0f} s by now" if isinstance(age, (int, float)) else ""
        why = "; ".join(part for part in (since, "" if " is writing here" in error.title else error.title) if part)
        hint = "wait for it, then look again; one that is stuck: --take-over"
        return RefusedError(f"{verb} {name}: {owner} is writing to {path}", why, hint)
    if error.kind == "syntax":
        return RefusedError(f"{verb} {name}: {path} would not compile", error.detail, "nothing was written")
    if error.kind == "degraded":
        why = error.title.partition(": ")[2] or error.title
        hint = "nothing was written; install python3 (3.9 or newer) there, or name one in the profile: [engine] python"
        return RefusedError(f"{verb} {name}: {why}", error.detail, hint)
    if error.kind == "outside":
        return RefusedError(f"{verb} {name}: {error.title}", hint="nothing was written")
    title = f"{verb} {name}: {error.title}"
    hint = _HINTS.get(error.kind, "")
    untouched = "nothing was changed" if error.kind.startswith("e") or error.kind in _HINTS else ""
    return RemoteError(title, error.detail or untouched, hint, kind=error.kind, facts=error.facts)

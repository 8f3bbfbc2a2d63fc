"""Write several files or none: lock, compare-and-swap, journal, rename, read back."""

from __future__ import annotations

import contextlib
import os
import stat
import time
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import caches, compiling, holds, placing, recovery, snapshot, takeover
from .calls import Call, Fault, Operation, Result
from .keep import FOLDER, Keep, digest, sync_folder

on_step: Optional[Callable[[str], None]] = None
"""Called before every step that a kill could fall before: for tests, which kill there."""


def step(name: str) -> None:
    """Mark a point between two things that cannot be done at once."""
    if on_step is not None:
        on_step(name)


class Target:
    """One file of a transaction."""

    def __init__(self, spec: Dict[str, Any], path: str, data: Optional[bytes]) -> None:
        self.asked = str(spec["path"])
        self.path = path
        self.before: Optional[str] = spec["before"]
        self.after: Optional[str] = spec["after"]
        self.data = data
        self.present: Optional[bytes] = None
        self.mode: Optional[int] = spec.get("mode")
        self.mode_before: Optional[int] = None
        if os.path.isfile(path):
            self.mode_before = stat.S_IMODE(os.stat(path).st_mode)
        self.temp = ""

    def must_be(self, expected: Optional[str]) -> None:
        """Raise `changed` unless the file has this hash now."""
        self.present = placing.content(self.path)
        found = None if self.present is None else digest(self.present)
        if found != expected:
            raise Fault("changed", "not as it was last seen", path=self.asked, expected=expected, found=found)


def transaction(call: Call) -> Result:
    """Change all files or none.

    Args (in the call): `root` the package folder, `name`, `verb` and `operator` for the journal,
    `python` the interpreter to compile with, `files` as {path, before, after, size, mode?, like?} where
    a new file takes its mode from `mode`, or from the file `like` of the package, and where
    hashes are SHA-256 or null for no file, and in the body the new contents one after another.
    Several patches at once: `parts` as {name, verb, files} in their order, each from where the one
    before left the files, and `extra` the sizes of contents that lie between, behind the others in the body.

    `take_over` ends a writer that has held the lock for long; `hold` is as `holds.refuse` takes it.

    Faults: an errno name, `held`, `lost`, `changed`, `locked`, `outside`, `immutable`, `syntax`, `readback`.
    """
    with Call.critical:
        holds.refuse(call)
        return _transaction(call)


def _transaction(call: Call) -> Result:
    keep = Keep(call.text("root"))
    targets, extra = _targets(call, keep)
    operator = call.text("operator", "")
    recovered: List[Dict[str, Any]] = []
    with contextlib.ExitStack() as held:
        locked = keep.exists()
        if locked and call.args.get("take_over") and os.path.exists(os.path.join(keep.folder, "lock")):
            takeover.take_over(os.path.join(keep.folder, "lock"))
        if locked:
            held.enter_context(keep.lock(operator))
            recovered = recovery.recover(keep, operator)
        for target in targets:
            target.must_be(target.before)
            placing.refuse_unwritable(target.path)
        compiled = compiling.faults(call.text("python", ""), [(t.asked, t.present, t.data) for t in targets])
        if compiled["errors"]:
            path, line, message = compiled["errors"][0]
            detail = "line %d: %s, says %s" % (line, message, compiled["by"])
            raise Fault("syntax", "would not compile", path=path, line=line, detail=detail)
        if not locked:
            placing.refuse_unwritable(os.path.join(keep.base, FOLDER, "journal.jsonl"))
        keep.create()
        if not locked:
            held.enter_context(keep.lock(operator))
        entry = _entry(call, keep, targets, operator)
        _write(keep, targets, entry, extra)
        notes = _after(keep, targets)
    return {
        "id": entry["id"],
        "files": [{"path": t.asked, "before": t.before, "after": t.after} for t in targets],
        "compiled_by": compiled["by"],
        "compile_note": compiled["why"],
        "recovered": recovered,
        "notes": notes,
    }, b""


def _targets(call: Call, keep: Keep) -> Tuple[List[Target], List[bytes]]:
    specs = call.args.get("files")
    if not isinstance(specs, list) or not specs:
        raise Fault("usage", "argument 'files' must be a list of files")
    targets, at = [], 0
    for spec in specs:
        asked = str(spec["path"])
        path = os.path.realpath(os.path.join(keep.root, asked))
        if os.path.commonpath([path, keep.root]) != keep.root or path == keep.root:
            raise Fault("outside", "leads outside %s, to %s" % (keep.root, path), path=asked)
        data = None
        if spec["after"] is not None:
            data = call.body[at : at + int(spec["size"])]
            at += int(spec["size"])
            if digest(data) != spec["after"]:
                raise Fault("usage", "the new bytes are not what their hash says", path=asked)
        target = Target(spec, path, data)
        like = os.path.realpath(os.path.join(keep.root, str(spec.get("like") or asked)))
        if target.mode is None and target.mode_before is None and os.path.isfile(like):
            target.mode = stat.S_IMODE(os.stat(like).st_mode)
        targets.append(target)
    extra = []
    for size in call.args.get("extra") or []:
        extra.append(call.body[at : at + int(size)])
        at += int(size)
    if at != len(call.body) or len({target.path for target in targets}) != len(targets):
        raise Fault("usage", "files and bodies do not agree, or a file is named twice")
    return targets, extra


def _entry(call: Call, keep: Keep, targets: List[Target], operator: str) -> Dict[str, Any]:
    number = "%s-%s" % (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), uuid.uuid4().hex[:8])
    made: List[str] = []
    for index, target in enumerate(targets):
        folder, name = os.path.split(target.path)
        target.temp = os.path.join(folder, ".%s.tokwatt-%s-%d" % (name[:100], number[-8:], index))
        missing = []
        while target.after is not None and not os.path.isdir(folder):
            missing.append(keep.relative(folder))
            folder = os.path.dirname(folder)
        made.extend(path for path in reversed(missing) if path not in made)
    return {
        "id": number,
        "phase": "begin",
        "name": call.text("name"),
        "verb": call.text("verb"),
        "operator": operator,
        "about": call.args.get("about") or {},
        "made": made,
        "parts": _parts(call, keep),
        "files": [
            {
                "path": keep.relative(t.path),
                "before": t.before,
                "after": t.after,
                "temp": keep.relative(t.temp),
                "mode": t.mode,
                "mode_before": t.mode_before,
            }
            for t in targets
        ],
    }


def _parts(call: Call, keep: Keep) -> List[Dict[str, Any]]:
    """Return the patches of a set as the journal writes them."""
    parts = []
    for part in call.args.get("parts") or []:
        files = [
            {
                **{key: file.get(key) for key in ("before", "after", "mode", "mode_before")},
                "path": keep.relative(os.path.realpath(os.path.join(keep.root, str(file["path"])))),
            }
            for file in part["files"]
        ]
        parts.append({"name": str(part["name"]), "verb": str(part["verb"]), "files": files})
    return parts


def _write(keep: Keep, targets: List[Target], entry: Dict[str, Any], extra: List[bytes]) -> None:
    try:
        for between in extra:
            step("keep")
            keep.put(between)
        for target in targets:
            for data in (target.present, target.data):
                if data is not None:
                    step("keep")
                    keep.put(data)
        step("begin")
        mark = keep.append(entry)
    except OSError:
        keep.collect()
        keep.discard()
        raise
    swapped: List[Target] = []
    try:
        _prepare(keep, targets, entry)
        step("commit")
        keep.append({"id": entry["id"], "phase": "commit"})
        for target in targets:
            step("swap")
            swapped.append(target)
            recovery.swap(target.path, target.temp, target.before, target.after)
        made = {os.path.dirname(keep.absolute(folder)) for folder in entry["made"]}
        for folder in made | {os.path.dirname(target.path) for target in targets}:
            step("sync")
            sync_folder(folder)
        for target in targets:
            step("read back")
            _read_back(target)
    except (OSError, Fault):
        _undo(keep, swapped, entry, mark)
        raise
    with contextlib.suppress(OSError):  # disk full: the next start finds all files new and says so
        recovery.tidy(keep, entry, folders_too=False)
        step("done")
        keep.append({"id": entry["id"], "phase": "done"})


def _prepare(keep: Keep, targets: List[Target], entry: Dict[str, Any]) -> None:
    for folder in entry["made"]:
        step("folder")
        os.mkdir(keep.absolute(folder), 0o755)
    for target in targets:
        if target.data is not None:
            step("place")
            placing.place(target.path, target.temp, target.data, target.mode)
        if target.before is not None:
            step("link")
            with contextlib.suppress(OSError):  # no hard links here: undone by content instead
                os.link(target.path, target.temp + "~", follow_symlinks=False)
    for target in targets:
        step("compare")
        target.must_be(target.before)


def _read_back(target: Target) -> None:
    data = placing.content(target.path)
    found = None if data is None else digest(data)
    if found != target.after:
        raise Fault("readback", "does not hold what was written", path=target.asked, found=found)
    if target.after is not None and target.mode is not None:
        mode = stat.S_IMODE(os.stat(target.path).st_mode)
        if mode != target.mode:
            raise Fault("readback", "has mode %o, not %o" % (mode, target.mode), path=target.asked)


def _undo(keep: Keep, swapped: List[Target], entry: Dict[str, Any], mark: int) -> None:
    """Put everything back; what cannot be put back stays open in the journal for the next start."""
    try:
        for target in reversed(swapped):
            if recovery.side(target.path, target.before, target.after, target.mode) == recovery.NEW:
                recovery.restore(keep, target.path, target.temp, target.before, target.mode_before)
    except (OSError, Fault) as error:
        raise Fault("half", "cut short and not undone; the next start finishes it", detail=str(error)) from error
    recovery.tidy(keep, entry, folders_too=True)
    keep.forget_after(mark)
    keep.collect()
    keep.discard()


def _after(keep: Keep, targets: List[Target]) -> List[str]:
    notes = []
    for target in targets:
        for pyc in placing.unchecked_bytecode(target.path):
            with contextlib.suppress(OSError):
                os.unlink(pyc)
                notes.append("removed %s, which Python would have loaded unchecked" % os.path.basename(pyc))
    notes += caches.stale([(target.path, target.present, target.data) for target in targets])
    keep.collect()
    return notes


OPS: dict[str, Operation] = {"transaction": transaction, "snapshot": snapshot.snapshot}

"""All that is known of the patches on one host at one moment: read in one round trip, judged here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from console.domain.diff import unified
from console.domain.host import Package
from console.domain.patch import DiskState, FileChange, Patch, PatchStatus, ProcessState
from console.domain.text import SafeText
from console.errors import ConsoleError
from console.operations import host, patch_process
from console.operations.desk import Desk
from console.patching import conflicts, overlaps
from console.patching.plan import PatchPlan, bare_names, plan, sha256, wanted_paths
from console.patching.versions import Facts
from console.remote.link import HostLink

_resolved: WeakKeyDictionary[HostLink, dict[tuple[str, str], Package | None]] = WeakKeyDictionary()
_capabilities: WeakKeyDictionary[HostLink, str] = WeakKeyDictionary()


UNREAD = "cannot be read"


@dataclass(frozen=True, slots=True)
class Scene:
    """Files, journal and facts; plans of every patch that was asked about."""

    package: Package
    facts: Facts
    files: Mapping[str, bytes | None]
    told: Mapping[str, Any]
    """The snapshot as the host answered it."""
    kept: Mapping[str, bytes]
    """Contents that the host keeps, by hash, as far as they were asked for."""
    plans: tuple[PatchPlan, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Why a file could not be written, as far as the host knows before trying."""
    elsewhere: Package | None = None
    """What the profile's interpreter would load, where `--package` named a folder instead."""

    def planned(self, patch: Patch, files: Mapping[str, bytes | None]) -> PatchPlan:
        """Plan one patch on some contents with the facts of this host."""
        ours, found = patch.name in self.ours, self.told.get("found")
        folders = tuple(map(str, self.told.get("folders") or ()))
        return plan(patch, files, self.facts, ours=ours, found=found, modes=self.modes, folders=folders)

    @property
    def modes(self) -> dict[str, int]:
        """Modes of the files that are there, where the host told them."""
        facts: Mapping[str, Mapping[str, Any] | None] = self.told.get("files") or {}
        return {path: int(fact["mode"]) for path, fact in facts.items() if fact and "mode" in fact}

    @property
    def ours(self) -> Mapping[str, Any]:
        """Journal entries of the patches in force that we wrote, by name."""
        ours: Mapping[str, Any] = self.told.get("ours") or {}
        return ours

    def plan_of(self, name: str) -> PatchPlan:
        """Return the plan of a patch that was asked about."""
        return next(item for item in self.plans if item.patch.name == name)

    def unread(self, item: PatchPlan) -> tuple[str, ...]:
        """Return why files of a patch could not be read; nothing is known of its state then."""
        told = (self.refusals.get(file, "") for file in item.files)
        return tuple(reason for reason in told if UNREAD in reason)

    def must_read(self, item: PatchPlan) -> None:
        """Raise the reason when a file of a patch could not be read."""
        for reason in self.unread(item):
            raise ConsoleError(f"{item.patch.name}: {reason}", hint="nothing was changed")

    def others(self, name: str) -> tuple[PatchPlan, ...]:
        """Return the plans of all other patches."""
        return tuple(item for item in self.plans if item.patch.name != name)

    def after(self, changes: Sequence[FileChange], name: str, on: bool) -> Scene:
        """Return the scene as it is once the changes are written."""
        entry = {"name": name, "files": [_journalled(change) for change in changes]}
        ours = {key: value for key, value in self.ours.items() if key != name}
        if on:
            ours[name] = entry
        files = overlaps.with_changes(self.files, changes)
        facts = dict(self.told.get("files") or {})
        for change in changes:
            mode = {"mode": change.mode} if change.mode else {}
            facts[change.path] = {**(facts.get(change.path) or {}), **mode, "links": 1}
        told = {**self.told, "ours": ours, "files": facts}
        kept = dict(self.kept)
        for change in changes:
            kept |= {sha256(data): data for data in (change.before, change.after) if data is not None}
        return judged(replace(self, files=files, told=told, kept=kept), [p.patch for p in self.plans])

    def foreign(self, files: Sequence[str]) -> tuple[str, ...]:
        """Return which of the files hold uncommitted changes that are not of our patches."""
        head: Mapping[str, str] = self.told.get("head") or {}
        clean: Mapping[str, bytes | None] = self.files
        for item in self.plans:
            if item.state is DiskState.ON and item.patch.name in self.ours and set(item.files) & set(files):
                clean = overlaps.with_changes(clean, self.planned(item.patch, clean).changes(on=False))
        return tuple(
            file
            for file in files
            if file in head and (data := clean.get(file)) is not None and _blob(data, len(head[file])) != head[file]
        )


async def read_scene(desk: Desk, patches: Sequence[Patch], contents: Sequence[str] = ()) -> Scene:
    """Read every file of the patches, the host's patch journal and git's blobs: one round trip.

    Args:
        desk: Whose host and package.
        patches: All patches to be planned.
        contents: Names of patches whose kept originals are wanted, or `*last`.
    """
    package = await host.engine_package(desk)
    paths = dict.fromkeys(path for patch in patches for path in wanted_paths(patch, package.name))
    capability = _known_capability(desk)
    ask_gpu = capability is None and any(patch.applies_to.compute_capability for patch in patches)
    reply = await desk.link.call(
        "snapshot",
        {
            "root": package.folder,
            "paths": list(paths),
            "contents": list(contents),
            "names": list(dict.fromkeys(name for patch in patches for name in bare_names(patch))),
            "recover": not desk.readonly,
            "operator": desk.operator,
            "capability": ask_gpu,
            **patch_process.session(desk, package),
        },
        deadline_s=60,
    )
    if ask_gpu:
        capability = _capabilities[desk.link] = str(reply.result.get("capability") or "")
    _tell(desk, reply.result)
    files, refusals, at = _contents(reply.result["files"], reply.body)
    kept = {}
    for item in reply.result["kept"]:
        kept[str(item["sha256"])] = reply.body[at : at + int(item["size"])]
        at += int(item["size"])
    facts = Facts(package.name, package.version, capability or None)
    scene = Scene(package, facts, files, dict(reply.result), kept, (), refusals, await _elsewhere(desk, package))
    return judged(scene, patches)


def judged(scene: Scene, patches: Sequence[Patch]) -> Scene:
    """Return the scene with every patch planned, and those in each other's way told."""
    plans = tuple(scene.planned(patch, scene.files) for patch in patches)
    told = []
    for item in plans:
        others = [other for other in plans if other is not item]
        ours = item.patch.name in scene.ours
        found = overlaps.explained(item, others, scene.files, scene.planned, ours)
        told.append(overlaps.ordered(found, others))
    return replace(scene, plans=tuple(told))


def status_of(desk: Desk, scene: Scene, item: PatchPlan) -> PatchStatus:
    """Return both columns of one patch with their evidence, and the diff of what `space` would do."""
    run = desk.store.snapshot.run
    profile = desk.profile
    loaded, evidence = patch_process.judged(scene, item, run, profile.launch.args if profile else {})
    refusals = [scene.refusals[file] for file in item.files if scene.refusals.get(file)]
    unread = scene.unread(item)
    reason = "; ".join(dict.fromkeys(unread or (item.reason, *refusals))).strip("; ")
    entry = scene.ours.get(item.patch.name)
    return PatchStatus(
        name=item.patch.name,
        title=item.patch.title or item.patch.name,
        disk=DiskState.UNKNOWN if unread else item.state,
        loaded=ProcessState.UNKNOWN if unread or item.state is DiskState.INVALID else loaded,
        reason=reason,
        process_reason=evidence,
        files=item.files,
        diff=preview(item),
        version=scene.package.version,
        needs_fuzz=item.needs_fuzz,
        ours=entry is not None and item.state in (DiskState.ON, DiskState.DRIFTED),
        seen=tuple((file, sha256(scene.files.get(file))) for file in item.files),
        asks=_asks(scene, item),
        conflict=_conflict(item),
        warnings=patch_process.warnings(scene, item, run),
        changes=item.changes(on=item.state is not DiskState.ON),
        own=_own(scene, item) if entry is not None else (),
    )


def _own(scene: Scene, item: PatchPlan) -> tuple[str, ...]:
    """Return the files of a patch that hold nothing but our own changes since the last commit."""
    if item.state is not DiskState.ON:
        return ()
    foreign = scene.foreign(item.files)
    return tuple(file for file in item.files if file in (scene.told.get("head") or {}) and file not in foreign)


def _conflict(item: PatchPlan) -> tuple[SafeText, ...]:
    """Return the three sides of what does not fit; nothing where the state does not hang on it."""
    doubtful = item.state in (DiskState.CONFLICT, DiskState.DRIFTED)
    return conflicts.rendered(conflicts.three_way(item)) if doubtful else ()


def preview(item: PatchPlan) -> tuple[SafeText, ...]:
    """Return the unified diff of what switching the patch would write now."""
    lines: list[SafeText] = []
    for change in item.changes(on=item.state is not DiskState.ON):
        lines += unified(change.before, change.after, change.shown)
    return tuple(lines)


def strangers(scene: Scene) -> tuple[PatchStatus, ...]:
    """Return the patches that the host's journal says are on and whose files are not here: another operator's."""
    known = {item.patch.name for item in scene.plans}
    found = []
    for name, entry in scene.ours.items():
        if name in known:
            continue
        whole = all(file["present"] == file["after"] for file in entry["files"])
        reason = f"written by {entry['operator'] or 'somebody'}; its patch file is not here"
        changed = "" if whole else "; its files were changed since"
        found.append(
            PatchStatus(
                name,
                name,
                DiskState.ON if whole else DiskState.DRIFTED,
                reason=reason + changed,
                files=tuple(str(file["path"]) for file in entry["files"]),
                version=scene.package.version,
                ours=True,
                seen=tuple((str(file["path"]), str(file["present"] or "")) for file in entry["files"]),
            )
        )
    return tuple(found)


def unknown(patch: Patch, reason: str) -> PatchStatus:
    """Return the status of a patch whose host cannot be asked."""
    disk = DiskState.INVALID if patch.fault else DiskState.UNKNOWN
    return PatchStatus(patch.name, patch.title or patch.name, disk, reason=patch.fault or reason)


def _asks(scene: Scene, item: PatchPlan) -> tuple[str, ...]:
    asks = []
    if item.state is DiskState.DRIFTED:
        asks.append(f"drifted: {item.reason}")
    if item.needs_fuzz:
        asks.append(f"fuzz: {item.reason}")
    if item.state in (DiskState.ON, DiskState.OFF, DiskState.DRIFTED):
        asks += [f"{file} holds uncommitted changes that are not ours" for file in scene.foreign(item.files)]
    return tuple(asks)


def _contents(
    facts: Mapping[str, Mapping[str, Any] | None], body: bytes
) -> tuple[dict[str, bytes | None], dict[str, str], int]:
    files: dict[str, bytes | None] = {}
    refusals: dict[str, str] = {}
    at = 0
    for path, fact in facts.items():
        files[path] = None
        if fact is None:
            continue
        if "sha256" in fact:
            files[path] = body[at : at + int(fact["size"])]
            at += int(fact["size"])
            refusals[path] = str(fact["refusal"])
        elif "outside" in fact:
            refusals[path] = f"{path} leads outside the package, to {fact['outside']}"
        else:
            refusals[path] = f"{path} {UNREAD}: {fact.get('error') or 'not a file of a sensible size'}"
    return files, refusals, at


async def _elsewhere(desk: Desk, package: Package) -> Package | None:
    """Return the package as the profile's interpreter resolves it, when a folder was named beside a profile."""
    if not desk.package_dirs or desk.profile is None or not desk.profile.engine.python:
        return None
    key = (package.name, desk.profile.engine.python)
    known = _resolved.setdefault(desk.link, {})
    if key not in known:
        try:
            known[key] = await host.profile_package(desk, package.name)
        except ConsoleError:
            known[key] = None
    return known[key]


def _known_capability(desk: Desk) -> str | None:
    sample = desk.store.snapshot.gpus
    seen = {gpu.compute_capability for gpu in sample.gpus if gpu.compute_capability} if sample else set()
    if seen:
        return seen.pop() if len(seen) == 1 else ""
    return _capabilities.get(desk.link)


def _tell(desk: Desk, told: Mapping[str, Any]) -> None:
    for item in told["recovered"]:
        who = f" of {item['operator']}" if item["operator"] else ""
        desk.say(f"{item['verb']} {item['name']}{who} had been cut short: {item['outcome']} now")
        if item["foreign"]:
            desk.say(f"left as somebody else changed them since: {', '.join(item['foreign'])}")
    if told["trouble"]:
        desk.say(f"a write that was cut short could not be closed: {told['trouble']}")


def _journalled(change: FileChange) -> dict[str, Any]:
    """Return a change as the host's journal tells it."""
    return {
        "path": change.path,
        "before": change.before_sha256 or None,
        "after": change.after_sha256 or None,
        "mode": change.mode,
        "mode_before": change.mode_before,
    }


def _blob(data: bytes, length: int) -> str:
    text = b"blob %d\0%s" % (len(data), data)
    return hashlib.sha256(text).hexdigest() if length == 64 else hashlib.sha1(text).hexdigest()

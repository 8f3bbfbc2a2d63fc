"""The column of the process: what is known of the server that runs, judged against a patch."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from console.domain.host import Package
from console.domain.patch import ProcessState
from console.domain.run import Run
from console.domain.text import clean
from console.operations.desk import Desk
from console.patching import process
from console.patching.plan import PatchPlan, sha256

if TYPE_CHECKING:
    from console.operations.patch_scene import Scene


def judged(scene: Scene, item: PatchPlan, run: Run | None, args: Mapping[str, object]) -> tuple[ProcessState, str]:
    """Return the state of a patch in the process, and its evidence."""
    return process.judge(
        item.patch,
        item.state,
        [_file_now(scene, file) for file in item.files],
        run,
        args,
        _workers(scene),
        elsewhere=_other_copy(scene, run),
        switches=_switches(scene, item.patch.name),
    )


def session(desk: Desk, package: Package) -> dict[str, object]:
    """Return which server's processes are to be looked at; nothing when none runs."""
    run = desk.store.snapshot.run
    if run is None or run.phase in process.GONE or run.process is None:
        return {}
    found = run.process
    session = found.session or found.pid
    return {"pid": found.pid, "session": session, "start_ticks": found.start_ticks, "package": package.name}


def warnings(scene: Scene, item: PatchPlan, run: Run | None) -> tuple[str, ...]:
    """Tell when what is patched here is another copy than the one that a server loads."""
    found = []
    elsewhere = scene.elsewhere
    if elsewhere is not None and elsewhere.folder.rstrip("/") != scene.package.folder.rstrip("/"):
        python = elsewhere.interpreter or "the profile's interpreter"
        found.append(
            f"{python} loads {elsewhere.folder}, not {scene.package.folder}: a patch here reaches no server of it"
        )
    launcher = run.argv[0] if run is not None and run.phase not in process.GONE and run.argv else ""
    asked = scene.package.interpreter
    if launcher.startswith("/") and asked.startswith("/") and posixpath.dirname(launcher) != posixpath.dirname(asked):
        found.append(f"{process.named(run)} was started by {launcher}, and {asked} is what was asked here")
    if scene.package.layer:
        found.append(f"{scene.package.folder} lies in the {scene.package.layer}: what is written there goes with it")
    return (*found, *shared(scene, item))


def shared(scene: Scene, item: PatchPlan) -> tuple[str, ...]:
    """Tell which files have other names, as those that uv links out of its cache: only this name is written."""
    facts: Mapping[str, Mapping[str, Any] | None] = scene.told.get("files") or {}
    links = {file: int((facts.get(file) or {}).get("links") or 1) for file in item.files}
    return tuple(
        f"{file} has {count} names (hard links): only this one is written, the others keep the old bytes"
        for file, count in links.items()
        if count > 1
    )


def _workers(scene: Scene) -> tuple[process.Worker, ...]:
    """Return the processes of the server that runs, with when each began and what it loads."""
    return tuple(
        process.Worker(
            int(one["pid"]), str(clean(one["title"])), float(one["started_at"] or 0.0), str(one.get("loads") or "")
        )
        for one in scene.told.get("workers") or ()
    )


def _other_copy(scene: Scene, run: Run | None) -> str:
    """Return why the server has another copy of the package loaded; empty when, as far as is known, it has this one."""
    if run is None or run.phase in process.GONE:
        return ""
    here = str(scene.told.get("root") or scene.package.folder).rstrip("/")
    loads = {worker.loads for worker in _workers(scene) if worker.loads}
    if loads:
        return "" if here in loads else f"{process.named(run)} loads {min(loads)}, not {scene.package.folder}"
    launcher, asked = run.argv[0] if run.argv else "", scene.package.interpreter
    if launcher.startswith("/") and asked.startswith("/") and posixpath.dirname(launcher) != posixpath.dirname(asked):
        return f"{process.named(run)} was started by {launcher}: what it loads cannot be told"
    return ""


def _switches(scene: Scene, name: str) -> tuple[tuple[float, str], ...]:
    told = (scene.told.get("switches") or {}).get(name) or ()
    return tuple((float(when or 0.0), str(verb)) for when, verb in told)


def _file_now(scene: Scene, file: str) -> process.FileNow:
    fact = (scene.told["files"].get(file) or {}) if scene.told.get("files") else {}
    data = scene.files.get(file)
    path = posixpath.join(scene.package.folder, file)
    times = (float(fact.get("mtime") or 0.0), float(fact.get("ctime") or 0.0))
    return process.FileNow(path, str(fact.get("real") or path), sha256(data), *times)

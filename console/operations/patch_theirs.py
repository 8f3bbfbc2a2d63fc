"""Uncommitted changes on a host: what is of our patches that are on, and what is somebody's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from console.domain.diff import unified_bytes
from console.domain.patch import DiskState
from console.operations.desk import Desk
from console.operations.known import known_patches
from console.operations.patch_scene import Scene, read_scene
from console.operations.patch_sets import planned_set
from console.patching.diffs import DiffReader, parted
from console.source.diffs import head_pairs


async def without_ours(desk: Desk, diff: bytes, paths: Sequence[str]) -> bytes:
    """Return a diff against HEAD without what our patches changed; unchanged where none of them is in it.

    Args:
        desk: Whose host.
        diff: As git made it on the host.
        paths: Files or folders on the host that it is of.
    """
    if not diff.strip():
        return diff
    known = known_patches(desk)
    scene = await read_scene(desk, known, [patch.name for patch in known])
    if not scene.ours:
        return diff
    found = await asyncio.gather(*(head_pairs(desk.link, [path]) for path in paths))
    pairs = {pair.name: pair for part in found for pair in part.files}
    files = {name: _inside(scene, pair.path) for name, pair in pairs.items()}
    ours = [
        item
        for item in scene.plans
        if item.patch.name in scene.ours and item.state is DiskState.ON and set(item.files) & set(files.values())
    ]
    if not ours:
        return diff
    clean, left = _taken_back(scene, [item.patch.name for item in ours])
    for name, why in left:
        desk.say(f"{name} is on and stays in the capture: {why}")
    touched = {file for item in ours for file in item.files}
    out = []
    for part in parted(diff, "file"):
        section = DiffReader(part.decode("utf-8", "surrogateescape"), "git diff").sections()[0]
        names = sorted({path.partition("/")[2] for path in (section.old_path, section.new_path)} & pairs.keys())
        if not {files[name] for name in names} & touched:
            out.append(part)  # git's own words: renames and modes are in them
            continue
        for name in names:
            after = clean.files.get(files[name], pairs[name].after)
            out.append(unified_bytes(pairs[name].before, after, f"{scene.package.name}/{files[name]}"))
    return b"".join(out)


def _inside(scene: Scene, path: str) -> str:
    """Return a path relative to the package folder, as patches name it."""
    for folder in (scene.package.folder, scene.package.real, str(scene.told.get("root") or "")):
        if folder and path.startswith(f"{folder.rstrip('/')}/"):
            return path[len(folder.rstrip("/")) + 1 :]
    return path


def _taken_back(scene: Scene, names: Sequence[str]) -> tuple[Scene, list[tuple[str, str]]]:
    """Return the scene as it would be without these patches, and those that cannot be told from others' edits."""
    names, left = list(names), list[tuple[str, str]]()
    while names:
        found = planned_set(scene, (), off=names)
        if found.after is not None:
            return found.after, left
        left += found.refused
        names = [name for name in names if name not in dict(found.refused)]
    return scene, left

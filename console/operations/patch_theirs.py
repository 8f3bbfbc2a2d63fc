"""Uncommitted changes on a host: what is of our patches that are on, and what is somebody's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from console.domain.diff import unified_bytes
from console.domain.patch import DiskState, Edit, Patch
from console.errors import ConsoleError
from console.operations.desk import Desk
from console.operations.known import known_patches
from console.operations.patch_scene import Scene, read_scene
from console.operations.patch_sets import planned_set
from console.patching.diffs import DiffReader, Kind


async def without_ours(desk: Desk, diff: bytes) -> bytes:
    """Return a diff against HEAD without what our patches changed; unchanged where none of them is in it.

    Args:
        desk: Whose host.
        diff: As git made it on the host.
    """
    if not diff.strip():
        return diff
    known = known_patches(desk)
    sections = DiffReader(diff.decode("utf-8", "surrogateescape"), "git diff").sections()
    asked = Patch("", edits=tuple(Edit(section.path, "-", "+") for section in sections))
    scene = await read_scene(desk, [*known, asked], [patch.name for patch in known])
    touched = {stand.shown for stand in scene.plan_of("").stands if stand.shown}
    ours = [
        item.patch.name
        for item in scene.plans
        if item.patch.name in scene.ours and item.state is DiskState.ON and set(item.files) & touched
    ]
    if not ours or any(section.kind is not Kind.MODIFY for section in sections):
        return diff
    clean, left = _taken_back(scene, ours)
    for name, why in left:
        desk.say(f"{name} is on and stays in the capture: {why}")
    heads = await asyncio.gather(*(_head(desk, scene, file) for file in sorted(touched)))
    kept = [
        unified_bytes(head, clean.files.get(file), file)
        for file, head in zip(sorted(touched), heads, strict=True)
        if head is not None and clean.files.get(file) is not None
    ]
    return b"".join(kept)


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


async def _head(desk: Desk, scene: Scene, file: str) -> bytes | None:
    try:
        return (await desk.link.call("git_show", {"path": f"{scene.package.folder}/{file}"}, deadline_s=30)).body
    except ConsoleError:
        return None  # new since: git's own diff would tell it as made

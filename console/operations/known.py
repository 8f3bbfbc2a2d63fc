"""Every patch that a name can reach, from the folders of design section 11."""

from __future__ import annotations

from dataclasses import replace

from console.config import paths
from console.config.patches import load_or_fault
from console.domain.patch import Patch
from console.operations.desk import Desk


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

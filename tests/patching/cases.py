"""Field cases of kind d: several inputs in one file, parted by `#### FILE: NAME` lines, byte-exact."""

from __future__ import annotations

import re
from pathlib import Path

from console.domain.patch import Edit, Patch
from console.patching.plan import PatchPlan, plan, wanted_paths
from console.patching.versions import Facts

DATA = Path(__file__).parents[1] / "data/patches"


def parts(name: str) -> dict[str, bytes]:
    """Return the inputs of a case by name."""
    raw = (DATA / name).read_bytes()
    pieces = re.split(rb"^#### FILE: (.*)\n", raw, flags=re.MULTILINE)[1:]
    return {pieces[at].decode(): pieces[at + 1] for at in range(0, len(pieces), 2)}


def diff(data: bytes, name: str = "x.diff", skip: tuple[str, ...] = ()) -> Patch:
    """Return a patch out of a diff."""
    return Patch(name=name.partition(".")[0], diff=data.decode("utf-8", "surrogateescape"), diff_path=name, skip=skip)


def edits(*pairs: tuple[str, str], file: str = "m.py", name: str = "p", count: int = 1, within: str = "") -> Patch:
    """Return a patch out of find and replace pairs."""
    return Patch(name=name, edits=tuple(Edit(file, find, replace, within, count) for find, replace in pairs))


def planned(
    patch: Patch,
    files: dict[str, bytes],
    package: str = "vllm",
    *,
    ours: bool = False,
    found: dict[str, list[str]] | None = None,
    version: str | None = None,
) -> PatchPlan:
    """Plan on the files that are asked for, as a host would give them."""
    wanted: dict[str, bytes | None] = {path: files.get(path) for path in wanted_paths(patch, package)}
    return plan(patch, wanted, Facts(package, version), ours=ours, found=found)


def switched(files: dict[str, bytes], result: PatchPlan, on: bool) -> dict[str, bytes]:
    """Return the files as they are after switching."""
    after = dict(files)
    for change in result.changes(on):
        if change.after is None:
            del after[change.path]
        else:
            after[change.path] = change.after
    return after

"""A stack of patches beside quilt: the same bytes going on, and the very original coming off."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

from console.domain.diff import unified_bytes
from console.domain.host import Package
from console.domain.patch import Patch
from console.operations.patch_scene import Scene, judged
from console.operations.patch_sets import planned_set
from console.patching.versions import Facts
from tests import needs

ROWS = 400
STACKS = 12
HEIGHT = 8


def stack(chance: random.Random) -> tuple[bytes, list[bytes], bytes]:
    """Return a text, diffs of which each is made on what the ones before it left, and the result."""
    rows = [f"    value_{number} = {number}\n" for number in range(ROWS)]
    before, diffs = "".join(rows).encode(), []
    present = before
    for number in range(HEIGHT):
        at = chance.randrange(len(rows) - 1)
        rows[at : at + 1] = chance.choice(
            [[rows[at].rstrip("\n") + f"  # {number}\n"], [f"    # step {number}\n", rows[at]], []]
        )
        after = "".join(rows).encode()
        diffs.append(unified_bytes(present, after, "m.py"))
        present = after
    return before, diffs, present


def quilt(folder: Path, *args: str) -> None:
    env = {**os.environ, "QUILT_PATCHES": "patches", "QUILT_PC": ".pc", "QUILTRC": "/dev/null"}
    done = subprocess.run(["quilt", *args], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_series_goes_on_as_quilt_pushes_it_and_off_as_it_pops_it(tmp_path: Path) -> None:
    if shutil.which("quilt") is None:
        needs.lacking("quilt")
    chance = random.Random(11)
    for number in range(STACKS):
        before, diffs, after = stack(chance)
        folder = tmp_path / str(number)
        (folder / "patches").mkdir(parents=True)
        (folder / "m.py").write_bytes(before)
        for index, text in enumerate(diffs):
            (folder / f"patches/{index}.diff").write_bytes(text)
        (folder / "patches/series").write_text("".join(f"{index}.diff\n" for index in range(HEIGHT)))
        quilt(folder, "push", "-a")
        assert (folder / "m.py").read_bytes() == after
        known = [Patch(f"p{index}", diff=text.decode()) for index, text in enumerate(diffs)]
        told: dict[str, object] = {"files": {}, "ours": {}, "head": {}}
        start: dict[str, bytes | None] = {"m.py": before}
        scene = judged(Scene(Package("p", "/p", None), Facts("p"), start, told, {}), known)
        names = [patch.name for patch in known]
        on = planned_set(scene, names)
        assert on.after is not None, on.refused
        assert on.after.files["m.py"] == after
        off = planned_set(on.after, (), off=names)
        quilt(folder, "pop", "-a")
        assert off.after is not None, off.refused
        assert off.after.files["m.py"] == (folder / "m.py").read_bytes() == before

"""Capturing what is not ours: split, and without what our own patches changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.domain.patch import DiskState
from console.errors import AlreadySoError
from console.operations import patches
from console.operations.desk import Desk
from console.operations.patch_capture import parted
from tests.local import desk as desk
from tests.operations.test_patches import PATH, own, package, sha, state
from tests.wheels import git

__all__ = ["own", "package"]


async def test_our_own_patches_that_are_on_stay_out_of_a_capture(desk: Desk, own: Path, package: Path) -> None:
    await patches.apply(desk, "A")
    with pytest.raises(AlreadySoError):
        await patches.capture(desk, "none")
    (package / PATH).write_bytes(
        (package / PATH).read_bytes().replace(b"num_kv_splits: int = 4", b"num_kv_splits: int = 9")
    )
    present = sha(package / PATH)
    path = await patches.capture(desk, "mine")
    diff = path.with_suffix(".diff").read_text()
    assert "int = 9" in diff and "+    if batch > 128:" not in diff
    assert sha(package / PATH) == present
    assert await state(desk, "mine") is DiskState.ON
    await patches.revert(desk, "A")
    await patches.revert(desk, "mine")
    assert git(package.parent, "status", "--short") == ""


async def test_ours_that_somebody_changed_further_stays_in_and_is_told(desk: Desk, own: Path, package: Path) -> None:
    await patches.apply(desk, "A")
    (package / PATH).write_bytes((package / PATH).read_bytes().replace(b"batch > 128", b"batch > 256"))
    path = await patches.capture(desk, "mine")
    assert "+    if batch > 256:" in path.with_suffix(".diff").read_text()


@pytest.mark.parametrize(("by", "count"), [("file", 2), ("hunk", 3)])
async def test_a_capture_is_split_so_that_each_part_goes_by_itself(
    desk: Desk, own: Path, package: Path, by: str, count: int
) -> None:
    for name in ("A", "B", "C", "FAR"):
        (own / f"{name}.toml").unlink()
    (package / "other.py").write_text("x = 1\n")
    git(package.parent, "add", "-A")
    git(package.parent, "commit", "-q", "-m", "more")
    before = sha(package / PATH)
    text = (package / PATH).read_text()
    (package / PATH).write_text(
        text.replace("num_kv_splits: int = 4", "num_kv_splits: int = 9").replace(
            "def forward_decode(q", "def forward_decode(qq"
        )
    )
    (package / "other.py").write_text("x = 2\n")
    made = await patches.capture_split(desk, "mine", by=by)
    assert [path.stem for path in made] == [f"mine-{number}" for number in range(1, count + 1)]
    for path in reversed(made):
        assert await state(desk, path.stem) is DiskState.ON
        await patches.revert(desk, path.stem)
    assert sha(package / PATH) == before and git(package.parent, "status", "--short") == ""
    desk.profile = None
    for path in made:
        await patches.apply(desk, path.stem)
    assert (package / "other.py").read_text() == "x = 2\n"


def test_a_diff_without_git_is_parted_as_well() -> None:
    one = b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    other = b"--- a/y.py\n+++ b/y.py\n@@ -1 +1 @@\n-c\n+d\n@@ -9 +9 @@\n-e\n+f\n"
    assert parted(one + other, "file") == [one, other]
    assert len(parted(one + other, "hunk")) == 3
    assert parted(b"", "file") == []

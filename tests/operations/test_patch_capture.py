"""Capturing what is not ours: split, and without what our own patches changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from console.domain.patch import DiskState, dirty_of_ours
from console.errors import AlreadySoError
from console.operations import host, patches
from console.operations.desk import Desk
from console.patching.diffs import parted
from console.ui.widgets.status import _dirty
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


@pytest.fixture
def tree(package: Path) -> Path:
    """The package with more files in its checkout, and no patches known."""
    for name, data in TREE.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_bytes(data)
    git(package.parent, "add", "-A")
    git(package.parent, "commit", "-q", "-m", "more")
    return package


def hashes(package: Path) -> dict[str, tuple[str, int]]:
    return {str(path.relative_to(package)): (sha(path), path.stat().st_mode) for path in package.rglob("*.py")}


TREE = {"cli/utils.py": b"u = 1\n" * 9, "utils.py": b"top = 1\n", "dos.py": b"a = 1\r\nb = 2\r\nc = 3"}


def _removed(package: Path) -> None:
    (package / "cli/utils.py").unlink()


def _removed_at_the_top(package: Path) -> None:
    (package / "utils.py").unlink()


def _new(package: Path) -> None:
    (package / "cli/more/new.py").parent.mkdir()
    (package / "cli/more/new.py").write_bytes(b"n = 1")
    git(package, "add", "-A")


def _renamed(package: Path) -> None:
    git(package, "mv", "cli/utils.py", "cli/helpers.py")
    (package / "cli/helpers.py").write_bytes(b"u = 1\n" * 8 + b"u = 2\n")


def _dos(package: Path) -> None:
    (package / "dos.py").write_bytes(b"a = 1\r\nb = 3\r\nc = 4")


def _executable(package: Path) -> None:
    (package / "utils.py").chmod(0o755)
    (package / "utils.py").write_bytes(b"top = 2\n")


@pytest.mark.parametrize("ours", [False, True], ids=["alone", "beside ours"])
@pytest.mark.parametrize("change", [_removed, _removed_at_the_top, _new, _renamed, _dos, _executable])
async def test_what_is_captured_is_on_and_goes_off_and_on_again(
    desk: Desk, own: Path, tree: Path, change: Callable[[Path], None], ours: bool
) -> None:
    if ours:
        await patches.apply(desk, "A")
    change(tree)
    present = hashes(tree)
    path = await patches.capture(desk, "mine")
    assert "batch > 128" not in path.with_suffix(".diff").read_text()
    assert await state(desk, "mine") is DiskState.ON
    await patches.revert(desk, "mine")
    assert await state(desk, "mine") is DiskState.OFF
    assert {name: (tree / name).read_bytes() for name in TREE} == TREE
    await patches.apply(desk, "mine")
    assert hashes(tree) == present


@pytest.mark.parametrize("change", [_removed, _removed_at_the_top, _new, _renamed, _dos])
async def test_a_package_that_is_itself_the_checkout_is_captured_as_well(
    desk: Desk, own: Path, tree: Path, change: Callable[[Path], None]
) -> None:
    (tree.parent / ".git").rename(tree / ".git")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "moved")
    change(tree)
    await patches.capture(desk, "mine")
    assert await state(desk, "mine") is DiskState.ON
    await patches.revert(desk, "mine")
    assert {name: (tree / name).read_bytes() for name in TREE} == TREE


async def test_ours_are_told_from_theirs_among_the_changed_files(desk: Desk, own: Path, tree: Path) -> None:
    async def told() -> tuple[int, tuple[str, ...]]:
        found = await host.git_state(desk)
        assert found is not None
        await patches.statuses(desk)
        return len(found.dirty), dirty_of_ours(found, desk.package, desk.store.snapshot.patches)

    (tree / "utils.py").write_bytes(b"top = 2\n")
    assert await told() == (1, ())
    await patches.apply(desk, "A")
    assert await told() == (2, (f"vllm/{PATH}",))
    assert _dirty(desk.store.snapshot) == (" ±2, 1 ours", "warn")
    git(tree, "checkout", "-q", "--", "utils.py")
    assert await told() == (1, (f"vllm/{PATH}",))
    assert _dirty(desk.store.snapshot) == (" ±1, 1 ours", "dim")
    (tree / PATH).write_bytes((tree / PATH).read_bytes() + b"x = 1\n")
    assert await told() == (1, ())


async def test_files_that_git_does_not_track_are_told_and_taken_when_named(desk: Desk, own: Path, tree: Path) -> None:
    said: list[str] = []
    desk.say = said.append
    (tree / "cli/new.py").write_bytes(b"n = 1\n")
    (tree / "utils.py").write_bytes(b"top = 2\n")
    path = await patches.capture(desk, "some")
    assert "cli/new.py" not in path.with_suffix(".diff").read_text()
    assert [line for line in said if "cli/new.py" in line and "does not track" in line]
    await patches.capture(desk, "all", ["utils.py", "cli/new.py"])
    assert await state(desk, "all") is DiskState.ON
    await patches.revert(desk, "all")
    assert not (tree / "cli/new.py").exists() and (tree / "utils.py").read_bytes() == b"top = 1\n"

"""Patches on a host without Python: what can be done is done, the rest is refused with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.domain.patch import DiskState
from console.domain.profile import Profile
from console.errors import DriftError, RefusedError
from console.operations import patches
from console.operations.desk import Desk
from console.remote.link import HostLink
from tests.operations.test_patches import PATH, A, package
from tests.remote.test_shell_mode import bare, bin_folder

__all__ = ["bare", "bin_folder", "package"]

NEW = '[[edit]]\nfile = "v1/attention/new.py"\ncreate = "x = 1\\n"\n'
NEW_FOLDER = '[[edit]]\nfile = "v2/deep/new.py"\ncreate = "x = 1\\n"\n'


@pytest.fixture
def desk(bare: HostLink, package: Path, tmp_path: Path) -> Desk:
    """A desk on the package over a link without Python, with patches of its own."""
    info = package.parent / "vllm-0.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.9.1\n")
    own = tmp_path / "config/tokwatt/patches"
    own.mkdir(parents=True)
    two = A + '[[edit]]\nfile = "v1/other.py"\nfind = "y = 1"\nreplace = "y = 2"\n'
    (package / "v1/other.py").write_bytes(b"y = 1\n")
    for name, text in {"A": A, "new": NEW, "deep": NEW_FOLDER, "two": two}.items():
        (own / f"{name}.toml").write_text(text)
    return Desk(bare, package_dirs=(str(package),))


async def test_one_file_is_switched_made_and_removed(desk: Desk, package: Path) -> None:
    before = (package / PATH).read_bytes()
    receipt = await patches.apply(desk, "A")
    assert receipt.compiled_by == "" and any("z cannot take it back" in note for note in receipt.notes)
    assert desk.package is not None and desk.package.version == "0.9.1"
    assert b"batch > 128" in (package / PATH).read_bytes()
    await patches.revert(desk, "A")
    assert (package / PATH).read_bytes() == before
    await patches.apply(desk, "new")
    assert (package / "v1/attention/new.py").read_bytes() == b"x = 1\n"
    await patches.revert(desk, "new")
    assert not (package / "v1/attention/new.py").exists()
    assert [path for path in package.rglob("*") if "tokwatt" in path.name] == []


async def test_several_files_and_new_folders_are_refused_with_the_reason(desk: Desk, package: Path) -> None:
    before = (package / PATH).read_bytes()
    with pytest.raises(RefusedError, match="apply two: 2 files at once cannot be written without Python") as caught:
        await patches.apply(desk, "two")
    assert "v1/other.py: a cut between two of them" in caught.value.detail and "install python3" in caught.value.hint
    with pytest.raises(RefusedError, match="apply deep: a file in a new folder cannot be written"):
        await patches.apply(desk, "deep")
    assert (package / PATH).read_bytes() == before and not (package / "v2").exists()


async def test_a_set_of_one_file_goes_on_and_one_of_several_is_refused(desk: Desk, package: Path) -> None:
    desk.profile = Profile("p", patches_on=("A",))
    await patches.apply_set(desk)
    assert (await patches.statuses(desk, ["A"]))[0].disk is DiskState.ON
    await patches.apply_set(desk, off=True)
    desk.profile = Profile("p", patches_on=("A", "new"))
    with pytest.raises(RefusedError, match="2 files at once"):
        await patches.apply_set(desk)
    assert (await patches.statuses(desk, ["A"]))[0].disk is DiskState.OFF


async def test_a_file_that_somebody_made_meanwhile_is_not_written_over(desk: Desk, package: Path) -> None:
    seen = (await patches.statuses(desk, ["new"]))[0]
    (package / "v1/attention/new.py").write_bytes(b"theirs\n")
    with pytest.raises(DriftError):
        await patches.apply(desk, "new", seen=seen)
    assert (package / "v1/attention/new.py").read_bytes() == b"theirs\n"

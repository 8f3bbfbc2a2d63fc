"""Which copy is patched, and who loads it: case D08, and what a write feeds."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from console.domain.patch import DiskState
from console.domain.profile import EngineSection, LaunchSection, Profile
from console.errors import ConsoleError
from console.operations import patches
from console.operations.desk import Desk
from tests.local import desk as desk
from tests.operations.test_patches import own, package

__all__ = ["own", "package"]


async def test_d08_another_interpreters_copy_is_told_before_a_write(
    desk: Desk, own: Path, package: Path, tmp_path: Path
) -> None:
    other = tmp_path / "venv/vllm"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    env = {"PYTHONPATH": str(other.parent)}
    desk.profile = Profile("p", engine=EngineSection("vllm", sys.executable), launch=LaunchSection(env=env))
    status = (await patches.statuses(desk, ["A"]))[0]
    assert [f"loads {other}, not {package}" in warning for warning in status.warnings] == [True]
    trips = desk.link.round_trips
    await patches.statuses(desk, ["A"])
    assert desk.link.round_trips == trips + 1  # asked once
    desk.package_dirs, desk.package = (str(other),), None
    desk.profile = dataclasses.replace(desk.profile)
    assert (await patches.statuses(desk, ["A"]))[0].warnings == ()


async def test_a_conflict_is_shown_from_three_sides(desk: Desk, own: Path, package: Path) -> None:
    (own / "gone.toml").write_text(
        '[[edit]]\nfile = "v1/attention/base.py"\nfind = "    if batch >= 64:"\nreplace = "    if batch > 128:"\n'
    )
    status = (await patches.statuses(desk, ["gone"]))[0]
    assert "!     if batch > 64:" in status.conflict and "+     if batch > 128:" in status.conflict
    assert (await patches.statuses(desk, ["A"]))[0].conflict == ()


async def test_a_file_that_cannot_be_read_leaves_the_state_unknown(desk: Desk, own: Path, package: Path) -> None:
    target = package / "v1/attention/base.py"
    target.unlink()
    target.mkdir()
    status = (await patches.statuses(desk, ["A"]))[0]
    assert status.disk is DiskState.UNKNOWN and "cannot be read" in status.reason
    for switch in (patches.apply, patches.revert):
        with pytest.raises(ConsoleError, match="cannot be read") as caught:
            await switch(desk, "A")
        assert caught.value.exit_code == 1


async def test_other_names_of_a_file_keep_their_bytes_and_are_told(
    desk: Desk, own: Path, package: Path, tmp_path: Path
) -> None:
    """As in an environment that uv linked out of its cache."""
    file, cached = package / "v1/attention/base.py", tmp_path / "cached.py"
    cached.hardlink_to(file)
    before = file.read_bytes()
    told = "v1/attention/base.py has 2 names (hard links): only this one is written, the others keep the old bytes"
    assert (await patches.statuses(desk, ["A"]))[0].warnings == (told,)
    receipt = await patches.apply(desk, "A")
    assert told in receipt.notes
    assert cached.read_bytes() == before != file.read_bytes()
    assert (await patches.statuses(desk, ["A"]))[0].warnings == ()

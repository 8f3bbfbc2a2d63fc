"""What was changed by hand in a real venv, over both SSH servers; which copy loads; originals by hash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from console.domain.installed import PackageCheck
from console.domain.patch import DiskState
from console.domain.profile import EngineSection, LaunchSection, Profile
from console.errors import UsageError
from console.operations import installed, patch_capture, patches
from console.operations.desk import Desk
from tests.local import desk, ssh_desk
from tests.wheels import commit_all, wheel

__all__ = ["desk", "ssh_desk"]

EDITED = ("sglang/version.py", "sglang/srt/model_executor/model_runner.py", "sglang/lang/chat_template.py")


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The site-packages of a venv with SGLang in it, installed by pip."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = str(venv / "bin/python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--no-compile", str(wheel(request.config, "sglang", "0.5.9"))], check=True)
    return next(venv.glob("lib/python3*/site-packages"))


def under(desk: Desk, site: Path) -> Desk:
    """Let the venv's interpreter launch."""
    python = str(site.parents[2] / "bin/python")
    desk.profile = Profile("p", engine=EngineSection(python=python), launch=LaunchSection(workdir=str(site.parents[2])))
    return desk


async def checked(desk: Desk, *names: str) -> list[PackageCheck]:
    return [check async for check in installed.changed(desk, names)]


@pytest.mark.wheels
async def test_three_edited_files_are_listed_and_nothing_else(
    own_folders: None, ssh_desk: Desk, site: Path, request: pytest.FixtureRequest
) -> None:
    under(ssh_desk, site)
    (clean,) = await checked(ssh_desk)
    assert (clean.package.name, clean.against, clean.files) == ("sglang", "RECORD", ())
    assert clean.checked > 1900
    for name in EDITED:
        path = site / name
        path.write_text(path.read_text() + "\n# by hand\n")
    trips = ssh_desk.link.round_trips
    (check,) = await checked(ssh_desk)
    assert ssh_desk.link.round_trips - trips == 1
    assert [(file.shown, file.kind) for file in check.files] == [(name, "changed") for name in sorted(EDITED)]

    lost = await installed.differences(ssh_desk, [check])
    assert all("pip download --no-deps sglang==0.5.9" in pair.note for pair in lost.files)
    file = wheel(request.config, "sglang", "0.5.9")
    found = await installed.differences(ssh_desk, [check], wheels=[str(file)])
    assert [pair.note for pair in found.files] == ["", "", ""]
    assert all(pair.after == (pair.before or b"") + b"\n# by hand\n" for pair in found.files)

    path = await patch_capture.capture(ssh_desk, "by-hand", changed=True, wheels=[str(file)])
    diff = path.with_suffix(".diff").read_text()
    assert diff.count("+# by hand") == 3
    assert "+++ b/sglang/srt/model_executor/model_runner.py" in diff
    (status,) = await patches.statuses(ssh_desk, [str(path)])
    assert (status.disk, len(status.files)) == (DiskState.ON, 3)


def package_in(folder: Path, name: str = "sglang") -> Path:
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("x = 1\n")
    return package


async def test_a_checkout_is_compared_with_git(own_folders: None, desk: Desk, tmp_path: Path) -> None:
    package = package_in(tmp_path / "checkout" / "python")
    commit_all(tmp_path / "checkout")
    (package / "a.py").write_text("x = 2\n")
    (package / "new.py").write_text("")
    (package / "__init__.py").unlink()
    (package / "__init__.py").write_text("")
    desk.package_dirs = (str(package),)
    (check,) = await checked(desk)
    assert check.against == "git"
    assert [(file.shown, file.kind) for file in check.files] == [
        ("sglang/a.py", "changed"),
        ("sglang/new.py", "added"),
    ]
    (changed, added) = (await installed.differences(desk, [check])).files
    assert (changed.before, changed.after) == (b"x = 1\n", b"x = 2\n")
    assert (added.before, added.after) == (None, b"")


async def test_what_nothing_tells_of_is_said_to_be_unknown(own_folders: None, desk: Desk, tmp_path: Path) -> None:
    desk.package_dirs = (str(package_in(tmp_path)),)
    (check,) = await checked(desk)
    assert (check.against, check.files) == ("", ())
    assert "no RECORD" in check.reason
    with pytest.raises(UsageError, match="no RECORD"):
        await installed.pristine(desk, str(tmp_path / "sglang/a.py"))


async def test_a_file_of_another_copy_is_warned_of(own_folders: None, desk: Desk, tmp_path: Path) -> None:
    loads, other = package_in(tmp_path / "one"), package_in(tmp_path / "two")
    (tmp_path / "three").symlink_to(tmp_path / "one")
    desk.profile = Profile(
        "p",
        engine=EngineSection(python=sys.executable),
        launch=LaunchSection(env={"PYTHONPATH": str(tmp_path / "one")}),
    )
    assert await installed.shadowed(desk, str(loads / "a.py")) == ""
    trips = desk.link.round_trips
    assert await installed.shadowed(desk, str(loads / "a.py")) == ""
    assert desk.link.round_trips == trips
    assert await installed.shadowed(desk, str(tmp_path / "three/sglang/a.py")) == ""
    assert f"from {loads}" in await installed.shadowed(desk, str(other / "a.py"))
    packages, absent = await installed.packages(desk, ["sglang", "sgl-kernel"])
    assert [(one.name, one.origin, one.folder) for one in packages] == [("sglang", "path", str(loads))]
    assert absent == ("sgl_kernel",)


async def test_a_remembered_hash_is_not_believed_after_a_change(own_folders: None, desk: Desk, tmp_path: Path) -> None:
    from console.inventory.installed import tree_hashes

    package = package_in(tmp_path)
    before = await tree_hashes(desk.link, str(package))
    (package / "a.py").write_text("x = 3\n")
    after = await tree_hashes(desk.link, str(package))
    assert before["a.py"] != after["a.py"]
    assert before["__init__.py"] == after["__init__.py"]

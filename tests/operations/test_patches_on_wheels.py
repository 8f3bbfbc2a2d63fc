"""Must hold: shipped patches on the real packages, over SSH servers of two makes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from console.domain.diff import unified_bytes
from console.domain.patch import DiskState, Patch
from console.errors import AlreadySoError, NotApplicableError
from console.operations import patches
from console.operations.desk import Desk
from console.patching.plan import plan
from console.patching.versions import Facts
from console.patching.within import ranges
from console.remote.link import HostLink
from tests.local import desk as desk
from tests.wheels import commit_all, git, sglang_059, wheel

__all__ = ["sglang_059"]

ORIGINAL = "be071c1567de4b63e82d070623f95aa4bb5f537698659526c68b1c7d05074640"
RUNNER = "srt/model_executor/model_runner.py"
AUTOTUNE = "flashinfer-cutlass-autotune"
FUSION = "allreduce-fusion-sm120"
pytestmark = [pytest.mark.wheels, pytest.mark.timeout(300)]

TABLE = {
    "0.5.6": ("not_applicable", "", "not_applicable"),
    "0.5.7": ("off", "line 1691", "not_applicable"),
    "0.5.9": ("off", "line 1842", "off"),
    "0.5.10": ("off", "line 2078", "off"),
    "0.5.12": ("off", "line 2532", "off"),
    "0.5.13": ("already_upstream", "since 0.5.13", "off"),
}
"""Version: state of the autotune patch, what its reason says, state of the fusion patch."""


@pytest.fixture(scope="session")
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that the patches touch, of every version; not to be changed."""
    found = {}
    for version in TABLE:
        folder = tmp_path_factory.mktemp(f"sglang-{version}")
        with zipfile.ZipFile(wheel(request.config, "sglang", version)) as archive:
            names = [
                name
                for name in archive.namelist()
                if "dist-info/" in name or name.endswith(("__init__.py", "srt/layers/communicator.py", RUNNER))
            ]
            archive.extractall(folder, names)
        found[version] = folder / "sglang"
    return found


@pytest.fixture
def desk_059(link: HostLink, sglang_059: Path, tmp_path: Path) -> Desk:
    """A desk on a checkout of 0.5.9 of its own, over SSH."""
    (tmp_path / "w/sglang/srt/layers").mkdir(parents=True)
    for name in ("__init__.py", RUNNER, "srt/layers/communicator.py"):
        target = tmp_path / "w/sglang" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(sglang_059 / "sglang" / name, target)
    shutil.copytree(next(sglang_059.glob("*.dist-info")), tmp_path / "w/sglang-0.5.9.dist-info")
    commit_all(tmp_path / "w")
    return Desk(link, package_dirs=(str(tmp_path / "w/sglang"),))


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_exactly_one_line_changes_and_revert_gives_the_very_bytes_back(desk_059: Desk) -> None:
    file = Path(desk_059.package_dirs[0]) / RUNNER
    assert sha(file) == ORIGINAL
    receipt = await patches.apply(desk_059, AUTOTUNE)
    changes = git(file.parent, "diff", "-U0", "--", str(file)).splitlines()[5:]
    assert changes == ['-            # "flashinfer_cutlass",', '+            "flashinfer_cutlass",']
    assert git(file.parent, "status", "--short") == " M model_runner.py\n"
    assert receipt.round_trips <= 3 and receipt.compiled_by
    with pytest.raises(AlreadySoError):
        await patches.apply(desk_059, AUTOTUNE)
    back = await patches.revert(desk_059, AUTOTUNE)
    assert sha(file) == ORIGINAL
    assert back.round_trips == 2


async def test_both_shipped_patches_go_on_together_and_off_again(desk_059: Desk) -> None:
    file = Path(desk_059.package_dirs[0]) / "srt/layers/communicator.py"
    await patches.apply(desk_059, FUSION)
    await patches.apply(desk_059, AUTOTUNE)
    text = file.read_text()
    assert (
        "    is_sm120_supported,\n)" in text
        and "_is_sm90_supported or _is_sm100_supported or _is_sm120_supported)" in text
    )
    compile(text, str(file), "exec")
    await patches.revert(desk_059, FUSION)
    await patches.revert(desk_059, AUTOTUNE)
    assert git(file.parent, "status", "--short") == ""


async def test_the_storys_sed_is_off(desk_059: Desk) -> None:
    file = Path(desk_059.package_dirs[0]) / RUNNER
    os.utime(file, (1_700_000_000, 1_700_000_000))
    pattern = r's/# TODO: flashinfer_cutlass will cause some flashinfer compilation errors. To be fixed.\n            # "flashinfer_cutlass",/"flashinfer_cutlass",/'
    done = subprocess.run(["sed", "-i", pattern, str(file)], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert file.stat().st_mtime > 1_700_000_000
    assert sha(file) == ORIGINAL
    assert (await patches.statuses(desk_059, [AUTOTUNE]))[0].disk is DiskState.OFF


@pytest.mark.parametrize("version", list(TABLE))
async def test_state_by_version(desk: Desk, unpacked: dict[str, Path], version: str) -> None:
    autotune, reason, fusion = TABLE[version]
    desk.package_dirs = (str(unpacked[version]),)
    found = {status.name: status for status in await patches.statuses(desk, [AUTOTUNE, FUSION])}
    assert found[AUTOTUNE].version == version
    assert found[AUTOTUNE].disk == autotune and reason in found[AUTOTUNE].reason
    assert found[FUSION].disk == fusion
    before = sha(unpacked[version] / RUNNER)
    if autotune == "off":
        await patches.apply(desk, AUTOTUNE)
        await patches.revert(desk, AUTOTUNE)
    else:
        with pytest.raises(AlreadySoError if autotune == "already_upstream" else NotApplicableError):
            await patches.apply(desk, AUTOTUNE)
    assert sha(unpacked[version] / RUNNER) == before


METHOD = "_should_run_flashinfer_autotune"


def reindented(data: bytes, low: int, high: int) -> bytes:
    """Return a file whose def stands below an `if` of its own, as upstream moves such blocks."""
    lines = data[low:high].splitlines(keepends=True)
    return (
        data[:low]
        + b"    if True:\n"
        + b"".join(b"    " + line if line.strip() else line for line in lines)
        + data[high:]
    )


def moved(data: bytes, low: int, high: int) -> bytes:
    """Return a file whose def stands at the end of its class' file, hundreds of lines below."""
    block = data[low:high]
    return data[:low] + data[high:] + b"\n\nclass Elsewhere:\n" + block


def among_new_lines(data: bytes, low: int, high: int) -> bytes:
    """Return a file with lines put above, and others beside the edited one."""
    block = data[low:high].replace(b'"flashinfer_mxfp4",\n', b'"flashinfer_mxfp4",\n            "flashinfer_new",\n', 1)
    return b"# one more\n" * 150 + data[:low] + block + data[high:]


@pytest.mark.parametrize("change", [reindented, moved, among_new_lines])
@pytest.mark.parametrize("version", [version for version, row in TABLE.items() if row[0] == "off"])
def test_an_edit_survives_what_upstream_does_around_it(
    unpacked: dict[str, Path], version: str, change: Callable[[bytes, int, int], bytes]
) -> None:
    data = (unpacked[version] / RUNNER).read_bytes()
    (place,) = ranges(data, METHOD)
    present = change(data, *place)
    assert present != data
    compile(present, RUNNER, "exec")
    patch = patches.load_patch(None, AUTOTUNE)
    facts = Facts("sglang", version, None)
    off = plan(patch, {RUNNER: present}, facts)
    assert off.state is DiskState.OFF, off.reason
    (written,) = off.changes(on=True)
    assert written.after is not None
    old, new = present.splitlines(), written.after.splitlines()
    differing = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
    assert [(one.strip(), other.strip()) for one, other in differing] == [
        (b'# "flashinfer_cutlass",', b'"flashinfer_cutlass",')
    ]
    (back,) = plan(patch, {RUNNER: written.after}, facts).changes(on=False)
    assert back.after == present


@pytest.mark.parametrize(
    ("version", "state", "fuzz", "told"),
    [
        ("0.5.6", DiskState.CONFLICT, False, "not found"),
        ("0.5.7", DiskState.OFF, False, "(offset -151)"),
        ("0.5.9", DiskState.OFF, False, "at line 1839"),
        ("0.5.10", DiskState.CONFLICT, True, "(offset +236) only with fuzz 1"),
        ("0.5.12", DiskState.CONFLICT, True, "(offset +690) only with fuzz 2"),
        ("0.5.13", DiskState.CONFLICT, False, "not found"),
    ],
)
def test_a_diff_of_059_stands_on_every_version_as_gnu_patch_sees_it(
    unpacked: dict[str, Path], version: str, state: DiskState, fuzz: bool, told: str
) -> None:
    before = (unpacked["0.5.9"] / RUNNER).read_bytes()
    after = before.replace(b'            # "flashinfer_cutlass",\n', b'            "flashinfer_cutlass",\n')
    diff = unified_bytes(before, after, f"sglang/{RUNNER}").decode()
    present = (unpacked[version] / RUNNER).read_bytes()
    found = plan(Patch("p", diff=diff), {RUNNER: present}, Facts("sglang", version, None))
    assert (found.state, found.needs_fuzz) == (state, fuzz), found.reason
    assert told in found.reason
    said = subprocess.run(
        ["patch", "--dry-run", "-p1", "-f", "-o", "/dev/null", str(unpacked[version] / RUNNER)],
        input=diff,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode == 0) == (state is DiskState.OFF or fuzz), said.stdout
    assert ("with fuzz" in said.stdout) == fuzz
    if version == "0.5.9":
        assert plan(Patch("p", diff=diff), {RUNNER: after}, Facts("sglang", version, None)).state is DiskState.ON

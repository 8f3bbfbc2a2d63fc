"""Patches on a host, from key to bytes: real outposts, real files, real git."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from console.domain.patch import DiskState, ProcessState
from console.domain.profile import LaunchSection, Profile
from console.domain.run import FileHash, Run, RunPhase
from console.errors import (
    AlreadySoError,
    ConflictError,
    DriftError,
    FormatError,
    FuzzError,
    NotApplicableError,
    ReadOnlyError,
    RefusedError,
    UsageError,
)
from console.operations import patches
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.local import desk as desk
from tests.patching.cases import parts
from tests.wheels import commit_all, git

A = '[[edit]]\nfile = "v1/attention/base.py"\nfind = "    if batch > 64:"\nreplace = "    if batch > 128:"\n'
B = (
    '[[edit]]\nfile = "v1/attention/base.py"\nfind = """    if batch > 128:\n        return 1"""\n'
    'replace = """    if batch > 128:\n        return 2"""\n'
)
C = '[[edit]]\nfile = "v1/attention/base.py"\nfind = "    if batch > 64:"\nreplace = "    if batch > 32:"\n'
FAR = '[[edit]]\nfile = "v1/attention/base.py"\nfind = "num_kv_splits: int = 4"\nreplace = "num_kv_splits: int = 8"\n'
PATH = "v1/attention/base.py"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `vllm` of one file in a checkout, and an operator whose patches are in `patches/` of the config home."""
    folder = tmp_path / "host/vllm"
    (folder / "v1/attention").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / PATH).write_bytes(parts("D02.txt")["site-packages/vllm/v1/attention/base.py"])
    commit_all(folder.parent)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def own(tmp_path: Path, package: Path, desk: Desk) -> Path:
    """The operator's patches A, B, C and FAR; the desk works on `package`."""
    folder = tmp_path / "config/tokwatt/patches"
    folder.mkdir(parents=True)
    for name, text in {"A": A, "B": B, "C": C, "FAR": FAR}.items():
        (folder / f"{name}.toml").write_text(text)
    desk.package_dirs = (str(package),)
    return folder


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def state(desk: Desk, name: str) -> DiskState:
    return (await patches.statuses(desk, [name]))[0].disk


async def test_apply_and_revert_are_verified_and_exact(desk: Desk, own: Path, package: Path) -> None:
    before = (package / PATH).read_bytes()
    receipt = await patches.apply(desk, "A")
    assert receipt.files == ((PATH, hashlib.sha256(before).hexdigest(), sha(package / PATH), 1, 1),)
    assert receipt.compiled_by
    assert await state(desk, "A") is DiskState.ON
    with pytest.raises(AlreadySoError):
        await patches.apply(desk, "A")
    await patches.revert(desk, "A")
    assert (package / PATH).read_bytes() == before
    with pytest.raises(AlreadySoError):
        await patches.revert(desk, "A")
    assert git(package.parent, "status", "--short") == ""


async def test_round_trips_do_not_grow_with_the_files(desk: Desk, package: Path, own: Path) -> None:
    text = ""
    for number in range(12):
        (package / f"f{number}.py").write_text(f"x = {number}\n")
        text += f'[[edit]]\nfile = "f{number}.py"\nfind = "x = {number}"\nreplace = "x = -{number}"\n'
    (own / "many.toml").write_text(text.replace("x = -0", "x = 100"))
    began = desk.link.round_trips
    receipt = await patches.apply(desk, "many")  # the package is looked up on the way
    assert len(receipt.files) == 12
    assert receipt.round_trips == desk.link.round_trips - began <= 3
    assert (await patches.revert(desk, "many")).round_trips == 2


async def test_disjoint_patches_go_on_and_off_in_any_order(desk: Desk, own: Path, package: Path) -> None:
    before = (package / PATH).read_bytes()
    for first, second in (("A", "FAR"), ("FAR", "A")):
        await patches.apply(desk, "A")
        await patches.apply(desk, "FAR")
        await patches.revert(desk, first)
        await patches.revert(desk, second)
        assert (package / PATH).read_bytes() == before


async def test_the_lower_of_two_overlapping_patches_is_refused_while_the_upper_is_on(
    desk: Desk, own: Path, package: Path
) -> None:
    before = (package / PATH).read_bytes()
    with pytest.raises(ConflictError):
        await patches.apply(desk, "B")
    await patches.apply(desk, "A")
    with pytest.raises(ConflictError, match="C conflicts") as caught:
        await patches.apply(desk, "C")
    assert "conflicts with A" in caught.value.detail
    await patches.apply(desk, "B")
    both = (package / PATH).read_bytes()
    with pytest.raises(ConflictError, match="A lies under B"):
        await patches.revert(desk, "A")
    assert (package / PATH).read_bytes() == both
    await patches.revert(desk, "B")
    await patches.revert(desk, "A")
    assert (package / PATH).read_bytes() == before


async def test_somebody_elses_edit_in_the_same_file_stays(desk: Desk, own: Path, package: Path) -> None:
    await patches.apply(desk, "A")
    (package / PATH).write_bytes((package / PATH).read_bytes() + b"\nTHEIRS = 1\n")
    await patches.revert(desk, "A")
    original = parts("D02.txt")["site-packages/vllm/v1/attention/base.py"]
    assert (package / PATH).read_bytes() == original + b"\nTHEIRS = 1\n"


async def test_an_edit_inside_ours_refuses_the_revert(desk: Desk, own: Path, package: Path) -> None:
    await patches.apply(desk, "A")
    theirs = (package / PATH).read_bytes().replace(b"batch > 128", b"batch > 256")
    (package / PATH).write_bytes(theirs)
    status = (await patches.statuses(desk, ["A"]))[0]
    assert status.disk is DiskState.DRIFTED and "batch > 256" in status.reason
    for act in (patches.revert, patches.apply):
        with pytest.raises(RefusedError):
            await act(desk, "A", force=True)
    assert (package / PATH).read_bytes() == theirs


async def test_a_patch_that_we_never_wrote_is_on_and_can_be_taken_back(desk: Desk, own: Path, package: Path) -> None:
    before = (package / PATH).read_bytes()
    (package / PATH).write_bytes(before.replace(b"batch > 64", b"batch > 128"))
    status = (await patches.statuses(desk, ["A"]))[0]
    assert (status.disk, status.ours) == (DiskState.ON, False)
    assert any("uncommitted" in ask for ask in status.asks)
    said: list[str] = []
    desk.say = said.append
    receipt = await patches.revert(desk, "A")
    assert (package / PATH).read_bytes() == before
    assert any("batch > 64" in line for line in said)
    assert receipt.notes == ()


async def test_a_file_that_changed_since_the_preview_refuses(desk: Desk, own: Path, package: Path) -> None:
    seen = (await patches.statuses(desk, ["A"]))[0]
    (package / PATH).write_bytes((package / PATH).read_bytes() + b"# moved on\n")
    changed = sha(package / PATH)
    with pytest.raises(DriftError, match="changed since it was looked at"):
        await patches.apply(desk, "A", seen=seen)
    assert sha(package / PATH) == changed
    activity = desk.store.snapshot.activities[-1]
    assert activity.outcome == "refused" and "changed since" in activity.detail


async def test_our_own_changes_are_not_dirt_and_theirs_are_told(desk: Desk, own: Path, package: Path) -> None:
    await patches.apply(desk, "A")
    assert (await patches.statuses(desk, ["FAR"]))[0].asks == ()
    (package / PATH).write_bytes((package / PATH).read_bytes() + b"# theirs\n")
    assert (await patches.statuses(desk, ["FAR"]))[0].asks == (f"{PATH} holds uncommitted changes that are not ours",)
    receipt = await patches.apply(desk, "FAR")
    assert any("not ours stay" in note for note in receipt.notes)


async def test_undo_takes_back_the_last_change_and_once_more_redoes_it(desk: Desk, own: Path, package: Path) -> None:
    with pytest.raises(AlreadySoError):
        await patches.undo(desk)
    before = sha(package / PATH)
    await patches.apply(desk, "A")
    on = sha(package / PATH)
    (own / "A.toml").unlink()  # the host knows enough
    assert (await patches.undo(desk)).verb == "revert"
    assert sha(package / PATH) == before
    (own / "A.toml").write_text(A)
    assert (await patches.undo(desk)).verb == "apply"
    assert sha(package / PATH) == on
    assert desk.store.snapshot.marks[-1].kind == "patch"


async def test_what_another_operator_wrote_is_seen_and_comes_off(desk: Desk, own: Path, package: Path) -> None:
    for name in ("A", "B", "C", "FAR"):
        (own / f"{name}.toml").unlink()
    theirs = own.parent / "theirs.toml"
    theirs.write_text(A)
    before = sha(package / PATH)
    await patches.apply(desk, str(theirs))
    theirs.unlink()
    found = {status.name: status for status in await patches.statuses(desk)}
    assert (found["theirs"].disk, found["theirs"].ours) == (DiskState.ON, True)
    assert f"written by {desk.operator}" in found["theirs"].reason
    await patches.revert(desk, "theirs")
    assert sha(package / PATH) == before
    assert "theirs" not in {status.name for status in desk.store.snapshot.patches}
    with pytest.raises(UsageError, match="not found"):
        await patches.revert(desk, "theirs")
    await patches.undo(desk)
    assert sha(package / PATH) != before


async def test_toggle_follows_the_state(desk: Desk, own: Path) -> None:
    assert (await patches.toggle(desk, "A")).verb == "apply"
    assert (await patches.toggle(desk, "A")).verb == "revert"


async def test_a_write_refreshes_every_status_without_asking_again(desk: Desk, own: Path) -> None:
    await patches.statuses(desk)
    await patches.apply(desk, "A")
    trips = desk.link.round_trips
    shown = {status.name: status.disk for status in desk.store.snapshot.patches}
    assert (shown["A"], shown["B"], shown["C"]) == (DiskState.ON, DiskState.OFF, DiskState.CONFLICT)
    fresh = {status.name: status for status in await patches.statuses(desk)}
    assert {name: status.disk for name, status in fresh.items()} == shown
    assert desk.link.round_trips == trips + 1


async def test_drift_asks_and_force_completes(desk: Desk, own: Path, package: Path) -> None:
    (own / "two.toml").write_text(A + FAR)
    original = (package / PATH).read_bytes()
    (package / PATH).write_bytes(original.replace(b"batch > 64", b"batch > 128"))
    status = (await patches.statuses(desk, ["two"]))[0]
    assert status.disk is DiskState.DRIFTED and status.asks
    with pytest.raises(RefusedError, match="drifted"):
        await patches.apply(desk, "two")
    await patches.apply(desk, "two", force=True)
    assert await state(desk, "two") is DiskState.ON


async def test_fuzz_is_accepted_only_by_name(desk: Desk, own: Path, package: Path) -> None:
    (own / "fuzz.diff").write_bytes(parts("D02.txt")["fuzz.diff"])
    before = sha(package / PATH)
    with pytest.raises(FuzzError):
        await patches.apply(desk, str(own / "fuzz.diff"))
    assert sha(package / PATH) == before
    await patches.apply(desk, str(own / "fuzz.diff"), accept_fuzz=True)
    await patches.revert(desk, str(own / "fuzz.diff"))
    assert sha(package / PATH) == before


async def test_a_syntax_error_never_lands(desk: Desk, own: Path, package: Path) -> None:
    (own / "bad.toml").write_text(A.replace('"    if batch > 128:"', '"    if batch > ("'))
    before = sha(package / PATH)
    with pytest.raises(RefusedError, match=f"{PATH} would not compile") as caught:
        await patches.apply(desk, "bad")
    assert "line 11" in caught.value.detail
    assert sha(package / PATH) == before


async def test_wrong_patch_files_are_told_with_file_and_line(desk: Desk, own: Path) -> None:
    (own / "wrong.toml").write_text(A.replace("find", "search"))
    status = (await patches.statuses(desk, ["wrong"]))[0]
    assert status.disk is DiskState.INVALID and "wrong.toml:3: edit[1].search" in status.reason
    assert "did you mean find?" in status.reason
    with pytest.raises(FormatError):
        await patches.apply(desk, "wrong")
    with pytest.raises(UsageError, match="not found"):
        await patches.statuses(desk, ["nothing"])
    assert "wrong" in [status.name for status in await patches.statuses(desk)]


async def test_other_engine_and_readonly_refuse(desk: Desk, own: Path, package: Path) -> None:
    (own / "other.toml").write_text('[applies_to]\nengine = "sglang"\n' + A)
    with pytest.raises(NotApplicableError):
        await patches.apply(desk, "other")
    desk.readonly = True
    for act in (patches.apply(desk, "A"), patches.revert(desk, "A"), patches.undo(desk)):
        with pytest.raises(ReadOnlyError):
            await act


async def test_of_two_consoles_one_wins_and_the_other_is_told(desk: Desk, own: Path, package: Path) -> None:
    other_link = HostLink(LocalTransport())
    await other_link.connect()
    other = Desk(other_link, package_dirs=desk.package_dirs)
    done = await asyncio.gather(patches.apply(desk, "A"), patches.apply(other, "C"), return_exceptions=True)
    await other_link.close()
    losers = [error for error in done if isinstance(error, BaseException)]
    assert len(losers) == 1 and isinstance(losers[0], RefusedError), done
    assert {await state(desk, "A"), await state(desk, "C")} == {DiskState.ON, DiskState.CONFLICT}


async def test_capture_of_uncommitted_changes_is_a_patch_that_is_on(desk: Desk, own: Path, package: Path) -> None:
    before = sha(package / PATH)
    (package / PATH).write_bytes((package / PATH).read_bytes().replace(b"empty_like", b"zeros_like"))
    path = await patches.capture(desk, "mine")
    assert path == own / "mine.toml"
    assert await state(desk, "mine") is DiskState.ON
    with pytest.raises(UsageError, match="is there already"):
        await patches.capture(desk, "mine")
    await patches.revert(desk, "mine")
    assert sha(package / PATH) == before


def run_of(package: Path, sha256: str, **more: object) -> Run:
    run = Run(
        "2026-12-02-1", "p", "sglang", "/r", "/r/server.log", 30000, 0.0, phase=RunPhase.READY,
        hashes=(FileHash(str(package / PATH), sha256),),
    )  # fmt: skip
    return dataclasses.replace(run, **more)  # type: ignore[arg-type]


async def test_the_process_is_not_its_files(desk: Desk, own: Path, package: Path) -> None:
    evidence = '[requires]\nargs = { moe-runner-backend = "flashinfer_cutlass" }\n[evidence]\nlog = "Tuned"\n'
    (own / "proof.toml").write_text(evidence + A)
    desk.profile = Profile("p", launch=LaunchSection(args={"moe-runner-backend": "flashinfer_cutlass"}))

    async def loaded() -> ProcessState:
        return (await patches.statuses(desk, ["proof"]))[0].loaded

    assert await loaded() is ProcessState.NO_SERVER
    off = sha(package / PATH)
    desk.store.update(run=run_of(package, off))
    assert await loaded() is ProcessState.NOT_LOADED
    await patches.apply(desk, "proof")
    assert await loaded() is ProcessState.NEEDS_RESTART
    on = sha(package / PATH)
    desk.store.update(run=run_of(package, on))
    assert await loaded() is ProcessState.LOADED
    desk.store.update(run=run_of(package, on, evidence=("Tuned",)))
    assert await loaded() is ProcessState.PROVEN
    desk.store.update(run=run_of(package, on, argv=("python3", "-m", "x", "--moe-runner-backend", "auto")))
    status = (await patches.statuses(desk, ["proof"]))[0]
    assert status.loaded is ProcessState.NOT_REACHED
    assert "needs --moe-runner-backend flashinfer_cutlass" in status.process_reason
    await patches.apply(desk, "FAR")  # another patch in the same file: this one is in the process all the same
    desk.store.update(run=run_of(package, on, patches_on=("proof",), evidence=("Tuned",)))
    assert await loaded() is ProcessState.PROVEN
    await patches.revert(desk, "proof")
    assert await loaded() is ProcessState.NEEDS_RESTART


async def test_the_storys_sed_says_done_and_we_say_off(desk: Desk, own: Path, package: Path) -> None:
    file = package / PATH
    os.utime(file, (1, 1))
    before = sha(file)
    done = subprocess.run(["sed", "-i", r"s/def pick(meta, batch):\n    if batch > 64:/X/", str(file)], check=False)
    assert done.returncode == 0
    assert file.stat().st_mtime > 1 and sha(file) == before
    assert await state(desk, "A") is DiskState.OFF

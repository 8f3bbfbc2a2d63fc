"""What a running server has of a patch: from hashes, flags and evidence."""

from __future__ import annotations

import pytest

from console.domain.patch import DiskState, Patch, ProcessState, Requires
from console.domain.run import FileHash, ProcessId, Run, RunPhase
from console.patching.process import FileNow, Worker, arguments, judge, unreached

NEEDS = Requires({"moe-runner-backend": "flashinfer_cutlass"}, ("disable-flashinfer-autotune",))


@pytest.mark.parametrize(
    ("argv", "lacking"),
    [
        ("--moe-runner-backend flashinfer_cutlass", ""),
        ("--moe-runner-backend=flashinfer_cutlass", ""),
        ("--moe_runner_backend flashinfer_cutlass", ""),
        ("--moe-runner flashinfer_cutlass", ""),
        ("--moe-runner-backend auto", "needs --moe-runner-backend flashinfer_cutlass"),
        ("--tp 8", "needs --moe-runner-backend flashinfer_cutlass"),
        (
            "--moe-runner-backend flashinfer_cutlass --disable-flashinfer-autotune",
            "must be without --disable-flashinfer-autotune",
        ),
    ],
)
def test_reached_or_not_by_flags_as_people_write_them(argv: str, lacking: str) -> None:
    assert unreached(NEEDS, arguments(["python3", "-m", "sglang.launch_server", *argv.split()])) == lacking


def test_flags_alone_with_values_and_with_many() -> None:
    said = arguments(["x", "--a", "--b", "1", "--c", "1", "2", "3", "--d=e=f"])
    assert said == {"a": True, "b": "1", "c": ("1", "2", "3"), "d": "e=f"}


@pytest.mark.parametrize(
    ("wanted", "given", "fits"), [(True, True, True), (True, None, False), (8, "8", True), (False, None, True)]
)
def test_values_of_any_type(wanted: object, given: object, fits: bool) -> None:
    args = {"other": 1} if given is None else {"flag": given}
    assert (unreached(Requires({"flag": wanted}), args) == "") is fits


def run(phase: RunPhase = RunPhase.READY, sha: str = "1", patches: tuple[str, ...] = ()) -> Run:
    return Run(
        "r", "p", "sglang", "/", "/l", 1, 100.0, phase=phase, hashes=(FileHash("/pkg/a.py", sha),), patches_on=patches
    )


@pytest.mark.parametrize("phase", [RunPhase.EXITED, RunPhase.FAILED, RunPhase.LOST])
def test_a_run_that_ended_has_nothing(phase: RunPhase) -> None:
    state, _ = judge(Patch("p"), DiskState.ON, [FileNow("/pkg/a.py", "/pkg/a.py", "1")], run(phase), {})
    assert state is ProcessState.NO_SERVER


def test_an_adopted_run_says_unchanged_or_unknown_and_never_as_at_launch() -> None:
    adopted = Run("r", "", "sglang", "/", "/l", 1, 100.0, phase=RunPhase.READY, launched=False)
    old, copied = FileNow("/p/b.py", "/p/b.py", "1", 50.0, 60.0), FileNow("/p/b.py", "/p/b.py", "1", 50.0, 150.0)
    assert judge(Patch("p"), DiskState.ON, [old], adopted, {}) == (
        ProcessState.LOADED,
        "b.py unchanged since before run r started",
    )
    assert judge(Patch("p"), DiskState.ON, [copied], adopted, {}) == (
        ProcessState.UNKNOWN,
        "unknown which bytes it loaded: nothing noted b.py when run r started, and it was put there or touched since",
    )


def test_a_server_without_a_number_is_named_by_its_pid() -> None:
    theirs = Run(
        "", "", "sglang", "", "/l", 1, 100.0, process=ProcessId(4711, 1, 0), adopted=False, phase=RunPhase.READY
    )
    _, why = judge(Patch("p"), DiskState.ON, [FileNow("/p/b.py", "/p/b.py", "1", 150.0)], theirs, {})
    assert "when pid 4711 started, and it was written since" in why


def test_a_file_that_was_not_recorded_is_judged_by_its_time() -> None:
    old, new = FileNow("/pkg/b.py", "/pkg/b.py", "1", 50.0), FileNow("/pkg/b.py", "/pkg/b.py", "1", 150.0)
    assert judge(Patch("p"), DiskState.ON, [old], run(), {})[0] is ProcessState.LOADED
    assert judge(Patch("p"), DiskState.ON, [new], run(), {})[0] is ProcessState.UNKNOWN


def test_a_link_to_the_recorded_file_is_the_file() -> None:
    file = FileNow("/venv/pkg/a.py", "/pkg/a.py", "1")
    assert judge(Patch("p"), DiskState.ON, [file], run(), {})[0] is ProcessState.LOADED
    assert judge(Patch("p"), DiskState.OFF, [file], run(sha="2", patches=("p",)), {})[0] is ProcessState.NEEDS_RESTART


def test_without_a_server_the_profile_still_tells_what_is_never_reached() -> None:
    state, why = judge(Patch("p", requires=NEEDS), DiskState.ON, [], None, {"tp-size": 8})
    assert state is ProcessState.NO_SERVER and "never reaches it" in why


def test_processes_that_began_after_the_write_are_told_apart() -> None:
    now = [FileNow("/p/m.py", "/p/m.py", "new", mtime=100.0)]
    run = Run("r1", "p", "sglang", "/r", "/r/l", 1, 0.0, phase=RunPhase.READY, hashes=(FileHash("/p/m.py", "old"),))
    first, late = Worker(10, "python3 -m x", 50.0), Worker(11, "sglang::scheduler_TP0", 150.0)
    state, why = judge(Patch("p"), DiskState.ON, now, run, {}, [first, first])
    assert state is ProcessState.NEEDS_RESTART and "all 2 of its processes began before the write" in why
    _, why = judge(Patch("p"), DiskState.ON, now, run, {}, [first, late])
    assert "1 of 2 processes began after the last write: 11 sglang::scheduler_TP0" in why


def test_another_copy_without_hashes_is_unknown_and_with_them_is_judged() -> None:
    files = [FileNow("/pkg/b.py", "/pkg/b.py", "1", 50.0)]
    state, why = judge(Patch("p"), DiskState.ON, files, run(), {}, elsewhere="run r loads /other, not /pkg")
    assert (state, why) == (ProcessState.UNKNOWN, "run r loads /other, not /pkg")
    files = [FileNow("/pkg/a.py", "/pkg/a.py", "1", 50.0)]
    assert judge(Patch("p"), DiskState.ON, files, run(), {}, elsewhere="any")[0] is ProcessState.LOADED


@pytest.mark.parametrize(
    ("disk", "switches", "wants"),
    [
        (DiskState.ON, [(120.0, "apply")], ProcessState.NEEDS_RESTART),
        (DiskState.OFF, [(120.0, "revert")], ProcessState.NEEDS_RESTART),
        (DiskState.ON, [(50.0, "apply"), (120.0, "revert"), (130.0, "apply")], ProcessState.LOADED),
        (
            DiskState.OFF,
            [(50.0, "apply"), (60.0, "revert"), (120.0, "apply"), (130.0, "revert")],
            ProcessState.NOT_LOADED,
        ),
        (DiskState.ON, [], ProcessState.UNKNOWN),
    ],
)
def test_a_server_that_we_did_not_launch_is_judged_by_the_hosts_journal(
    disk: DiskState, switches: list[tuple[float, str]], wants: ProcessState
) -> None:
    files = [FileNow("/pkg/b.py", "/pkg/b.py", "1", 150.0)]
    assert judge(Patch("p"), disk, files, run(), {}, switches=switches)[0] is wants

"""A patch of a real scheduler: on disk at once, in the process after a restart, and proven by its own log line."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from console.domain.patch import DiskState, PatchStatus, ProcessState
from console.domain.run import Run, RunPhase
from console.operations import patches, server
from console.operations.desk import Desk
from tests.real_engine.conftest import READY_S, Bay, alive, until

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(1500)]

SAYS = "the patched scheduler runs"
PATCH = f"""name = "proof"
title = "Say a line when the scheduler's loop begins"
[applies_to]
engine = "sglang"
version = "==0.5.23"
[evidence]
log = "{SAYS}"
[[edit]]
file = "srt/managers/scheduler.py"
within = "run_event_loop"
find = '''
        triton_load_watch.install()
'''
replace = '''
        logger.info("{SAYS}")
        triton_load_watch.install()
'''
"""


def digests(folder: Path) -> dict[str, str]:
    """Return the hash of every source file."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.rglob("*.py"))}


async def state(desk: Desk) -> tuple[DiskState, ProcessState]:
    """Return both columns, as a console that looks now shows them."""
    return columns(await looked_at(desk))


def columns(status: PatchStatus) -> tuple[DiskState, ProcessState]:
    return status.disk, status.loaded


async def looked_at(desk: Desk) -> PatchStatus:
    await server.status(desk)
    [status] = await patches.statuses(desk, ["proof"])
    return status


async def restarted(desk: Desk) -> Run:
    return await server.wait_ready(desk, await server.restart(desk, grace_s=120), deadline_s=READY_S)


async def test_a_patch_is_on_then_proven_then_off(bay: Bay, copied_package: Path) -> None:
    bay.package = copied_package
    scheduler = copied_package / "sglang/srt/managers/scheduler.py"
    installed = bay.python.parents[1]
    before, untouched = digests(copied_package), digests(installed)
    folder = bay.folder / "config/tokwatt/patches"
    folder.mkdir(parents=True)
    (folder / "proof.toml").write_text(PATCH)
    desk = await bay.desk(bay.profile())
    assert await state(desk) == (DiskState.OFF, ProcessState.NO_SERVER)

    first = await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)
    assert first.patches_on == () and first.evidence == ()
    assert {file.path: file.sha256 for file in first.hashes}[str(scheduler)] == before[str(scheduler)]
    assert await state(desk) == (DiskState.OFF, ProcessState.NOT_LOADED)

    receipt = await patches.apply(desk, "proof", seen=await looked_at(desk))
    assert [(file, added, removed) for file, _, _, added, removed in receipt.files] == [
        ("srt/managers/scheduler.py", 1, 0)
    ]
    assert receipt.compiled_by == str(bay.python)
    status = await looked_at(desk)
    assert columns(status) == (DiskState.ON, ProcessState.NEEDS_RESTART)
    assert f"it was off when run {first.id} started" in status.process_reason

    second = await restarted(desk)
    assert second.patches_on == ("proof",) and second.evidence == (SAYS,)
    status = await looked_at(desk)
    assert columns(status) == (DiskState.ON, ProcessState.PROVEN)
    assert status.process_reason == f"the log of run {second.id} says {SAYS!r}"
    assert SAYS in Path(second.log).read_text() and SAYS not in Path(first.log).read_text()
    the_shell_says_the_same(bay, ("on", "proven"))

    await patches.revert(desk, "proof", seen=status)
    assert digests(copied_package) == before
    status = await looked_at(desk)
    assert columns(status) == (DiskState.OFF, ProcessState.NEEDS_RESTART)
    assert f"it was on when run {second.id} started" in status.process_reason

    third = await restarted(desk)
    assert third.patches_on == () and third.evidence == () and SAYS not in Path(third.log).read_text()
    assert await state(desk) == (DiskState.OFF, ProcessState.NOT_LOADED)
    assert digests(installed) == untouched
    await a_launcher_killed_by_a_stranger_takes_its_workers_along(desk, third)


def the_shell_says_the_same(bay: Bay, wanted: tuple[str, str]) -> None:
    done = bay.shell("--profile", str(bay.profile()), "patch", "check", "proof", "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    [status] = told["patches"]
    assert (status["state"], status["loaded"]) == wanted


async def a_launcher_killed_by_a_stranger_takes_its_workers_along(desk: Desk, run: Run) -> None:
    """SGLang 0.5.23 asks the kernel for that; nothing may be left that a next start would meet."""
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    await until(lambda: not list(alive(run)))
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, 137)
    assert found.failure is not None and found.failure.cause.startswith("killed by signal 9")

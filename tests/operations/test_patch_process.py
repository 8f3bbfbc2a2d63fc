"""What a process that really runs has of a patch, with nothing recorded at its launch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.domain.patch import PatchStatus, ProcessState
from console.domain.run import ProcessId, Run, RunPhase
from console.operations import patches
from console.operations.desk import Desk
from tests.local import desk as desk
from tests.operations.test_patches import own, package

__all__ = ["own", "package"]

FORKING = "import os, sys, time\npid = os.fork()\nprint(pid, flush=True) if pid else None\nsys.stdin.read()\n"


class Server:
    """A process of two, in a session of its own, that imports the engine from a folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKING],
            env={**os.environ, "PYTHONPATH": str(folder)},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        pid = self.process.pid
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        began = float(stat[19]) / os.sysconf("SC_CLK_TCK") + _booted()
        argv = (sys.executable, "-c")
        where = ProcessId(pid, int(stat[19]), pid)
        self.run = Run("r", "p", "vllm", "/", "/l", 1, began, where, argv, RunPhase.READY, adopted=False)

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _booted() -> float:
    import time

    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.fixture
def server(request: pytest.FixtureRequest, package: Path, tmp_path: Path) -> Iterator[Server]:
    """A server of this package, or of another one."""
    other = tmp_path / "other/vllm"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    server = Server(package.parent if request.param == "this" else other.parent)
    yield server
    server.end()


async def seen(desk: Desk, server: Server) -> PatchStatus:
    desk.store.update(run=server.run)
    return (await patches.statuses(desk, ["A"]))[0]


@pytest.mark.parametrize("server", ["other"], indirect=True)
async def test_a_server_of_another_copy_says_nothing_of_this_one(
    desk: Desk, own: Path, package: Path, server: Server, tmp_path: Path
) -> None:
    status = await seen(desk, server)
    assert status.loaded is ProcessState.UNKNOWN
    assert status.process_reason == f"run r loads {tmp_path}/other/vllm, not {package}"


@pytest.mark.parametrize("server", ["this"], indirect=True)
async def test_a_server_of_this_copy_is_judged_by_times_and_the_journal(
    desk: Desk, own: Path, package: Path, server: Server
) -> None:
    status = await seen(desk, server)
    assert status.loaded is ProcessState.NOT_LOADED
    assert "unchanged since before run r started" in status.process_reason
    await patches.apply(desk, "A")
    status = await seen(desk, server)
    assert status.loaded is ProcessState.NEEDS_RESTART
    assert "the host's journal has its first apply after run r started" in status.process_reason
    assert "all 2 of its processes began before the write" in status.process_reason
    await patches.revert(desk, "A")
    assert (await seen(desk, server)).loaded is ProcessState.NOT_LOADED


@pytest.mark.parametrize("server", ["this"], indirect=True)
async def test_an_old_time_on_a_file_that_was_put_there_since_proves_nothing(
    desk: Desk, own: Path, package: Path, server: Server
) -> None:
    for path in package.rglob("*.py"):  # as `cp -p`, `tar x` and `rsync -t` leave it
        os.utime(path, (1_700_000_000, 1_700_000_000))
    status = await seen(desk, server)
    assert status.loaded is ProcessState.UNKNOWN
    assert status.process_reason.startswith("unknown which bytes it loaded: nothing noted ")
    assert status.process_reason.endswith(" when run r started, and it was put there or touched since")

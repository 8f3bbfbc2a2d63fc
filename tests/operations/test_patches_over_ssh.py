"""What only a link can do to a write: go away in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from console.domain.host import Package
from console.domain.patch import DiskState
from console.errors import AlreadySoError, LinkLostError, RefusedError
from console.operations import patches
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from console.remote.target import Target

PATCH = '[[edit]]\nfile = "m.py"\nfind = "x = 1"\nreplace = "x = 2"\n'


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """A package whose interpreter takes its time, and leaves a mark when it was started."""
    folder = tmp_path / "w/eng"
    folder.mkdir(parents=True)
    (folder / "m.py").write_text("x = 1\n")
    (tmp_path / "p.toml").write_text(PATCH)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\ntouch {tmp_path}/started\nsleep 1\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return Package("eng", str(folder), None, interpreter=str(python))


async def appears(path: Path) -> None:
    async with asyncio.timeout(20):
        while not path.exists():
            await asyncio.sleep(0.02)


async def settled(host: Target, package: Package, patch: str) -> DiskState:
    """Return the state that the next start of a console finds, once the host has let go of the lock."""
    link = HostLink(SshTransport(host))
    await link.connect()
    desk = Desk(link, package=package)
    async with asyncio.timeout(20):
        while (state := (await patches.statuses(desk, [patch]))[0].disk) is DiskState.OFF:
            await asyncio.sleep(0.1)
    await link.close()
    return state


async def test_a_link_cut_during_an_apply_leaves_no_file_torn(
    ssh_host: Target, tmp_path: Path, package: Package
) -> None:
    link = HostLink(SshTransport(ssh_host))
    await link.connect()
    desk = Desk(link, package=package)
    patch = str(tmp_path / "p.toml")
    applying = asyncio.create_task(patches.apply(desk, patch))
    await appears(tmp_path / "started")
    await link.close()
    with pytest.raises(LinkLostError, match="apply p"):
        await applying
    assert await settled(ssh_host, package, patch) is DiskState.ON
    assert sorted(path.name for path in (tmp_path / "w/eng").iterdir() if path.is_file()) == ["m.py"]


async def test_a_console_killed_during_an_apply_leaves_no_file_torn(
    ssh_host: Target, tmp_path: Path, package: Package
) -> None:
    patch = str(tmp_path / "p.toml")
    program = (
        "import asyncio, sys, pickle\n"
        "from console.operations import patches\n"
        "from console.operations.desk import Desk\n"
        "from console.remote.link import HostLink\n"
        "from console.remote.ssh import SshTransport\n"
        "target, package, patch = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "async def main():\n"
        "    link = HostLink(SshTransport(target))\n"
        "    await link.connect()\n"
        "    await patches.apply(Desk(link, package=package), patch)\n"
        "asyncio.run(main())\n"
    )
    import pickle

    argument = pickle.dumps((ssh_host, package, patch)).hex()
    console = await asyncio.create_subprocess_exec(sys.executable, "-c", program, argument)
    await appears(tmp_path / "started")
    with contextlib.suppress(ProcessLookupError):
        os.kill(console.pid, signal.SIGKILL)
    assert await console.wait() == -signal.SIGKILL
    assert await settled(ssh_host, package, patch) is DiskState.ON
    desk_sees = (tmp_path / "w/eng/m.py").read_text()
    assert desk_sees == "x = 2\n"


async def test_of_two_operators_at_once_one_wins_and_the_other_is_told_who(
    ssh_host: Target, tmp_path: Path, package: Package
) -> None:
    patch = str(tmp_path / "p.toml")
    await patches_apply_and_revert(ssh_host, package, patch)
    (tmp_path / "started").unlink()
    links = [HostLink(SshTransport(ssh_host)) for _ in range(2)]
    for link in links:
        await link.connect()
    first, second = (Desk(link, package=package) for link in links)
    winning = asyncio.create_task(patches.apply(first, patch))
    await appears(tmp_path / "started")
    with pytest.raises(RefusedError, match=f"apply p: {first.operator} is writing to .*/.tokwatt"):
        await patches.apply(second, patch)
    assert (await winning).files
    with pytest.raises(AlreadySoError):
        await patches.apply(second, patch)
    for link in links:
        await link.close()


async def patches_apply_and_revert(host: Target, package: Package, patch: str) -> None:
    """Leave a host on which something was written already."""
    link = HostLink(SshTransport(host))
    await link.connect()
    for switch in (patches.apply, patches.revert):
        await switch(Desk(link, package=package), patch)
    await link.close()

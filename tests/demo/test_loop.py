"""The loop of the story over the demo host's own SSH, without the numbers: `tokwatt demo --tour` holds those."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.config.paths import find_profile
from console.config.profiles import load_profile
from console.demo import layout
from console.demo.server import DemoServer
from console.domain.host import Link
from console.domain.patch import DiskState, ProcessState
from console.domain.run import RunPhase
from console.errors import ConsoleError
from console.operations import host, patches
from console.operations import server as serving
from console.operations.desk import Desk
from console.operations.opening import open_desk
from console.operations.watch import gpu_samples
from console.remote.target import Target
from tests.ssh_servers import free_port

AUTOTUNE = "flashinfer-cutlass-autotune"
FUSION = "allreduce-fusion-sm120"


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: DemoServer) -> AsyncIterator[Desk]:
    """A desk on the demo host."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    target = Target(
        "demo",
        address="127.0.0.1",
        port=server.port,
        user="demo",
        key_files=(str(server.keys.user_key),),
        known_hosts=str(server.keys.known_hosts),
        read_config=False,
        badge="DEMO",
    )
    found = await open_desk(target, profile=str(find_profile("demo")))
    use(found, "demo")
    yield found
    await found.link.close()


def use(desk: Desk, name: str) -> None:
    """Change to a shipped profile, on a port that is free here."""
    profile = load_profile(find_profile(name))
    port = desk.profile.launch.port if desk.profile and desk.profile.launch.port != 30000 else free_port()
    desk.profile = replace(profile, launch=replace(profile.launch, port=port))
    desk.store.update(profile=desk.profile)


async def launched(desk: Desk, name: str) -> None:
    use(desk, name)
    run = await serving.wait_ready(desk, await serving.start(desk), deadline_s=60)
    assert run.phase is RunPhase.READY


async def states(desk: Desk, name: str) -> tuple[DiskState, ProcessState]:
    status = (await patches.statuses(desk, [name]))[0]
    return status.disk, status.loaded


async def test_both_shipped_patches_go_through_all_their_states(desk: Desk, server: DemoServer) -> None:
    files = [
        layout.package_folder(server.folder) / "srt" / name
        for name in ("model_executor/model_runner.py", "layers/communicator.py")
    ]
    before = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert (await host.engine_package(desk)).version == "0.5.9"
    assert await host.compute_capability(desk) == "12.0"
    assert await states(desk, AUTOTUNE) == (DiskState.OFF, ProcessState.NO_SERVER)
    await launched(desk, "demo-wide")
    assert await states(desk, AUTOTUNE) == (DiskState.OFF, ProcessState.NOT_LOADED)
    await patches.apply(desk, AUTOTUNE)
    await patches.apply(desk, FUSION)
    assert await states(desk, AUTOTUNE) == (DiskState.ON, ProcessState.NEEDS_RESTART)
    await serving.stop(desk)
    await launched(desk, "demo-wide")
    assert await states(desk, AUTOTUNE) == (DiskState.ON, ProcessState.NOT_REACHED)
    assert await states(desk, FUSION) == (DiskState.ON, ProcessState.NOT_REACHED)
    await serving.stop(desk)
    await launched(desk, "demo-cutlass")
    assert await states(desk, AUTOTUNE) == (DiskState.ON, ProcessState.PROVEN)
    await serving.stop(desk)
    await launched(desk, "demo-fusion")
    assert await states(desk, FUSION) == (DiskState.ON, ProcessState.PROVEN)
    stopped = await serving.stop(desk)
    assert stopped.phase is RunPhase.EXITED
    await patches.revert(desk, AUTOTUNE)
    await patches.revert(desk, FUSION)
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in files] == before


async def test_the_run_carries_the_badge(desk: Desk, server: DemoServer) -> None:
    await launched(desk, "demo-fast")
    records = list((server.folder / "home" / ".local" / "state" / "tokwatt" / "runs").glob("*/launch.json"))
    assert len(records) == 1
    assert '"DEMO"' in records[0].read_text()
    await serving.stop(desk)


async def test_a_cut_link_comes_back_to_a_server_that_went_on(desk: Desk, server: DemoServer) -> None:
    await launched(desk, "demo-fast")
    run = desk.store.snapshot.run
    assert run is not None and run.process is not None
    server.drop_connection()
    async with asyncio.timeout(30):
        async for state in desk.link.changes():
            if state.link is Link.LOST:
                break
        async for state in desk.link.changes():
            if state.link is Link.UP:
                break
    again = await serving.status(desk)
    assert again is not None
    assert (again.id, again.process, again.phase) == (run.id, run.process, RunPhase.READY)
    await serving.stop(desk)


async def test_a_hung_server_is_stopped_all_the_same(desk: Desk, server: DemoServer) -> None:
    await launched(desk, "demo-fast")
    pid = server.hang_engine()
    assert pid
    await serving.stop(desk, grace_s=0.5)
    assert (
        not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    )


async def test_a_server_that_dies_in_start_up_says_why(desk: Desk) -> None:
    profile = desk.must_profile()
    args = {**profile.launch.args, "mem-fraction-static": 0.02}
    desk.profile = replace(profile, launch=replace(profile.launch, args=args))
    run = await serving.start(desk)
    with pytest.raises(ConsoleError) as died:
        await serving.wait_ready(desk, run, deadline_s=60)
    assert "mem-fraction-static" in died.value.one_line()


async def test_the_gauges_read_eight_cards(desk: Desk) -> None:
    samples = gpu_samples(desk, hz=10)
    async for sample in samples:
        if sample.gpus:
            break
    await samples.aclose()  # type: ignore[attr-defined]
    assert sample.source == "nvidia-smi"
    assert len(sample.gpus) == 8
    assert sample.limit_w == 4800

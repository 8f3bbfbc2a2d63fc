"""What a real SGLang 0.5.13 on an H200 did, done again on a host behind a real sshd: what is said of it, and when."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from console.domain import readiness
from console.domain.profile import EngineSection, LaunchSection, Profile
from console.domain.run import LogKind, Run, RunPhase
from console.errors import ConsoleError
from console.operations import logs, running, server, watch
from console.operations.desk import Desk
from console.operations.dry_run import dry_run
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from tests.conftest import require_sshd
from tests.engines.lives import PATIENCE_S, REPLAYED, SPEED, events, write_script
from tests.ssh_servers import OpenSshServer, free_port

pytestmark = [pytest.mark.sshd, pytest.mark.timeout(120 + int(600 / SPEED))]

SCRAPES = Path(__file__).parents[1] / "data" / "sglang" / "graph-c256-1hz.txt.gz"
HOLDER = [sys.executable, "-c", "import sys; sys.stdin.read()", "train.py", "--epochs", "90"]

SMI = """#!/bin/sh
case "$*" in
*compute-apps*) cat {folder}/apps ;;
*memory.total*) echo "0, GPU-1, NVIDIA H200, 580.159.04, 143771, 131829, 700.00, 700.00, 0, Default, 0" ;;
*) echo "GPU-1, 131829" ;;
esac
"""
"""One H200 of which all but 11.69 GB are taken, as the server whose start failed found it."""


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """A host of its own: folder of its programs, first in the path."""
    require_sshd()
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dmesg").write_text(f"#!/bin/sh\ncat {programs}/kernel.log\n")
    (programs / "kernel.log").write_text("")
    (programs / "dmesg").chmod(0o755)
    yield programs
    for file in tmp_path.rglob("tokwatt/runs/*/pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(file.read_text().split()[2]), signal.SIGKILL)


@pytest.fixture
async def to_host(host: Path, tmp_path: Path) -> AsyncIterator[HostLink]:
    """A link to it through a real sshd."""
    extra = f"SetEnv XDG_STATE_HOME={tmp_path}/state PATH={host}:/usr/bin:/bin\n"
    async with OpenSshServer(tmp_path / "ssh", extra=extra) as sshd:
        link = HostLink(SshTransport(sshd.target))
        await link.connect()
        yield link
        await link.close()


@pytest.fixture
def holder(host: Path) -> Iterator[int]:
    """Somebody's training holds the card."""
    with subprocess.Popen(HOLDER, stdin=subprocess.PIPE) as process:
        (host / "apps").write_text(f"GPU-1, {process.pid}, python, 131800\n")
        (host / "nvidia-smi").write_text(SMI.format(folder=host))
        (host / "nvidia-smi").chmod(0o755)
        yield process.pid


def desk_of(link: HostLink, folder: Path, name: str, said: list[str] | None = None, metrics: str = "") -> Desk:
    """Return a desk whose profile starts a recorded life."""
    script = write_script(folder, name, metrics=metrics)
    launch = LaunchSection(
        port=free_port(), workdir=str(REPLAYED), args={"model-path": str(folder), "script": str(script)}
    )
    profile = Profile(name, str(folder / f"{name}.toml"), engine=EngineSection(python=sys.executable), launch=launch)
    desk = Desk(link, profile=profile, say=(said if said is not None else []).append)
    desk.store.update(host=link.host, facts=link.facts, profile=profile)
    return desk


async def died(desk: Desk, run: Run) -> Run:
    """Return the run after its death, seen by a console that was not there."""
    with pytest.raises(ConsoleError, match=f"run {run.id} failed"):
        await server.wait_ready(desk, run, deadline_s=PATIENCE_S)
    other = Desk(desk.link, profile=desk.profile)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await server.status(other)) is None or found.phase not in (RunPhase.FAILED, RunPhase.EXITED):
            await asyncio.sleep(0.05)
    return found


async def test_a_taken_port_is_a_failure_although_ready_is_printed_after_it(to_host: HostLink, tmp_path: Path) -> None:
    """`Errno 98`, 2 s later the ready line, then exit 3."""
    said: list[str] = []
    desk = desk_of(to_host, tmp_path, "port-in-use", said)
    run = await server.start(desk)
    phases: list[RunPhase] = []

    async def note() -> None:
        async for snapshot in desk.store.changes():
            if snapshot.run is not None:
                phases.append(snapshot.run.phase)

    noting = asyncio.create_task(note())
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", run.port))
        thief.listen()
        found = await died(desk, run)
    noting.cancel()
    assert b"fired up and ready to roll" in Path(run.log).read_bytes()
    assert RunPhase.READY not in phases and RunPhase.BUSY not in phases
    assert (found.phase, found.exit_status, found.ready_at) == (RunPhase.FAILED, 3, None)
    assert found.failure is not None and found.failure.cause.startswith(f"port {run.port} is taken")
    who = f"pid {os.getpid()} ({getpass.getuser()}): "
    assert found.failure.hint.startswith(f"port {run.port} is held by {who}"), found.failure.hint
    assert "Errno 98" in found.failure.lines[0]
    assert "ready" not in [rung.name for rung in found.ladder] and not any("ready" in text for text in said)
    again = await server.status(Desk(to_host, profile=desk.profile))
    assert again is not None and again.failure is not None
    assert again.failure.hint == f"nobody holds port {run.port} any more: a new start may come up"


async def test_a_drain_that_never_ends_is_ended_and_says_why(to_host: HostLink, tmp_path: Path) -> None:
    """SIGTERM; two refused requests stay counted as running."""
    said: list[str] = []
    desk = desk_of(to_host, tmp_path, "triton-graph", said)
    run = await server.start(desk)
    ready = await server.wait_ready(desk, run, deadline_s=PATIENCE_S)
    assert [rung.name for rung in ready.ladder][-1] == "ready"
    stopped = await server.stop(desk, ready, grace_s=max(1.5, 60 / SPEED))
    log = Path(run.log).read_text()
    assert "Gracefully exiting... Remaining number of requests 2" in log
    killed = next(text for text in said if text.startswith("SIGKILL to session"))
    assert "draining waits for 2 requests though no client is connected" in killed
    assert "refused requests stay counted, and it would never end by itself" in killed
    assert (stopped.phase, stopped.exit_status, stopped.failure) == (RunPhase.EXITED, 137, None)
    assert stopped.reason == "it was killed (SIGKILL) before it had drained"
    assert any(text.startswith("every process gone · port") for text in said)
    again = await server.status(Desk(to_host, profile=desk.profile))
    assert again is not None and again.reason == stopped.reason


async def test_137_is_the_normal_end_of_a_server_that_somebody_drained(to_host: HostLink, tmp_path: Path) -> None:
    desk = desk_of(to_host, tmp_path, "retract")
    run = await server.start(desk)
    await server.wait_ready(desk, run, deadline_s=PATIENCE_S)
    assert run.process is not None
    async with asyncio.timeout(PATIENCE_S):
        while b"POST /generate" not in Path(run.log).read_bytes()[-2000:]:
            await asyncio.sleep(0.05)
    os.kill(run.process.pid, signal.SIGTERM)  # not by us: no stop is noted
    async with asyncio.timeout(PATIENCE_S):
        while (found := await server.status(desk)) is None or found.phase not in (RunPhase.FAILED, RunPhase.EXITED):
            await asyncio.sleep(0.05)
    assert (found.phase, found.exit_status, found.failure) == (RunPhase.EXITED, 137, None)
    assert found.reason == "it drained, and ended itself with SIGKILL as this engine does"
    assert events("retract")[-1]["rc"] == -9


@pytest.mark.parametrize("by_kernel", [True, False])
async def test_137_without_draining_is_told_from_it(
    to_host: HostLink, host: Path, tmp_path: Path, by_kernel: bool
) -> None:
    desk = desk_of(to_host, tmp_path, "retract")
    run = await server.start(desk)
    await server.wait_ready(desk, run, deadline_s=PATIENCE_S)
    assert run.process is not None
    up = float(Path("/proc/uptime").read_text().split()[0])
    old = f"[{up - 5000:12.6f}] Out of memory: Killed process {run.process.pid} (python3) total-vm:1kB, anon-rss:1kB"
    new = f"[{up:12.6f}] Out of memory: Killed process {run.process.pid} (python3) total-vm:91kB, anon-rss:80kB"
    (host / "kernel.log").write_text(f"{old}\n" + f"{new}\n" * by_kernel)
    os.kill(run.process.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await server.status(Desk(to_host, profile=desk.profile))) is None or found.phase not in (
            RunPhase.FAILED,
            RunPhase.EXITED,
        ):
            await asyncio.sleep(0.05)
    assert (found.phase, found.exit_status) == (RunPhase.FAILED, 137)
    assert found.failure is not None
    if by_kernel:
        pid = run.process.pid
        assert found.failure.cause == f"the kernel killed python3 (pid {pid}): the host ran out of memory"
        assert list(found.failure.lines) == [new]
    else:
        told = "killed by signal 9, by somebody: the kernel's log names no out-of-memory kill meanwhile"
        assert found.failure.cause == told


async def test_who_holds_the_card_is_named_before_and_after(to_host: HostLink, holder: int, tmp_path: Path) -> None:
    """The engine says "increase --mem-fraction-static", which is not the cause."""
    said: list[str] = []
    desk = desk_of(to_host, tmp_path, "gpu-in-use", said)
    who = f"pid {holder} ({getpass.getuser()}: {' '.join(HOLDER)[:60]}"
    told = await dry_run(desk)
    assert any(text.startswith(who) and text.endswith("holds 131,800 MiB of a GPU") for text in told.warnings)
    run = await server.start(desk)
    assert any(f"warning: {who}" in text and "131,800 MiB" in text for text in said)
    found = await died(desk, run)
    assert found.failure is not None and "leave no GPU memory for the KV cache" in found.failure.cause
    assert "only 11.69 GB of it were free before the weights" in found.failure.cause
    assert f"GPU memory was held at launch by pid {holder}" in found.failure.hint
    assert "Please try to increase --mem-fraction-static" in found.failure.lines[-1]


async def test_the_one_line_below_27_kb_of_usage_is_the_cause(to_host: HostLink, tmp_path: Path) -> None:
    desk = desk_of(to_host, tmp_path, "unknown-flag")
    run = await server.start(desk)
    found = await died(desk, run)
    assert Path(run.log).stat().st_size > 27_000 and found.exit_status == 2
    assert found.failure is not None
    cause = "unknown argument: --mem-fraction-statik 0.8 (did you mean --mem-fraction-static?)"
    assert found.failure.cause == cause
    assert list(found.failure.lines) == ["sglang serve: error: unrecognized arguments: --mem-fraction-statik 0.8"]
    records = [record async for record in logs.past(desk, found)]
    assert records[-1].kind is LogKind.FAILURE and len(records) < 10


async def test_gauges_of_a_load_that_is_over_are_not_shown_as_busy(to_host: HostLink, tmp_path: Path) -> None:
    """18 running and 9008 tok/s for 20 s on an idle server."""
    scrape = re.split(r"^# ---- scrape at .*\n", gzip.decompress(SCRAPES.read_bytes()).decode(), flags=re.M)[1]
    assert re.search(r"^sglang:num_running_reqs\{.*\} 18\.0$", scrape, re.M)
    desk = desk_of(to_host, tmp_path, "retract", metrics=scrape)
    run = await server.start(desk)
    ready = await server.wait_ready(desk, run, deadline_s=PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        while await running.answers(desk, ready) != readiness.OK:
            await asyncio.sleep(0.05)  # its log says that it is ready a moment before
    watching = asyncio.create_task(watch.watch_throughput(desk))
    seen = []
    async with asyncio.timeout(PATIENCE_S):
        async for snapshot in desk.store.changes():
            sample = snapshot.throughput
            if sample is not None and sample.source and sample not in seen:
                seen.append(sample)
            if len(seen) == 3:
                break
    watching.cancel()
    assert {(s.source, s.running, s.output_tok_s, s.idle, s.stale) for s in seen} == {
        ("/metrics", None, None, True, True)
    }
    assert await server.requests_in_flight(desk, ready) == 0
    await server.stop(desk, ready, grace_s=0.2)

"""A server that ends by itself, or by another's hand: whoever looks meanwhile reads ready, stopping or exited."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.domain.profile import EngineSection, LaunchSection, Profile
from console.domain.run import Run, RunPhase
from console.operations import server
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.ssh_servers import free_port

SERVER = """
import http.server, os, signal, sys, threading, time

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format, *values):
        pass

port, closed, lasts_s, status = int(sys.argv[2]), sys.argv[4], float(sys.argv[6]), int(sys.argv[8])
serving = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answers)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=serving.serve_forever, daemon=True).start()
signal.sigwait({signal.SIGTERM})
serving.shutdown()
serving.server_close()
open(closed, "w").close()
time.sleep(lasts_s)
os._exit(status)
"""
"""Answers until it is told to end; closes its port, and is gone a while later, without a word."""

LIVED = {RunPhase.READY, RunPhase.STOPPING, RunPhase.EXITED}


@pytest.fixture
async def desks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[list[Desk]]:
    """Two consoles at the host of such a server, which lasts on for so long; what is left of it is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    args = {"closed": str(tmp_path / "closed"), "lasts": str(request.param), "status": "0"}
    port = free_port()
    command = (sys.executable, str(script), "--port", str(port))
    launch = LaunchSection(port=port, args=args)
    profile = Profile(
        "quiet", str(tmp_path / "quiet.toml"), engine=EngineSection("openai", command=command), launch=launch
    )
    found: list[Desk] = []
    for _ in range(2):
        link = HostLink(LocalTransport())
        await link.connect()
        found.append(Desk(link, profile=profile))
    yield found
    for desk in found:
        await desk.link.close()
    for file in tmp_path.rglob("tokwatt/runs/*/pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(file.read_text().split()[2]), signal.SIGKILL)


async def launched(desk: Desk) -> Run:
    return await server.wait_ready(desk, await server.start(desk), deadline_s=60)


async def closed(folder: Path) -> None:
    async with asyncio.timeout(20):
        while not (folder / "closed").exists():
            await asyncio.sleep(0.01)


async def shown(desk: Desk, phase: RunPhase) -> Run:
    async with asyncio.timeout(20):
        async for snapshot in desk.store.changes():
            if snapshot.run is not None and snapshot.run.phase is phase:
                return snapshot.run
    raise AssertionError(phase)


@pytest.mark.parametrize("desks", [0.6], indirect=True)
async def test_one_that_has_closed_its_port_is_not_degraded_but_about_to_be_gone(
    desks: list[Desk], tmp_path: Path
) -> None:
    ours, theirs = desks
    run = await launched(ours)
    seen: list[Run] = []
    watching = asyncio.create_task(server.watch_run(theirs))
    await shown(theirs, RunPhase.READY)
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGTERM)
    await closed(tmp_path)
    found = await server.status(ours)
    assert found is not None and (found.phase, found.exit_status, found.failure) == (RunPhase.EXITED, 0, None)
    async with asyncio.timeout(20):
        async for snapshot in theirs.store.changes():
            if snapshot.run is not None:
                seen.append(snapshot.run)
            if seen and seen[-1].phase is RunPhase.EXITED:
                break
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert {each.phase for each in seen} <= LIVED


@pytest.mark.parametrize("desks", [600], indirect=True)
async def test_one_that_has_closed_its_port_for_good_is_degraded_for_everybody(
    desks: list[Desk], tmp_path: Path
) -> None:
    ours, theirs = desks
    run = await launched(ours)
    watching = asyncio.create_task(server.watch_run(theirs))
    await shown(theirs, RunPhase.READY)
    assert run.process is not None and run.ready_at is not None
    os.kill(run.process.pid, signal.SIGTERM)
    await closed(tmp_path)
    found = await server.status(ours)
    assert found is not None and found.phase is RunPhase.DEGRADED
    assert found.reason == "its port refuses connections, its process lives"
    assert found.ready_at == pytest.approx(run.ready_at, abs=0.01), "known from when it was ready, whoever looks"
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    again = asyncio.create_task(server.watch_run(theirs))
    assert (await shown(theirs, RunPhase.DEGRADED)).id == run.id
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)

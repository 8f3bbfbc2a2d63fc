"""Servers that others started, on a real host: found, looked at, adopted, stopped by their typed pid, and no other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.domain.activity import Outcome
from console.domain.run import Run, RunPhase
from console.domain.server import Role
from console.errors import AlreadySoError, ReadOnlyError, RefusedError, UsageError
from console.operations import foreign, logs, server, server_words, servers, watching
from console.operations.desk import Desk
from tests.local import desk as desk
from tests.local import ssh_desk as ssh_desk
from tests.ssh_servers import free_port

FAKE = Path(__file__).parents[1] / "engines" / "fake"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())


class Stranger:
    """A server that somebody started with its output redirected, and a bystander in the same session."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.log = folder / "their.log"
        self.port = free_port()
        flags = ["--model-path", "/models/their-model", "--tp-size", "2", "--port", str(self.port), *more]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sglang.launch_server", *flags], cwd=FAKE, stdout=out, stderr=out
            )
        self.bystander = subprocess.Popen(["sleep", "600"])

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    async def ready(self) -> None:
        """Return when its log says that it is."""
        async with asyncio.timeout(60):
            while b"ready to roll" not in self.log.read_bytes():
                assert self.process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.02)

    def end(self) -> None:
        """End both, and what is left of the server."""
        for pid in _below(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for each in (self.process, self.bystander):
            each.kill()
            each.wait()


def _below(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    found = Stranger(tmp_path)
    yield found
    found.end()


async def test_a_stranger_is_found_looked_at_adopted_and_then_stopped_as_ours(
    ssh_desk: Desk, stranger: Stranger
) -> None:
    desk = ssh_desk
    await stranger.ready()
    [found] = [each for each in await servers.found(desk) if each.process.pid == stranger.pid]
    assert (found.role, found.port, found.model, found.readiness) == (
        Role.SERVER,
        stranger.port,
        "/models/their-model",
        "ok",
    )
    assert (found.log, found.ours, len(found.members)) == (str(stranger.log), False, 3)
    run = await foreign.attach(desk, stranger.pid)
    assert (run.id, run.adopted, run.phase, run.log) == ("", False, RunPhase.READY, str(stranger.log))
    assert [rung.name for rung in run.ladder][-1] == "ready"
    assert desk.store.snapshot.run == run
    assert run.loaded.startswith(f"{FAKE / 'sglang'} unchanged since before it started (")
    assert (await server.resolved_arguments(desk, run))["tp_size"] == 2
    asked = servers.asked_for(run.argv, run.engine)
    assert (asked.launch.port, asked.launch.args["tp-size"]) == (stranger.port, 2)
    async with asyncio.timeout(20):
        async for records in logs.follow(desk, run):
            if any("ready to roll" in record.raw for record in records):
                break
    with pytest.raises(RefusedError, match="was not started by tokwatt"):
        await server.stop(desk, run)
    ours = await foreign.adopt(desk, stranger.pid)
    assert (ours.adopted, ours.launched, ours.phase, ours.log) == (True, False, RunPhase.READY, str(stranger.log))
    assert (ours.hashes, ours.patches_on, ours.loaded) == ((), (), run.loaded)
    with pytest.raises(AlreadySoError, match=f"is run {ours.id}"):
        await foreign.adopt(desk, stranger.pid)
    [known] = [each for each in await servers.found(desk, ask=False) if each.process.pid == stranger.pid]
    assert (known.ours, known.run) == (True, ours.id)
    stopped = await server.stop(desk, await server.find_run(desk, ours.id), grace_s=10)
    assert stopped.phase is RunPhase.EXITED
    assert stranger.process.wait(10) != 0 and stranger.bystander.poll() is None
    assert stranger.log.exists()


async def test_a_stranger_is_stopped_only_by_its_typed_pid(desk: Desk, stranger: Stranger) -> None:
    await stranger.ready()
    said: list[str] = []
    desk.say = said.append
    code = f"import socket, time; s = socket.create_connection(('127.0.0.1', {stranger.port})); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stdout.readline()
        at_stake = await foreign.stake(desk, stranger.pid)
        client.kill()
    [peer] = at_stake.others
    assert (peer.pid, peer.port) == (client.pid, stranger.port)
    lines = server_words.stake_lines(at_stake)
    assert any(line.startswith("owner ") and "not ours" in line for line in lines)
    assert any("sglang.launch_server" in line and line.startswith("command") for line in lines)
    assert any("4 requests in flight · ready again in about" in line for line in lines)
    for typed in ("", "yes", str(stranger.pid + 1), str(stranger.bystander.pid)):
        with pytest.raises(RefusedError, match="is not stopped"):
            await foreign.stop(desk, at_stake, typed)
    desk.readonly = True
    with pytest.raises(ReadOnlyError):
        await foreign.stop(desk, at_stake, str(stranger.pid))
    desk.readonly = False
    assert stranger.process.poll() is None
    ended = await foreign.stop(desk, at_stake, str(stranger.pid), grace_s=10)
    assert ended.phase is RunPhase.EXITED and stranger.process.wait(10) != 0
    assert any(text.startswith(f"every process gone · port {stranger.port} free") for text in said)
    assert stranger.bystander.poll() is None
    assert desk.store.snapshot.activities[-1].outcome is Outcome.DONE
    with pytest.raises(UsageError, match="no process has pid"):
        await foreign.stake(desk, stranger.pid)


async def test_what_is_no_server_is_named_and_left_alone(desk: Desk, stranger: Stranger) -> None:
    await stranger.ready()
    with pytest.raises(RefusedError, match="is no inference server: sleep 600"):
        await foreign.stake(desk, stranger.bystander.pid)
    worker = _below(stranger.pid)[0]
    with pytest.raises(RefusedError, match=f"belongs to the sglang server of pid {stranger.pid}"):
        await foreign.stake(desk, worker)


async def test_orphans_of_a_killed_launcher_are_found_and_ended_together(desk: Desk, tmp_path: Path) -> None:
    """G01: workers whose launcher got SIGKILL; others of the same session stay."""
    code = f"import os, sys; os.execv({sys.executable!r}, ['sglang::' + sys.argv[1], '-c', 'import time; time.sleep(600)'])"
    starter = tmp_path / "starter.py"
    starter.write_text(code)
    script = (
        f"for n in scheduler_TP0 scheduler_TP1 detokenizer; do {sys.executable} {starter} $n & done; sleep 600 & wait"
    )
    launcher = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    try:
        async with asyncio.timeout(20):
            while sum(b"sglang::" in _cmdline(pid) for pid in _below(launcher.pid)) < 3:
                await asyncio.sleep(0.02)
        mine = set(_below(launcher.pid))
        bystander = next(pid for pid in mine if _cmdline(pid).startswith(b"sleep"))
        [embedded] = [each for each in await servers.found(desk) if each.process.pid in mine]
        assert embedded.role is Role.EMBEDDED
        with pytest.raises(RefusedError, match="a part of another program"):
            await foreign.stop(desk, await foreign.stake(desk, embedded.process.pid), str(embedded.process.pid))
        launcher.kill()
        launcher.wait()
        [left] = [each for each in await servers.found(desk) if each.process.pid in mine]
        assert (left.role, {one.pid for one in left.members}) == (Role.LEFT_OVER, mine - {bystander})
        with pytest.raises(RefusedError, match="serves nobody"):
            await foreign.adopt(desk, left.process.pid)
        at_stake = await foreign.stake(desk, max(one.pid for one in left.members))
        await foreign.stop(desk, at_stake, str(left.process.pid), grace_s=5)
        assert not any(_cmdline(one.pid) for one in left.members)
        assert _cmdline(bystander)
    finally:
        for pid in _session(launcher.pid):
            os.kill(pid, signal.SIGKILL)


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _session(session: int) -> list[int]:
    found = []
    for text in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{text}/stat").read_text().rpartition(") ")[2].split()[3] == str(session):
                found.append(int(text))
    return found


async def test_the_cockpit_keeps_an_attached_stranger_until_it_is_gone(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stranger = Stranger(tmp_path, "--gate", str(gate))
    watcher = None
    try:
        async with asyncio.timeout(30):
            while b"max_total_num_tokens" not in stranger.log.read_bytes():
                await asyncio.sleep(0.02)
        run = await foreign.attach(desk, stranger.pid)
        assert run.phase is RunPhase.STARTING
        watcher = asyncio.create_task(watching.watch_run(desk))
        gate.touch()
        assert (await _until(desk, RunPhase.READY)).process == run.process
        stranger.process.kill()
        stranger.process.wait()
        ended = await _until(desk, RunPhase.LOST)
        assert (ended.process, ended.adopted) == (run.process, False)
    finally:
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        stranger.end()


async def _until(desk: Desk, phase: RunPhase) -> Run:
    async with asyncio.timeout(40):
        async for snapshot in desk.store.changes():
            if snapshot.run is not None and snapshot.run.phase is phase:
                return snapshot.run
    raise AssertionError


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("/e/bin/python3 /e/bin/llama-server --model /m/x.gguf", "python3 llama-server --model"),
        ("/e/bin/python -m sglang.launch_server --model-path /m", "python -m sglang.launch_server"),
        ("sglang::scheduler_TP0", "sglang::scheduler_TP0"),
    ],
)
def test_a_process_is_named_by_its_program_and_what_that_runs(title: str, told: str) -> None:
    assert server_words.short(title) == told

"""Two consoles at one host at the same moment: one of them wins, the other says what happened, nobody is hit twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.domain.profile import EngineSection, LaunchSection, Profile
from console.domain.run import LIVING, ProcessId, Run, RunPhase
from console.domain.server import HostServer, Role
from console.errors import AlreadySoError, ConsoleError, RefusedError, RemoteError
from console.operations import fitness, foreign, server, stopping, units
from console.operations.desk import Desk
from console.operations.server_words import Stake
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from tests.conftest import require_sshd
from tests.ssh_servers import OpenSshServer, free_port, server_of

FAKE = Path(__file__).parents[1] / "engines" / "fake"

pytestmark = pytest.mark.sshd


class Console(Desk):
    """A console of somebody."""

    name = ""
    said: list[str]

    @property
    def operator(self) -> str:
        """Its login."""
        return self.name


async def console_of(server: Any, profile: Profile | None, name: str) -> Console:
    link = HostLink(SshTransport(server.target))
    await link.connect()
    found = Console(link, profile=profile)
    found.name, found.said = name, []
    found.say = found.said.append
    found.store.update(host=link.host, facts=link.facts, profile=profile)
    return found


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())
    launch = LaunchSection(port=free_port(), workdir=str(FAKE), args={"model-path": str(tmp_path), "tp-size": 2})
    return Profile("fake", str(tmp_path / "fake.toml"), engine=EngineSection(python=sys.executable), launch=launch)


@pytest.fixture
async def sshd(tmp_path: Path) -> AsyncIterator[OpenSshServer]:
    require_sshd()
    async with server_of("sshd", tmp_path / "ssh") as found:
        assert isinstance(found, OpenSshServer)
        yield found
    for file in tmp_path.rglob("tokwatt/runs/*/pid"):
        if session := int(file.read_text().split()[2]):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)


@pytest.fixture
async def both(sshd: OpenSshServer, profile: Profile) -> AsyncIterator[tuple[Console, Console]]:
    """Two consoles at the same host with the same profile."""
    ada, bob = [await console_of(sshd, profile, name) for name in ("ada", "bob")]
    yield ada, bob
    await ada.link.close()
    await bob.link.close()


async def outcomes(*steps: Any) -> tuple[list[Any], list[ConsoleError]]:
    """Do several things at once; return what came back and what was raised."""
    async with asyncio.timeout(120):
        done = await asyncio.gather(*steps, return_exceptions=True)
    failed = [each for each in done if isinstance(each, BaseException)]
    assert all(isinstance(each, ConsoleError) for each in failed), failed
    return [each for each in done if not isinstance(each, BaseException)], [
        each for each in failed if isinstance(each, ConsoleError)
    ]


async def started(desk: Console) -> Run:
    return await server.wait_ready(desk, await server.start(desk), deadline_s=60)


async def living(desk: Desk) -> list[Run]:
    return [run for run in await server.all_runs(desk) if run.phase in LIVING]


async def test_of_two_starts_one_launches(both: tuple[Console, Console]) -> None:
    ada, bob = both
    [run], [lost] = await outcomes(server.start(ada), server.start(bob))
    assert isinstance(lost, AlreadySoError) and run.id in lost.title
    assert [one.id for one in await server.all_runs(ada)] == [run.id]
    await server.stop(ada, grace_s=5)


async def test_a_run_that_came_during_the_preflight_keeps_its_port(
    both: tuple[Console, Console], profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = both
    looked, go_on = asyncio.Event(), asyncio.Event()
    plain = fitness.looked

    async def slowly(desk: Desk, profile: Profile, *, force: bool = False) -> Any:
        found = await plain(desk, profile, force=force)
        if desk is bob:
            looked.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(fitness, "looked", slowly)
    for name, error, words in (
        ("fake", AlreadySoError, "of fake, launched meanwhile by ada"),
        ("other", RefusedError, f"port {profile.launch.port} is taken by run"),
    ):
        bob.profile = replace(profile, name=name)
        looked.clear()
        go_on.clear()
        waiting = asyncio.create_task(server.start(bob))
        await looked.wait()
        run = await server.start(ada)
        go_on.set()
        with pytest.raises(error, match=words):
            await waiting
        assert [one.id for one in await living(ada)] == [run.id]
        await server.stop(ada, grace_s=5)


async def test_a_stop_during_the_preflight_of_a_restart(
    both: tuple[Console, Console], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = both
    first = await started(ada)
    looked, go_on = asyncio.Event(), asyncio.Event()
    plain = fitness.looked

    async def slowly(desk: Desk, profile: Profile, *, force: bool = False) -> Any:
        found = await plain(desk, profile, force=force)
        looked.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(fitness, "looked", slowly)
    waiting = asyncio.create_task(server.restart(bob, grace_s=5))
    await looked.wait()
    await server.stop(ada, grace_s=5)
    go_on.set()
    second = await waiting
    assert second.id != first.id and [one.id for one in await living(ada)] == [second.id]
    await server.stop(ada, second, grace_s=5)


async def test_of_two_stops_one_stops(both: tuple[Console, Console]) -> None:
    ada, bob = both
    run = await started(ada)
    [ended], [lost] = await outcomes(server.stop(ada, grace_s=5), server.stop(bob, await server.find_run(bob, run.id)))
    assert ended.phase is RunPhase.EXITED
    assert isinstance(lost, AlreadySoError) and f"run {run.id} has ended already" in lost.title
    winner, other = (ada, bob) if any(text.startswith("SIGTERM") for text in ada.said) else (bob, ada)
    assert lost.detail == f"stopped by {winner.name}"
    assert not any(text.startswith(("SIG", "abort")) for text in other.said)
    shown = other.store.snapshot.run
    assert shown is not None and shown.phase is RunPhase.EXITED


async def test_who_waits_for_a_start_is_told_who_stopped_it(
    both: tuple[Console, Console], profile: Profile, tmp_path: Path
) -> None:
    ada, bob = both
    gate = {**profile.launch.args, "gate": str(tmp_path / "never")}
    bob.profile = replace(profile, launch=replace(profile.launch, args=gate))
    run = await server.start(bob)
    waiting = asyncio.create_task(server.wait_ready(bob, run, deadline_s=60))
    await server.stop(ada, await server.find_run(ada, run.id), grace_s=0.2)
    with pytest.raises(ConsoleError, match=f"run {run.id} was stopped before it was ready") as caught:
        await waiting
    assert caught.value.detail.endswith("stopped by ada")
    assert (await server.find_run(bob, run.id)).stopped_by == "ada"


async def test_of_two_restarts_one_launches(both: tuple[Console, Console]) -> None:
    ada, bob = both
    first = await started(ada)
    [run], [lost] = await outcomes(server.restart(ada, grace_s=5), server.restart(bob, grace_s=5))
    assert isinstance(lost, AlreadySoError | RefusedError), lost
    assert run.id != first.id and [one.id for one in await living(ada)] == [run.id]
    with pytest.raises(RefusedError, match=f"run {run.id} of {run.operator} is there by now"):
        await server.restart(bob, agreed=first.key)  # he was shown the first
    with pytest.raises(AlreadySoError, match=f"run {first.id} has ended already"):
        await server.stop(bob, first)
    assert [one.id for one in await living(bob)] == [run.id]
    await server.stop(ada, run, grace_s=5)


async def test_a_stop_that_was_left_halfway_is_gone_on_with(both: tuple[Console, Console]) -> None:
    ada, bob = both
    ada.profile = bob.profile = replace(
        ada.must_profile(), launch=replace(ada.must_profile().launch, args={"model-path": "m", "mode": "stubborn"})
    )
    run = await started(ada)
    halfway = asyncio.create_task(server.stop(ada, grace_s=600))
    async with asyncio.timeout(30):
        while not any(text.startswith("SIGTERM") for text in ada.said):
            await asyncio.sleep(0.02)
    with pytest.raises(RefusedError, match=f"run {run.id} of fake is being stopped"):
        await server.start(bob)
    halfway.cancel()
    await asyncio.gather(halfway, return_exceptions=True)
    ended = await server.stop(bob, await server.find_run(bob, run.id), grace_s=0.5)
    assert (ended.phase, ended.exit_status) == (RunPhase.EXITED, 137)
    assert not any("stops it already" in text for text in bob.said), "she had given up, and said so"


async def test_a_console_that_died_while_it_stopped_is_waited_for_and_no_longer(both: tuple[Console, Console]) -> None:
    ada, bob = both
    run = await started(ada)
    note = {"folder": run.folder, "operator": "ada", "token": "x", "grace_s": 1.0 - stopping.OTHERS_S}
    await ada.link.call("note_stop", note)  # and no more is heard of her
    ended = await server.stop(bob, await server.find_run(bob, run.id), grace_s=5)
    assert ended.phase is RunPhase.EXITED
    assert bob.said[0].startswith("ada stops it already: waiting for") and "it lives on all the same" in bob.said
    assert json.loads((Path(run.folder) / "stop").read_text())["operator"] == "bob"


async def test_a_stop_that_comes_too_late_leaves_the_end_as_it_was(both: tuple[Console, Console]) -> None:
    ada, bob = both
    run = await started(ada)
    assert run.process is not None
    os.killpg(run.process.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        while (await server.find_run(ada, run.id)).phase is not RunPhase.FAILED:
            await asyncio.sleep(0.05)  # a process lives on for a moment after it was killed
    with pytest.raises(AlreadySoError, match=f"run {run.id} has ended already"):
        await server.stop(bob, run)  # as he saw it last: it lived
    found = await server.find_run(bob, run.id)
    assert found.phase is RunPhase.FAILED and not (Path(run.folder) / "stop").exists()


@pytest.fixture
async def stranger(profile: Profile, tmp_path: Path) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A server that somebody started by hand."""
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", "m", "--port", str(profile.launch.port)]
    log = tmp_path / "their.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, cwd=FAKE, stdout=out, stderr=out)
    async with asyncio.timeout(60):
        while b"ready to roll" not in log.read_bytes():
            assert process.poll() is None
            await asyncio.sleep(0.02)
    yield process
    for pid in _children(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _children(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


async def test_of_two_adoptions_one_makes_a_run(
    both: tuple[Console, Console], stranger: subprocess.Popen[bytes]
) -> None:
    ada, bob = both
    [run], [lost] = await outcomes(foreign.adopt(ada, stranger.pid), foreign.adopt(bob, stranger.pid))
    assert isinstance(lost, AlreadySoError) and str(stranger.pid) in lost.title
    assert [one.id for one in await server.all_runs(bob)] == [run.id]


async def test_a_strangers_server_is_stopped_by_one_console(
    both: tuple[Console, Console], stranger: subprocess.Popen[bytes]
) -> None:
    ada, bob = both
    seen = [await foreign.stake(desk, stranger.pid) for desk in both]
    ended = await foreign.stop(ada, seen[0], str(stranger.pid), grace_s=5)
    assert ended.phase is RunPhase.EXITED and stranger.wait(10) != 0
    with pytest.raises(AlreadySoError, match=f"the server of pid {stranger.pid} is gone already; nothing was stopped"):
        await foreign.stop(bob, seen[1], str(stranger.pid), grace_s=5)


async def test_a_server_that_was_adopted_while_its_pid_was_typed_ends_as_that_run(
    both: tuple[Console, Console], stranger: subprocess.Popen[bytes]
) -> None:
    ada, bob = both
    seen = await foreign.stake(bob, stranger.pid)
    run = await foreign.adopt(ada, stranger.pid)
    await foreign.stop(bob, seen, str(stranger.pid), grace_s=5)
    ended = await server.find_run(ada, run.id)
    assert (ended.phase, ended.stopped_by) == (RunPhase.EXITED, "bob")


async def test_a_run_that_two_tokwatts_know_is_stopped_by_its_owner(
    sshd: OpenSshServer, profile: Profile, tmp_path: Path
) -> None:
    """One login launched it, another state folder adopted it: each has its own run of one process."""
    async with server_of("sshd", tmp_path / "second") as other:
        ada, bob = await console_of(sshd, profile, "ada"), await console_of(other, None, "bob")
        try:
            for at_once in (False, True):
                run = await started(ada)
                assert run.process is not None
                adopted = await foreign.adopt(bob, run.process.pid)
                assert adopted.id and not adopted.launched
                if at_once:
                    done, lost = await outcomes(server.stop(ada, grace_s=5), server.stop(bob, adopted, grace_s=5))
                    assert done and all(isinstance(each, AlreadySoError) for each in lost)
                else:
                    await server.stop(ada, grace_s=5)
                    with pytest.raises(AlreadySoError, match=f"run {adopted.id} has ended already"):
                        await server.stop(bob, adopted)
                    now = await server.find_run(bob, adopted.id)
                    assert (now.phase, now.stopped_by) == (RunPhase.EXITED, ""), "its log says that it was asked to end"
                assert not await living(ada) and not await living(bob)
        finally:
            await ada.link.close()
            await bob.link.close()


async def test_whoever_got_the_number_of_a_server_is_named_and_left_alone(both: tuple[Console, Console]) -> None:
    """The pid was typed into a question that stood for an hour, and is another's by now."""
    ada, _ = both
    with subprocess.Popen(["sleep", "600"]) as bystander:
        try:
            gone = HostServer("sglang", Role.SERVER, ProcessId(bystander.pid, 1, 1), "root", port=1, may_signal=True)
            with pytest.raises(AlreadySoError) as caught:
                await foreign.stop(ada, Stake(gone), str(bystander.pid))
            assert caught.value.detail.startswith("sleep 600 of ") and "has its number now" in caught.value.detail
            assert bystander.poll() is None
        finally:
            bystander.kill()


class Scripted:
    """A link whose host answers as a test says."""

    def __init__(self, **replies: Any) -> None:
        self.replies = replies
        self.called: list[str] = []

    async def call(self, name: str, args: Mapping[str, Any] | None = None, *_: Any, **__: Any) -> Any:
        self.called.append(name)
        reply = self.replies[name]
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        if isinstance(reply, Exception):
            raise reply
        return SimpleNamespace(result=reply, body=b"")


def _state(**changes: Any) -> dict[str, Any]:
    one = {"pid": 7, "start_ticks": 70, "title": "python", "user": "root"}
    state = {"pid": 7, "start_ticks": 70, "session": 7, "alive": True, "processes": [one], "unit": None, "stop": None}
    return {**state, "exit": None, "record": {}, "held_mib": None, "log_mtime": 1.0, "time": 2.0, **changes}


def _scripted(**replies: Any) -> tuple[stopping._Stop, Scripted, list[str]]:
    told: list[str] = []
    answers: dict[str, Any] = {
        "gpu_memory": {"memory_mib": None},
        "gpu_processes": {"gpu_processes": None},
        "ports": {"listeners": []},
        "processes": {"processes": []},
        "note_stop": _state(),
    }
    answers.update(replies)
    link = Scripted(**answers)
    run = Run(
        id="r", profile="p", engine="sglang", folder="/r", log="", port=1, started_at=0.0, process=ProcessId(7, 70, 7)
    )
    desk: Any = SimpleNamespace(link=link, operator="ada", claim={"console": "a", "token": ""})
    stop = stopping._Stop(desk, run, told.append)
    answers["note_stop"]["stop"] = {"token": stop._token}
    return stop, link, told


async def test_a_number_that_changed_hands_between_look_and_signal_is_left_alone() -> None:
    gone = _state(alive=False, processes=[], exit=0)
    changed = RemoteError("pid 7 is another process by now", kind="changed")
    stop, link, told = _scripted(signal=changed, run_state=gone)
    with pytest.raises(AlreadySoError, match="run r has ended already"):
        await stop.end(1.0)
    assert "pid 7 is another process by now, and was left alone" in told
    assert "signal_session" not in link.called


async def test_a_job_of_another_name_refuses_the_stop() -> None:
    changed = RemoteError("job 4242 is named theirs, not tokwatt-r", kind="changed")
    unit = {"kind": "slurm", "id": "4242", "name": "tokwatt-r", "state": "RUNNING", "alive": True}
    stop, link, _ = _scripted(note_stop=_state(unit=unit), signal_unit=changed)
    stop._run = replace(stop._run, unit=units.unit_of(_state(unit=unit)))
    with pytest.raises(RefusedError, match="run r is not stopped: job 4242 is named theirs"):
        await stop.end(1.0)
    assert not {"signal", "signal_session"} & set(link.called)

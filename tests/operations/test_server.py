"""A server's life on a real host: start, ready, attach, stop, and every way to die."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.domain.activity import Outcome
from console.domain.profile import EngineSection, LaunchSection, Profile, Secret
from console.domain.run import LogKind, LogRecord, Run, RunPhase
from console.errors import (
    AlreadySoError,
    ConsoleError,
    DeadlineError,
    LinkLostError,
    ReadOnlyError,
    RefusedError,
    UsageError,
)
from console.operations import launching, logs, server
from console.operations.desk import Desk
from console.remote.client import Reply
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.ssh_servers import SshServer, free_port

FAKE = Path(__file__).parents[1] / "engines" / "fake"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept below `tmp_path`, no patches are known."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A profile of the pretend engine."""
    launch = LaunchSection(
        port=free_port(),
        workdir=str(FAKE),
        args={"model-path": str(tmp_path), "tp-size": 2},
        env={"HF_TOKEN": Secret("env")},
    )
    return Profile("fake", str(tmp_path / "fake.toml"), engine=EngineSection(python=sys.executable), launch=launch)


def with_args(profile: Profile, **args: Any) -> Profile:
    return replace(profile, launch=replace(profile.launch, args={**profile.launch.args, **args}))


async def desk_of(link: HostLink, profile: Profile | None, said: list[str] | None = None) -> Desk:
    desk = Desk(link, profile=profile, say=(said if said is not None else []).append)
    desk.store.update(host=link.host, facts=link.facts, profile=profile)
    return desk


@contextlib.asynccontextmanager
async def swept(tmp_path: Path) -> AsyncIterator[None]:
    """End, by the numbers in the run folders, what a failing test would leave."""
    try:
        yield
    finally:
        for file in tmp_path.rglob("tokwatt/runs/*/pid"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(file.read_text().split()[2]), signal.SIGKILL)


@pytest.fixture(autouse=True)
async def no_leftovers(tmp_path: Path) -> AsyncIterator[None]:
    async with swept(tmp_path):
        yield


async def test_from_start_to_stop(local_link: HostLink, profile: Profile) -> None:
    said: list[str] = []
    desk = await desk_of(local_link, profile, said)
    run = await server.start(desk)
    assert (run.phase, run.profile, set(run.versions)) == (RunPhase.STARTING, "fake", {"sglang"})
    assert run.argv[-2:] == ("--port", str(profile.launch.port))
    ready = await server.wait_ready(desk, run, deadline_s=60)
    assert ready.phase is RunPhase.READY and ready.ready_at is not None
    assert [rung.name for rung in ready.ladder][-1] == "ready"
    assert "token is set" in Path(run.log).read_text()
    assert (await server.blast_radius(desk)).startswith("4 requests in flight · ready again in about")
    assert await server.resolved_arguments(desk, ready) == {
        "model_path": profile.launch.args["model-path"],
        "tp_size": 2,
    }
    stopped = await server.stop(desk, grace_s=10)
    assert (stopped.phase, stopped.exit_status, stopped.failure) == (RunPhase.EXITED, 137, None)
    assert any(text.startswith("every process gone · port") for text in said)
    assert [a.outcome for a in desk.store.snapshot.activities] == [Outcome.DONE, Outcome.DONE]
    assert (await server.status(desk)) is not None
    with pytest.raises(AlreadySoError, match="has ended already"):
        await server.stop(desk)


@pytest.mark.parametrize("fault", [LinkLostError("h: the connection is lost"), DeadlineError("h: no answer to launch")])
async def test_a_link_lost_in_a_launch_leaves_it_open(
    local_link: HostLink, profile: Profile, monkeypatch: pytest.MonkeyPatch, fault: ConsoleError
) -> None:
    desk, call = await desk_of(local_link, profile), local_link.call

    async def cut(op: str, *args: Any, **more: Any) -> Reply:
        answer = await call(op, *args, **more)
        if op == "launch":
            raise fault
        return answer

    monkeypatch.setattr(local_link, "call", cut)
    with pytest.raises(type(fault), match=f"launch: {fault.title}") as caught:
        await server.start(desk)
    assert caught.value.exit_code == fault.exit_code
    assert "whether it was launched is not known yet" in caught.value.one_line()
    assert "`tokwatt serve status` tells" in caught.value.hint
    run = await server.status(desk)
    assert run is not None and run.phase is RunPhase.STARTING, "it had gone through"
    await server.stop(desk, run, grace_s=5)


async def test_the_next_console_attaches(local_link: HostLink, profile: Profile) -> None:
    run = await server.start(await desk_of(local_link, profile))
    await server.wait_ready(await desk_of(local_link, profile), run, deadline_s=60)
    other = HostLink(LocalTransport())
    await other.connect()
    desk = await desk_of(other, profile)
    found = await server.attach(desk)
    assert found is not None and (found.id, found.phase, found.process) == (run.id, RunPhase.READY, run.process)
    with pytest.raises(AlreadySoError, match=run.id):
        await server.start(desk)
    restarted = await server.restart(desk)
    assert restarted.id != run.id and restarted.process != run.process
    await server.stop(desk, restarted, grace_s=1)
    await other.close()


async def test_a_server_that_is_not_ours_is_only_looked_at(local_link: HostLink, profile: Profile) -> None:
    argv = [sys.executable, "-m", "sglang.launch_server", "--port", str(profile.launch.port)]
    with subprocess.Popen(argv, cwd=FAKE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stranger:
        try:
            desk = await desk_of(local_link, profile)
            async with asyncio.timeout(30):
                while (found := await server.attach(desk)) is None:
                    await asyncio.sleep(0.05)
            assert not found.adopted
            assert found.process is not None and found.process.pid == stranger.pid
            with pytest.raises(RefusedError, match="was not started by tokwatt") as caught:
                await server.stop(desk)
            assert "sglang.launch_server" in caught.value.detail
            with pytest.raises(RefusedError, match=f"port {profile.launch.port} is taken by pid {stranger.pid}"):
                await server.start(desk)
            assert stranger.poll() is None
        finally:
            stranger.terminate()


async def test_strangers_secrets_are_neither_kept_nor_shown(local_link: HostLink, profile: Profile) -> None:
    code = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print(1, flush=True); time.sleep(600)"
    argv = [sys.executable, "-c", code, str(profile.launch.port), "--api-key", "hunter3", "hunter4"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stranger:
        try:
            assert stranger.stdout is not None and stranger.stdout.readline()
            looked = await launching.look(await desk_of(local_link, profile), profile)
            [owner] = looked["listeners"]
            assert owner["pid"] == stranger.pid and "--api-key" in owner["title"]
            assert "hunter" not in json.dumps(looked)
        finally:
            stranger.kill()


async def test_our_run_of_another_profile_is_found_on_the_port(local_link: HostLink, profile: Profile) -> None:
    first = await server.start(await desk_of(local_link, profile))
    await server.wait_ready(await desk_of(local_link, profile), first, deadline_s=60)
    desk = await desk_of(local_link, replace(profile, name="another"))
    with pytest.raises(RefusedError, match=f"port {profile.launch.port} is taken by run {first.id} of fake") as caught:
        await server.start(desk)
    assert caught.value.hint == "serve restart stops it first"
    found = await server.attach(desk)
    assert found is not None and found.id == first.id and found.adopted
    second = await server.restart(desk, grace_s=5)
    assert (second.profile, second.id != first.id) == ("another", True)
    await server.stop(desk, second, grace_s=0.2)


async def test_a_run_remembers_bytes_and_proof(
    local_link: HostLink, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes and patches at launch, and the log line that proves a patch."""
    target = FAKE / "sglang" / "launch_server.py"
    edit = "[[edit]]\nfile = 'launch_server.py'\nfind = '{}'\nreplace = '{}'\n[evidence]\nlog = '{}'\n"
    files = []
    for name, find, replaced, proof in (
        ("is-on", "no such text", "def drain(", "Running FlashInfer autotune"),
        ("is-off", "def say(", "def tell(", "never printed"),
    ):
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(f"name = '{name}'\n{edit.format(find, replaced, proof)}")
    monkeypatch.setattr("console.config.paths.all_patches", lambda: tuple(files))
    desk = await desk_of(local_link, profile)
    run = await server.start(desk)
    assert run.patches_on == ("is-on",)
    assert [(entry.path, entry.sha256) for entry in run.hashes] == [
        (str(target), hashlib.sha256(target.read_bytes()).hexdigest())
    ]
    ready = await server.wait_ready(desk, run, deadline_s=60)
    assert ready.evidence == ("Running FlashInfer autotune",)
    again = await server.status(await desk_of(local_link, profile))
    assert again is not None and (again.hashes, again.evidence) == (run.hashes, ready.evidence)
    await server.stop(desk, grace_s=5)


async def test_a_death_during_start_is_told_by_its_cause(local_link: HostLink, profile: Profile) -> None:
    desk = await desk_of(local_link, with_args(profile, mode="oom"))
    run = await server.start(desk)
    with pytest.raises(ConsoleError, match=r"failed: GPU 0 is out of memory: 5.62 GiB asked") as caught:
        await server.wait_ready(desk, run, deadline_s=60)
    assert caught.value.exit_code == 1
    assert "OutOfMemoryError" in caught.value.detail
    found = await server.status(desk)
    assert found is not None and found.phase is RunPhase.FAILED and found.exit_status == 137
    records = [record async for record in logs.past(desk, found)]
    assert records[-1].kind is LogKind.FAILURE


async def test_an_end_without_a_word_shows_the_last_lines(local_link: HostLink, profile: Profile) -> None:
    desk = await desk_of(local_link, with_args(profile, mode="exit"))
    with pytest.raises(ConsoleError, match="ended with exit status 5"):
        await server.wait_ready(desk, await server.start(desk), deadline_s=60)


async def test_a_ready_line_beside_a_taken_port_is_a_failure(
    local_link: HostLink, profile: Profile, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    desk = await desk_of(local_link, with_args(profile, gate=str(gate)))
    run = await server.start(desk)
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", profile.launch.port))
        thief.listen()
        gate.touch()
        with pytest.raises(ConsoleError, match=f"port {profile.launch.port} is taken"):
            await server.wait_ready(desk, run, deadline_s=60)
    assert b"fired up and ready" in Path(run.log).read_bytes()


async def test_a_failure_that_nothing_follows_is_seen_at_one_look(
    local_link: HostLink, profile: Profile, tmp_path: Path
) -> None:
    """Real SGLang waits two minutes for its own warm-up when a stranger has its port."""
    gate = tmp_path / "gate"
    desk = await desk_of(local_link, with_args(profile, gate=str(gate), mode="waits"))
    run = await server.start(desk)
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", profile.launch.port))
        thief.listen()
        gate.touch()
        async with asyncio.timeout(60):
            while b"Errno 98" not in Path(run.log).read_bytes():
                await asyncio.sleep(0.05)
        found = await server.status(await desk_of(local_link, profile))
    assert found is not None and found.phase is RunPhase.FAILED and found.failure is not None
    assert found.failure.cause.startswith(f"port {profile.launch.port} is taken") and found.exit_status is None
    await server.stop(desk, found, grace_s=5)


async def test_one_that_ignores_sigterm_is_killed_with_all_it_started(local_link: HostLink, profile: Profile) -> None:
    said: list[str] = []
    desk = await desk_of(local_link, with_args(profile, mode="stubborn"), said)
    run = await server.start(desk)
    await server.wait_ready(desk, run, deadline_s=60)
    stopped = await server.stop(desk, grace_s=5.5)
    assert any("draining waits for 2 requests though no client is connected" in text for text in said)
    assert stopped.exit_status == 137
    assert any(text.startswith("SIGKILL to session") and "3 processes" in text for text in said)


async def test_children_that_left_the_session_are_found_too(local_link: HostLink, profile: Profile) -> None:
    desk = await desk_of(local_link, with_args(profile, mode="strays"))
    run = await server.start(desk)
    await server.wait_ready(desk, run, deadline_s=60)
    assert run.process is not None
    seen = (await local_link.call("run_state", {"folder": run.folder})).result["processes"]
    assert len({entry["session"] for entry in seen}) == 3
    os.kill(run.process.pid, signal.SIGSTOP)  # it cannot take its children along
    await server.stop(desk, grace_s=0.5)
    left = (await local_link.call("processes", {"pids": [entry["pid"] for entry in seen]})).result["processes"]
    assert left == []


async def test_orphans_of_a_dead_launcher_are_stopped(local_link: HostLink, profile: Profile) -> None:
    """G01: the launcher was killed by somebody; its children hold the GPUs."""
    desk = await desk_of(local_link, profile)
    run = await server.start(desk)
    await server.wait_ready(desk, run, deadline_s=60)
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        while (found := await server.status(desk)) is None or found.phase is not RunPhase.FAILED:
            await asyncio.sleep(0.05)
    assert found.failure is not None and "signal 9" in found.failure.cause
    assert "2 of its processes live on" in found.failure.hint
    with pytest.raises(RefusedError, match=f"run {run.id} is not gone: 2 of its processes live on"):
        await server.start(desk)
    await server.stop(desk, grace_s=0.5)
    state = (await local_link.call("run_state", {"folder": run.folder})).result
    assert state["processes"] == []


async def test_not_ready_in_time_says_where_it_is(local_link: HostLink, profile: Profile, tmp_path: Path) -> None:
    desk = await desk_of(local_link, with_args(profile, gate=str(tmp_path / "never")))
    run = await server.start(desk)
    with pytest.raises(DeadlineError, match="is not ready after 2 s") as caught:
        await server.wait_ready(desk, run, deadline_s=2)
    assert caught.value.detail == "it is at: http"
    await server.stop(desk, run, grace_s=0.2)


async def test_a_port_belongs_to_a_run_that_does_not_listen_yet(
    local_link: HostLink, profile: Profile, tmp_path: Path
) -> None:
    said: list[str] = []
    desk = await desk_of(local_link, with_args(profile, gate=str(tmp_path / "never")), said)
    run = await server.start(desk)
    other = await desk_of(local_link, replace(profile, name="another"))
    with pytest.raises(RefusedError, match=f"port {run.port} is taken by run {run.id} of fake") as caught:
        await server.start(other)
    assert caught.value.hint == "serve restart stops it first"
    asked: list[bytes] = []

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(stranger, "127.0.0.1", run.port):
        await server.stop(desk, run, grace_s=0.2)
    assert asked == [], "the requests of another server are not ours to abort"
    assert f"no request to abort: another server has port {run.port}" in said


HOLD = """
import socket, sys
taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("held", flush=True)
sys.stdin.read()
"""


async def test_a_port_between_the_servers_processes_is_looked_at_before_a_launch(
    local_link: HostLink, profile: Profile
) -> None:
    port = free_port()
    command = [sys.executable, "-c", HOLD, str(port), "--api-key", "sk-hunter2hunter2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        asked = replace(profile.launch, args={**profile.launch.args, "nccl-port": port})
        desk = await desk_of(local_link, replace(profile, launch=asked))
        with pytest.raises(RefusedError) as caught:
            await server.start(desk)
        holder.communicate()
    assert f"port {port}, wanted for nccl-port between the server's processes, is taken by pid {holder.pid}" in str(
        caught.value
    )
    assert (
        "hunter2" not in str(caught.value) and caught.value.hint == "stop it, or change nccl-port under [launch.args]"
    )


@pytest.mark.parametrize(
    ("launch", "python", "title"),
    [
        ({"workdir": "/no/such"}, "", "launch.workdir /no/such is no folder"),
        ({}, "/no/such/python3", "engine.python /no/such/python3 does not exist"),
        ({}, "/etc/passwd", "engine.python /etc/passwd may not be executed"),
        ({"args": {"model-path": "/no/model"}}, "", "launch.args.model-path /no/model does not exist"),
        ({"env": {"NOPE": Secret("env")}}, "", "launch.env.NOPE is not in this console's environment"),
        ({"env": {"NOPE": Secret("host-env")}}, "", "launch.env: NOPE is not in the host's environment"),
    ],
)
async def test_what_the_host_does_not_have_is_found_before(
    local_link: HostLink, profile: Profile, tmp_path: Path, launch: dict[str, Any], python: str, title: str
) -> None:
    engine = replace(profile.engine, python=python or profile.engine.python)
    desk = await desk_of(local_link, replace(profile, engine=engine, launch=replace(profile.launch, **launch)))
    with pytest.raises(UsageError, match=title) as caught:
        await server.start(desk)
    assert caught.value.title.startswith(f"{profile.path}: ")
    assert not (tmp_path / "state" / "tokwatt" / "runs").exists(), "nothing was changed"
    assert desk.store.snapshot.activities[-1].outcome is Outcome.FAILED


async def test_an_interpreter_without_the_engine_starts_nothing(local_link: HostLink, profile: Profile) -> None:
    elsewhere = replace(profile, path="p.toml", launch=replace(profile.launch, workdir="/"))
    desk = await desk_of(local_link, elsewhere)
    with pytest.raises(UsageError, match=r"^p\.toml: engine\.python: .* has no package 'sglang'"):
        await server.start(desk)


async def test_readonly_starts_and_stops_nothing(local_link: HostLink, profile: Profile) -> None:
    desk = await desk_of(local_link, profile)
    desk.readonly = True
    for verb in (server.start, server.stop, server.restart):
        with pytest.raises(ReadOnlyError):
            await verb(desk)
    assert await server.status(desk) is None


async def test_watch_and_follow_survive_a_lost_connection(
    link: HostLink, ssh_server: SshServer, profile: Profile, tmp_path: Path
) -> None:
    """The console's link goes during a launch: the server is unharmed, ladder and log are whole afterwards."""
    gate = tmp_path / "gate"
    args: dict[str, Any] = {"gate": str(gate)}
    desk = await desk_of(link, with_args(profile, **args))
    run = await server.start(desk)
    got: list[LogRecord] = []

    async def follow() -> None:
        async for found in logs.follow(desk, run, from_offset=0):
            got.extend(found)

    tasks = [asyncio.create_task(server.watch_run(desk)), asyncio.create_task(follow())]
    try:
        await told(desk, run, lambda now: any(rung.name == "http" for rung in now.ladder))
        await ssh_server.drop()
        gate.touch()
        now = await told(desk, run, lambda now: now.phase is RunPhase.READY)
        assert now.ladder[0].name == "start"
        async with asyncio.timeout(30):
            while not any("fired up" in record.raw for record in got):
                await asyncio.sleep(0.05)
        whole = logs.records([Path(run.log).read_bytes()])
        assert [record.raw for record in got] == [record.raw for record in whole]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await server.stop(desk, grace_s=1)


async def told(desk: Desk, run: Run, wanted: Any) -> Run:
    """Return the run when the store shows it as wanted."""
    async with asyncio.timeout(60):
        async for snapshot in desk.store.changes():
            if snapshot.run is not None and snapshot.run.id == run.id and wanted(snapshot.run):
                return snapshot.run
    raise AssertionError

"""Launches in a container, a job or a scope: the same life as a plain process has, through the same doors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.domain.profile import (
    DOCKER_RUN,
    SLURM,
    SYSTEMD_RUN,
    DockerSection,
    EngineSection,
    LaunchSection,
    Profile,
    Secret,
    SlurmSection,
)
from console.domain.run import Run, RunPhase
from console.errors import ConsoleError, RefusedError, UsageError
from console.operations import dry_run, running, server
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from console.remote.ssh import SshTransport
from tests.conftest import require_sshd
from tests.ssh_servers import OpenSshServer, free_port
from tests.stand_ins import NAMES, put_on_path

SERVER = """\
import http.server, os, signal, sys, threading
port = int(sys.argv[sys.argv.index("--port") + 1])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status":"ok"}')
    def log_message(self, *_):
        pass
print("token of", len(os.environ.get("HF_TOKEN", "")), "signs, A is", os.environ.get("A"), flush=True)
served = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
def bye(*_):
    print("told to end", flush=True)
    if not os.environ.get("STUBBORN"):
        threading.Thread(target=served.shutdown).start()
signal.signal(signal.SIGTERM, bye)
print("main: server is listening on http://127.0.0.1:%d" % port, flush=True)
served.serve_forever()
print("ended", flush=True)
"""
TOKEN = "hunter2hunter2"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-ins keep; they are on the PATH of host `local`."""
    kept = tmp_path / "stand-ins"
    (kept / "images").mkdir(parents=True)
    (kept / "images" / "img").touch()
    put_on_path(tmp_path / "bin", *NAMES)
    (tmp_path / "server.py").write_text(SERVER)
    monkeypatch.setenv("STAND_INS", str(kept))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())
    return kept


@pytest.fixture(autouse=True)
async def swept(tmp_path: Path) -> AsyncIterator[None]:
    """End, by the numbers that were written down, what a failing test would leave."""
    yield
    for file in (*tmp_path.rglob("tokwatt/runs/*/pid"), *tmp_path.rglob("stand-ins/*/*.json")):
        text = file.read_text()
        pid = json.loads(text).get("pid") if file.suffix == ".json" else int(text.split()[2])
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.killpg(pid, signal.SIGKILL)


def profile_of(tmp_path: Path, via: str, *, name: str = "", stubborn: bool = False) -> Profile:
    env: dict[str, str | Secret] = {"HF_TOKEN": Secret("env"), "A": "x y"}
    if stubborn:
        env["STUBBORN"] = "1"
    launch = LaunchSection(
        port=free_port(),
        args={"model": "m.gguf"},
        env=env,
        via=via,
        docker=DockerSection("img", ("--network", "host", "--gpus", "all"), name),
        slurm=SlurmSection("gpu", ("--gres=gpu:1",)),
    )
    engine = EngineSection("llamacpp", command=(sys.executable, str(tmp_path / "server.py")))
    return Profile("served", str(tmp_path / "served.toml"), engine=engine, launch=launch)


def desk_of(link: HostLink, profile: Profile, said: list[str]) -> Desk:
    desk = Desk(link, profile=profile, say=said.append)
    desk.store.update(host=link.host, facts=link.facts, profile=profile)
    return desk


@pytest.fixture
async def local(place: Path) -> AsyncIterator[HostLink]:
    """This machine with the stand-ins, without SSH."""
    link = HostLink(LocalTransport())
    await link.connect()
    yield link
    await link.close()


async def ready(desk: Desk) -> Run:
    return await server.wait_ready(desk, await server.start(desk), deadline_s=60)


async def until(desk: Desk, state: str) -> Run:
    async with asyncio.timeout(30):
        while True:
            run = await server.status(desk)
            if run is not None and run.unit is not None and run.unit.state == state:
                return run
            await asyncio.sleep(0.05)


@pytest.mark.sshd
@pytest.mark.parametrize("via", [DOCKER_RUN, SLURM, SYSTEMD_RUN])
async def test_a_life_over_ssh(via: str, tmp_path: Path, place: Path) -> None:
    require_sshd()
    state = tmp_path / "host-state"
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    extra = f'SetEnv XDG_STATE_HOME={state} STAND_INS={place} "PATH={path}"\n'
    profile, said = profile_of(tmp_path, via), list[str]()
    async with OpenSshServer(tmp_path / "ssh", extra=extra) as host:
        first = HostLink(SshTransport(host.target))
        await first.connect()
        run = await ready(desk_of(first, profile, said))
        await first.close()  # the console dies
        second = HostLink(SshTransport(host.target))
        await second.connect()
        desk = desk_of(second, profile, said)
        found = await server.status(desk)
        assert found is not None and found.unit is not None
        assert (found.id, found.phase, found.unit.kind, found.unit.alive) == (run.id, RunPhase.READY, via, True)
        assert found.unit.state == {DOCKER_RUN: "running", SLURM: "RUNNING", SYSTEMD_RUN: "active"}[via]
        lists = [Path(f"/proc/{pid}/cmdline") for pid in filter(str.isdigit, os.listdir("/proc"))]
        for one in lists:
            with contextlib.suppress(OSError):
                assert TOKEN.encode() not in one.read_bytes()
        ended = await server.stop(desk, found, grace_s=20)
        await second.close()
    folder = state / "tokwatt" / "runs" / run.id
    log = (folder / "server.log").read_text()
    assert (ended.phase, ended.exit_status, (folder / "exit").read_text().split()[0]) == (RunPhase.EXITED, 0, "0")
    assert log.startswith(f"token of {len(TOKEN)} signs, A is x y\n") and log.endswith("told to end\nended\n")
    assert not any(TOKEN in file.read_text() for file in folder.iterdir())
    told = json.loads((folder / "unit").read_text())
    assert told["alive"] is False
    how = {
        DOCKER_RUN: f"docker kill --signal TERM {told['id']}",
        SLURM: "scancel --signal=TERM 1",
        SYSTEMD_RUN: f"SIGTERM to pid {run.process.pid if run.process else 0}",
    }
    assert how[via] in said
    assert said[-1].startswith("every process gone · ") and f"port {profile.launch.port} free" in said[-1]


@pytest.mark.parametrize("via", [DOCKER_RUN, SLURM, SYSTEMD_RUN])
async def test_one_that_ignores_sigterm_is_killed(via: str, tmp_path: Path, local: HostLink) -> None:
    said = list[str]()
    desk = desk_of(local, profile_of(tmp_path, via, stubborn=True), said)
    desk.store.update(run=await ready(desk))
    ends = {DOCKER_RUN: "ends container ", SLURM: "ends job 1, ", SYSTEMD_RUN: "ends scope tokwatt-"}
    async with asyncio.timeout(30):
        while ends[via] not in (cost := await server.blast_radius(desk)):
            desk.store.update(run=await server.status(desk))  # as a watcher does: a job's number comes after the launch
    assert cost.endswith("how long it took to be ready is not known"), "this engine's log has no times"
    ended = await server.stop(desk, grace_s=0.5)
    assert (ended.phase, ended.exit_status) == (RunPhase.EXITED, 137)
    words = {
        DOCKER_RUN: "docker kill --signal KILL ",
        SLURM: "scancel --signal=KILL 1",
        SYSTEMD_RUN: "systemctl --user kill",
    }
    assert any(line.startswith(words[via]) for line in said), said


def put_card(tmp_path: Path, place: Path) -> None:
    """Have `nvidia-smi` say that the first container's process holds GPU memory, by the host's number of it."""
    code = (
        "import glob, json, sys\n"
        "if any(word.startswith('--query-compute-apps') for word in sys.argv):\n"
        f"    for path in glob.glob({str(place)!r} + '/containers/*.json'):\n"
        "        print('GPU-1,', json.load(open(path))['pid'], ', python3, 4096', sep='')\n"
    )
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -c "$(cat {tmp_path}/card.py)" "$@"\n')
    (tmp_path / "card.py").write_text(code)
    program.chmod(0o755)


async def test_a_container_outlives_its_client_and_is_found(tmp_path: Path, place: Path, local: HostLink) -> None:
    put_card(tmp_path, place)
    said = list[str]()
    desk = desk_of(local, profile_of(tmp_path, DOCKER_RUN), said)
    run = await ready(desk)
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        while (left := await server.status(desk)) is None or left.phase is not RunPhase.FAILED:
            await asyncio.sleep(0.05)
    assert left.failure is not None and "live on" in left.failure.hint and left.unit is not None
    assert (left.left, left.unit.state) == (1, "running"), "no mark and no session lead to it: its runtime does"
    assert left.held_mib == 4096.0
    with pytest.raises(RefusedError, match="is not gone: 1 of its processes"):
        await server.start(desk)
    ended = await server.stop(desk, left, grace_s=20)
    assert ended.phase is RunPhase.EXITED and ended.left == 0
    assert "the launcher is gone, 1 process of this run still alive (4096 MiB)" in said
    assert f"container {left.unit.id[:12]}, " in said[-1]


async def test_a_job_in_the_queue_says_what_it_waits_for(tmp_path: Path, place: Path, local: HostLink) -> None:
    (place / "busy").touch()
    said = list[str]()
    desk = desk_of(local, profile_of(tmp_path, SLURM), said)
    looked = await dry_run.dry_run(desk)
    assert any("no node is free now (1 alloc)" in each.text for each in looked.findings)
    await server.start(desk)
    waiting = await until(desk, "PENDING")
    assert (waiting.phase, waiting.reason) == (RunPhase.STARTING, "job 1, PENDING (Resources)")
    assert waiting.stall is None
    (place / "busy").unlink()
    run = await server.wait_ready(desk, waiting, deadline_s=60)
    assert (await until(desk, "RUNNING")).unit == replace(
        run.unit or waiting.unit, state="RUNNING", reason="", node=os.uname().nodename
    )  # type: ignore[type-var]
    await server.stop(desk, grace_s=20)


async def test_a_job_in_the_queue_is_cancelled_by_its_number(tmp_path: Path, place: Path, local: HostLink) -> None:
    (place / "busy").touch()
    said = list[str]()
    desk = desk_of(local, profile_of(tmp_path, SLURM), said)
    await server.start(desk)
    ended = await server.stop(desk, await until(desk, "PENDING"), grace_s=20)
    assert (ended.phase, ended.exit_status) == (RunPhase.EXITED, 1)
    assert "scancel 1" in said and "job 1, CANCELLED" in said[-1]


async def test_a_container_name_is_had_once(tmp_path: Path, local: HostLink) -> None:
    desk = desk_of(local, profile_of(tmp_path, DOCKER_RUN, name="sgl"), [])
    run = await ready(desk)
    other = replace(profile_of(tmp_path, DOCKER_RUN, name="sgl"), name="other")
    rival = desk_of(local, other, [])
    said = r"the container name sgl is taken by container [0-9a-f]{12} of img, running"
    with pytest.raises(RefusedError, match=said) as caught:
        await server.start(rival)
    assert "docker stop sgl frees it" in caught.value.hint
    assert any("the container name sgl is taken by" in text for text in (await dry_run.dry_run(rival)).blocking)
    await server.stop(desk, run, grace_s=20)


@pytest.mark.parametrize(
    ("via", "switch", "said"),
    [
        (DOCKER_RUN, "daemon-down", "docker does not answer: Cannot connect to the Docker daemon"),
        (SLURM, "controller-down", "Slurm does not answer: sinfo: error: Unable to contact slurm controller"),
        (SYSTEMD_RUN, "offline", "this login's service manager does not answer: System has not been booted"),
    ],
)
async def test_who_does_not_answer_is_told_before(
    via: str, switch: str, said: str, tmp_path: Path, place: Path, local: HostLink
) -> None:
    (place / switch).touch()
    desk = desk_of(local, profile_of(tmp_path, via), [])
    with pytest.raises(UsageError, match=f"served.toml: launch.via {via} on local: {said}"):
        await server.start(desk)
    assert (await dry_run.dry_run(desk)).blocking[0].startswith(f"launch.via {via}: {said}")
    assert await server.all_runs(desk) == (), "no folder was made"


async def test_a_host_without_the_tool(tmp_path: Path, place: Path, local: HostLink) -> None:
    profile = profile_of(tmp_path, DOCKER_RUN)
    docker = replace(profile.launch.docker, runtime="nerdctl")
    profile = replace(profile, launch=replace(profile.launch, docker=docker))
    with pytest.raises(UsageError, match=r"launch\.via docker-run on local: there is no nerdctl"):
        await server.start(desk_of(local, profile, []))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"docker": DockerSection("other", ("--network", "host"))}, "the image other can be had nowhere"),
        ({"via": SLURM, "slurm": SlurmSection("gpu", ("--partition=nope",))},
         "Slurm gives no resources: Invalid partition name specified"),
    ],
)  # fmt: skip
async def test_why_a_launcher_gave_up(change: dict[str, object], cause: str, tmp_path: Path, local: HostLink) -> None:
    profile = profile_of(tmp_path, DOCKER_RUN)
    desk = desk_of(local, replace(profile, launch=replace(profile.launch, **change)), [])  # type: ignore[arg-type]
    run = await server.start(desk)
    with pytest.raises(ConsoleError, match=f"failed: {cause}"):
        await server.wait_ready(desk, run, deadline_s=60)
    state = (await local.call("run_state", {"folder": run.folder})).result
    assert state["unit"]["alive"] is False and not state["processes"]
    assert running.run_of(state).phase is RunPhase.FAILED

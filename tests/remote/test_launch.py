"""Runs on the host: launched in their own session, their end written down, found again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from console.domain.run import RunPhase
from console.errors import RemoteError
from console.operations.running import run_of
from console.remote.link import HostLink
from console.remote.local import LocalTransport


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


async def launch(link: HostLink, *argv: str, env: Mapping[str, str] | None = None, **args: object) -> dict[str, Any]:
    body = json.dumps({"argv": argv, "env": env or {}}).encode()
    return dict((await link.call("launch", args, body)).result)


async def ended(link: HostLink, run: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    async with asyncio.timeout(30):
        async for reply in link.stream("watch_run", {"folder": run["folder"], "every_ms": 20}):
            state = dict(reply.result)
    return state


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
async def test_the_exit_status_is_kept(local_link: HostLink, script: str, status: int) -> None:
    run = await launch(local_link, "/bin/sh", "-c", f"echo out; echo err >&2; {script}")
    state = await ended(local_link, run)
    assert (state["exit"], state["alive"], state["processes"]) == (status, False, [])
    assert state["ended_at"] >= run["record"]["started_at"]
    assert Path(run["log"]).read_text() == "out\nerr\n"


async def test_a_server_has_a_session_of_its_own_and_no_input(local_link: HostLink, tmp_path: Path) -> None:
    code = "import os,sys; print(os.getsid(0) == os.getpid(), os.getcwd(), sys.stdin.read() == '', os.environ['TOKWATT_RUN'])"
    run = await launch(local_link, sys.executable, "-c", code, cwd=str(tmp_path))
    await ended(local_link, run)
    assert Path(run["log"]).read_text().split() == ["True", str(tmp_path), "True", run["record"]["id"]]
    assert run["session"] == run["pid"] not in (os.getpid(), os.getsid(0))


async def test_secrets_are_in_no_file_and_no_argument_list(local_link: HostLink, state_home: Path) -> None:
    secret = f"hunter2{os.urandom(8).hex()}"  # another's test may run a server with a secret of its own
    run = await launch(local_link, "/bin/sh", "-c", 'echo "${#HF_TOKEN}"; sleep 60', env={"HF_TOKEN": secret})
    try:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # any process may end meanwhile
                assert secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        files = [path for path in state_home.rglob("*") if path.is_file()]
        assert {path.name for path in files} == {"launch.json", "pid", "server.log"}
        assert not any(secret.encode() in path.read_bytes() for path in files)
        assert run["record"]["env_names"] == ["HF_TOKEN"]
        assert stat.S_IMODE(Path(run["folder"]).stat().st_mode) == 0o700
    finally:
        os.killpg(run["pid"], signal.SIGKILL)
    assert (await ended(local_link, run))["exit"] == 137


async def test_a_run_outlives_the_outpost_and_its_end_is_found(state_home: Path) -> None:
    first = HostLink(LocalTransport())
    await first.connect()
    gate = state_home.parent / "gate"
    run = await launch(first, "/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; echo late; exit 4")
    await first.close()
    second = HostLink(LocalTransport())
    await second.connect()
    [found] = (await second.call("runs")).result["runs"]
    assert (found["record"]["id"], found["alive"], found["exit"]) == (run["record"]["id"], True, None)
    gate.touch()
    assert (await ended(second, run))["exit"] == 4
    assert Path(run["log"]).read_text() == "late\n"
    await second.close()


async def test_run_numbers_are_given_once(local_link: HostLink) -> None:
    runs = await asyncio.gather(*(launch(local_link, "/bin/true") for _ in range(6)))
    numbers = sorted(int(run["record"]["id"].rpartition("-")[2]) for run in runs)
    assert numbers == [1, 2, 3, 4, 5, 6]
    newest = (await local_link.call("runs", {"limit": 2})).result["runs"]
    assert [run["record"]["id"].rpartition("-")[2] for run in newest] == ["6", "5"]


async def test_a_program_that_is_not_there(local_link: HostLink) -> None:
    with pytest.raises(RemoteError, match="cannot start /no/such") as caught:
        await launch(local_link, "/no/such", "x")
    assert caught.value.kind == "nostart"
    [run] = (await local_link.call("runs")).result["runs"]
    assert (run["exit"], run["alive"]) == (127, False)
    assert "cannot start /no/such" in Path(run["log"]).read_text()


async def test_a_name_that_the_host_does_not_have(local_link: HostLink, state_home: Path) -> None:
    with pytest.raises(RemoteError, match="NO_SUCH_NAME") as caught:
        await launch(local_link, "/bin/true", host_env=["PATH", "NO_SUCH_NAME"])
    assert caught.value.kind == "noenv"
    assert not state_home.exists(), "nothing was made for a launch that was refused"


async def test_a_process_that_left_nothing_is_lost_not_ended(local_link: HostLink) -> None:
    run = await launch(local_link, "/bin/sleep", "60")
    keeper = int(Path(f"/proc/{run['pid']}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    os.kill(run["pid"], signal.SIGKILL)
    async with asyncio.timeout(10):
        while (state := (await local_link.call("run_state", {"folder": run["folder"]})).result)["alive"]:
            await asyncio.sleep(0.02)
    assert (state["exit"], state["processes"]) == (None, [])


async def test_launch_over_ssh_lives_on_when_the_connection_goes(link: HostLink, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run = await launch(link, "/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 7")
    await link.close()
    local = HostLink(LocalTransport())
    await local.connect()
    args = {"pid": run["pid"], "start_ticks": run["start_ticks"]}
    assert (await local.call("alive", args)).result["alive"]
    gate.touch()
    exit_file = Path(run["folder"]) / "exit"
    async with asyncio.timeout(10):
        while not exit_file.exists():
            await asyncio.sleep(0.02)
    assert exit_file.read_text().split()[0] == "7"
    await local.close()


def keeper_of(run: Mapping[str, Any]) -> int:
    return int(Path(f"/proc/{run['pid']}/stat").read_text().rpartition(") ")[2].split()[1])


async def test_a_process_that_has_ended_is_never_lost_while_its_status_is_written_down(
    local_link: HostLink, tmp_path: Path
) -> None:
    """Its keeper is held at the very moment between the death and the file: it opens a pipe that nobody reads."""
    gate = tmp_path / "gate"
    run = await launch(local_link, "/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3")
    keeper, folder = keeper_of(run), Path(run["folder"])
    os.mkfifo(folder / "exit.new")
    gate.touch()
    seen = await states(local_link, run, lambda state: not state["alive"])
    assert (seen[-1]["exit"], seen[-1]["ending"], run_of(seen[-1]).phase) == (None, True, RunPhase.STOPPING)
    os.kill(keeper, signal.SIGKILL)  # now nobody will ever write it down
    seen = await states(local_link, run, lambda state: not state["ending"])
    assert (seen[-1]["exit"], run_of(seen[-1]).phase) == (None, RunPhase.LOST)


async def test_whoever_looks_while_a_status_is_written_down_is_told_it(local_link: HostLink, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run = await launch(local_link, "/bin/sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3")
    keeper = keeper_of(run)
    os.kill(keeper, signal.SIGSTOP)
    gate.touch()
    async with asyncio.timeout(10):
        while " Z " not in Path(f"/proc/{run['pid']}/stat").read_text():
            await asyncio.sleep(0.01)
    looking = asyncio.create_task(local_link.call("run_state", {"folder": run["folder"]}))
    await local_link.call("ping")  # it is looked at by now
    os.kill(keeper, signal.SIGCONT)
    state = (await looking).result
    assert (state["exit"], state["ending"], run_of(state).phase) == (3, False, RunPhase.FAILED)


async def test_a_run_is_starting_from_its_folder_on(local_link: HostLink, state_home: Path) -> None:
    folder = state_home / "tokwatt/runs/2026-01-01-1"
    folder.mkdir(parents=True)
    [state] = (await local_link.call("runs")).result["runs"]
    assert (state["launching"], run_of(state).phase) == (True, RunPhase.STARTING)
    (folder / "launch.json").write_text(json.dumps({"started_at": state["time"] - 61}))
    [state] = (await local_link.call("runs")).result["runs"]
    assert (state["launching"], run_of(state).phase) == (False, RunPhase.LOST)


async def states(
    link: HostLink, run: Mapping[str, Any], last: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Look as fast as answers come, until a state is such."""
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not seen or not last(seen[-1]):
            seen.append(dict((await link.call("run_state", {"folder": run["folder"]})).result))
    return seen


async def test_whoever_looks_all_the_time_sees_a_run_start_and_exit_and_nothing_else(local_link: HostLink) -> None:
    for _ in range(20):
        run = await launch(local_link, "/bin/sleep", "0.02")
        seen = await states(local_link, run, lambda state: state["exit"] is not None)
        assert {run_of(state).phase for state in (run, *seen)} <= {
            RunPhase.STARTING,
            RunPhase.STOPPING,
            RunPhase.EXITED,
        }


async def test_a_number_is_not_given_again_after_the_folders_were_cleared(local_link: HostLink) -> None:
    day = time.strftime("%Y-%m-%d")
    run = await launch(local_link, "/bin/true", kept=[f"{day}-7", f"{day}-x", "2020-01-01-99", "attached-1"])
    assert run["record"]["id"] == f"{day}-8"
    await ended(local_link, run)

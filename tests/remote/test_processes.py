"""Processes by pid and start time; ports and who has them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.errors import RemoteError
from console.remote.link import HostLink
from console.remote.outpost import processes


def ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(") ")[2].split()[19])


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A session with a leader and a child, that ignores nothing."""
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.stdout.close()
    process.wait()


async def test_the_table_tells_who_and_where(local_link: HostLink, child: subprocess.Popen[bytes]) -> None:
    args = {"session": child.pid, "start_ticks": ticks(child.pid)}
    found = (await local_link.call("processes", args)).result["processes"]
    assert [(entry["session"], entry["uid"]) for entry in found] == [(child.pid, os.geteuid())] * 2
    assert found[0]["pid"] == child.pid and found[1]["title"] == "sleep 60"
    assert found[0]["rss_mib"] > 1


async def test_another_start_time_is_another_process(local_link: HostLink, child: subprocess.Popen[bytes]) -> None:
    right = {"pid": child.pid, "start_ticks": ticks(child.pid)}
    wrong = {"pid": child.pid, "start_ticks": ticks(child.pid) - 1}
    assert (await local_link.call("alive", right)).result["alive"]
    assert not (await local_link.call("alive", wrong)).result["alive"]
    with pytest.raises(RemoteError) as caught:
        await local_link.call("signal", {**wrong, "signal": "SIGKILL"})
    assert caught.value.kind == "changed"
    session = {
        "session": child.pid,
        "start_ticks": ticks(child.pid) - 1,
        "signal": "SIGKILL",
        "others": [list(wrong.values())],
    }
    assert (await local_link.call("signal_session", session)).result["sent"] == []
    assert child.poll() is None


async def test_a_session_is_ended_whole(local_link: HostLink, child: subprocess.Popen[bytes]) -> None:
    args: dict[str, Any] = {"session": child.pid, "start_ticks": ticks(child.pid)}
    sent = (await local_link.call("signal_session", {**args, "signal": "SIGKILL"})).result["sent"]
    assert len(sent) == 2
    assert child.wait() == -signal.SIGKILL
    assert (await local_link.call("signal", {"pid": child.pid, "start_ticks": 1, "signal": "SIGTERM"})).result == {
        "sent": False
    }


async def test_orphans_of_a_session_are_still_its_own(local_link: HostLink, child: subprocess.Popen[bytes]) -> None:
    """G01: the launcher is gone, what it started lives on under pid 1 and is found by session."""
    args = {"session": child.pid, "start_ticks": ticks(child.pid)}
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    left = (await local_link.call("processes", args)).result["processes"]
    assert [entry["title"] for entry in left] == ["sleep 60"]
    await local_link.call("signal_session", {**args, "signal": "SIGKILL"})


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"TOKWATT_MARK": "feedface"}, True),
        ({"A": "1"}, False),
        ({"A": "1", "TOKWATT_MARK": "another"}, False),
        ({}, True),  # as of a worker that set its title over its environment
    ],
)
def test_a_session_whose_number_was_used_again_is_anothers(env: dict[str, str], found: bool) -> None:
    """A daemon's first process had the number of a run's, and is gone, too: what it left bears no mark of ours."""
    quiet = "[(os.POSIX_SPAWN_OPEN, n, '/dev/null', os.O_RDWR, 0) for n in (1, 2)]"
    spawn = f"os.posix_spawn('/bin/sleep', ['sleep', '60'], {env!r}, file_actions={quiet})"
    code = f"import os; os.setsid(); print(os.getpid(), {spawn})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split()
    session, left = map(int, said)
    own = ["\0".join(["sleep", "60", ""]), "".join(f"{key}={value}\0" for key, value in env.items())]
    while [Path(f"/proc/{left}/{name}").read_text() for name in ("cmdline", "environ")] != own:
        pass  # it was spawned and is not `sleep` yet
    try:
        members = processes.members(session, ticks(left) - 100, session, "feedface")
        assert [entry["pid"] for entry in members] == ([left] if found else [])
    finally:
        os.kill(left, signal.SIGKILL)


async def test_only_known_signals_are_sent(local_link: HostLink) -> None:
    with pytest.raises(RemoteError, match="SIGSTOP"):
        await local_link.call("signal", {"pid": os.getpid(), "start_ticks": ticks(os.getpid()), "signal": "SIGSTOP"})


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")]
)
async def test_listeners_over_both_families(local_link: HostLink, family: int, address: str) -> None:
    with socket.socket(family) as server:
        server.bind((address, 0))
        port = server.getsockname()[1]
        assert (await local_link.call("ports", {"port": port})).result["listeners"] == []
        server.listen()
        [owner] = (await local_link.call("ports", {"port": port})).result["listeners"]
    assert (owner["address"], owner["pid"]) == (address, os.getpid())
    assert owner["title"]

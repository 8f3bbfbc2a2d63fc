"""The probe's look at /proc: this machine's own processes as the ones that hold a GPU."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.telemetry.probe import host as probe_host
from console.telemetry.probe.host import Host, numa_node

BUSY = "import sys\nsys.stdout.write('x')\nsys.stdout.flush()\nwhile True: pass"


@pytest.fixture
def holder() -> Iterator[int]:
    """A process in a session of its own that keeps one core busy, with a secret in its command line."""
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "3,1"}
    command = [sys.executable, "-c", BUSY, "--api-key", "sk-secret", "--hf-token=hf_secret", "--tokenizer", "t"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.read(1) == b"x"
        yield process.pid
        process.kill()


def test_a_holder_with_its_user_devices_and_share_of_a_core(holder: int) -> None:
    host = Host()
    host.holders({holder})
    first = host.read(time.monotonic())["processes"]
    assert [one["pid"] for one in first] == [holder] and first[0]["cpu_pct"] is None  # nothing to compare with yet
    spent = _ticks(holder)
    while _ticks(holder) < spent + 5:
        continue
    one = host.read(time.monotonic())["processes"][0]
    assert one["cpu_pct"] > 0 and one["rss_mib"] > 1 and one["session"] == holder
    assert one["devices"] == "3,1" and one["start_ticks"] > 0
    assert one["user"] == pwd.getpwuid(os.getuid()).pw_name


def test_no_secret_of_anybody_leaves_the_host(holder: int) -> None:
    host = Host()
    host.holders({holder})
    title = host.read(time.monotonic())["processes"][0]["title"]
    assert "--api-key *** --hf-token=*** --tokenizer t" in title and "secret" not in title


def test_the_session_of_a_holder_comes_with_it() -> None:
    launcher = "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', 'input()']); print(c.pid, flush=True); c.wait()"
    command = [sys.executable, "-c", launcher]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
        host = Host()
        host.holders({child})
        assert {one["pid"] for one in host.read(time.monotonic())["processes"]} == {holder.pid, child}
        stranger.communicate(b"\n")


def test_a_process_that_ended_is_gone_and_its_counts_with_it(holder: int) -> None:
    host = Host()
    host.holders({holder, 2**22 + 7})  # a pid beyond what the kernel gives
    assert len(host.read(time.monotonic())["processes"]) == 1
    host.holders(set())
    host._looked = 0.0
    assert host.read(time.monotonic())["processes"] == []
    assert host._spent == {} and host._devices == {}


def test_cores_are_shares_between_two_readings() -> None:
    host = Host()
    assert host.read(time.monotonic())["cores"] == []
    before = _all_ticks()
    while _all_ticks() < before + 20:
        continue
    found = host.read(time.monotonic())
    assert len(found["cores"]) == os.cpu_count() and all(0 <= share <= 100 for share in found["cores"])
    assert found["memory_total_mib"] > found["memory_available_mib"] > 0 and found["load_1m"] >= 0


def test_cores_that_were_switched_off_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"

    def opened(name: str, *args: object) -> object:
        return open(stat) if name == "/proc/stat" else open(name)

    monkeypatch.setattr(probe_host, "open", opened, raising=False)
    host = Host()
    stat.write_text("cpu  1\ncpu0 10 0 10 80 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0\nintr 1\n")
    assert host._busy() == []
    stat.write_text("cpu  1\ncpu0 60 0 10 130 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0\nintr 1\n")
    assert host._busy() == [50, 0]
    stat.write_text("cpu  1\ncpu0 60 0 10 130 0 0 0 0\nintr 1\n")
    assert host._busy() == []


def test_numa_node_of_a_device_that_tells_none() -> None:
    assert numa_node("00000000:FE:1F.7") is None


def _ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def _all_ticks() -> int:
    return sum(int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9])

"""Processor time of the probe on a host at 10 Hz, its budget of 2 % of a core, and what a user would run instead.

Without a GPU a stub NVML stands in for 8: it answers at once (link throughput after 20 ms a direction, as the real
one), so this is the readers' own cost. `nvidia-smi -lms 100` runs only where there is a real one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SECONDS = 10.0
PEER = ROOT / ".venvs" / "nvitop"

COLLECTOR = """
import time
from nvitop import Device, ResourceMetricCollector
collector = ResourceMetricCollector(Device.all(), root_pids=set(), interval=0.1)
collector.start("tokwatt")
due = time.monotonic()
while True:
    collector.collect()
    print("tick", flush=True)
    due += 0.1
    time.sleep(max(0.0, due - time.monotonic()))
"""


def test_probe_at_10_hz(tmp_path: Path) -> None:
    env = _environment(tmp_path)
    ours = _measured([sys.executable, "-m", "console.telemetry.probe.run", "--hz", "10"], b'"fast"', env)
    rows = [("probe (budget 2 %)", ours)]
    if _nvitop():
        rows.append(("nvitop's collector", _measured([str(PEER / "bin" / "python"), "-c", COLLECTOR], b"tick", env)))
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=power.draw,utilization.gpu,clocks.sm", "--format=csv,noheader", "-lms"]
        rows.append(("nvidia-smi -lms 100", _measured([*command, "100"], b"W", os.environ.copy())))
    for name, (share, rate) in rows:
        print(f"\n{name}: {share:.2f} % of a core, {rate:.1f} ticks/s, {10 * share / rate:.2f} ms a tick", end="")
    print()
    assert ours[1] >= 9


def _environment(folder: Path) -> dict[str, str]:
    if shutil.which("nvidia-smi"):
        return os.environ.copy()
    source = ROOT / "tests" / "telemetry" / "stub_nvml.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True)
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "STUB_NVML": "slow"}


def _nvitop() -> bool:
    """Return whether the peer is there; it is installed into an environment of its own when a network lets it."""
    if not (PEER / "bin" / "nvitop").exists():
        venv.create(PEER, with_pip=True)
        done = subprocess.run([str(PEER / "bin" / "pip"), "install", "-q", "nvitop"], capture_output=True, text=True)
        if done.returncode:
            print(f"\nwithout nvitop: {done.stderr.strip().splitlines()[-1]}")
            return False
    return True


def _measured(command: list[str], mark: bytes, env: dict[str, str]) -> tuple[float, float]:
    """Return percent of a core and ticks a second over some seconds, the start left out."""
    with subprocess.Popen(
        command, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as program:
        assert program.stdout is not None
        while mark not in (line := program.stdout.readline()):
            if not line:
                pytest.fail(f"{command[0]} ended before its first reading")
        began, before, ticks = time.monotonic(), _processor_s(program.pid), 0
        while time.monotonic() - began < SECONDS:
            ticks += mark in program.stdout.readline()
        share = 100 * (_processor_s(program.pid) - before) / (time.monotonic() - began)
        program.kill()
    return share, ticks / SECONDS


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

"""Processor time of the probe on a host: 8 GPUs at 10 Hz on a stub NVML, beside its budget of 2 % of a core.

The stub answers at once, so this is the probe's own cost: interpreter, pynvml, JSON.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SECONDS = 10.0


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_probe_at_10_hz(tmp_path: Path) -> None:
    source = ROOT / "tests" / "telemetry" / "stub_nvml.c"
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "STUB_NVML": "slow"}
    command = [sys.executable, "-m", "console.telemetry.probe.run", "--hz", "10"]
    probe = subprocess.Popen(command, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert probe.stdin is not None and probe.stdout is not None
    while b'"fast"' not in probe.stdout.readline():
        pass
    began, before = time.monotonic(), processor_s(probe.pid)
    ticks = 0
    while time.monotonic() - began < SECONDS:
        ticks += b'"fast"' in probe.stdout.readline()
    share = 100 * (processor_s(probe.pid) - before) / (time.monotonic() - began)
    probe.stdin.close()
    probe.wait()
    probe.stdout.close()
    print(f"\nprobe, 8 GPUs at 10 Hz: {share:.2f} % of a core, {ticks / SECONDS:.1f} ticks/s (budget 2 %)")
    assert ticks >= 0.9 * 10 * SECONDS

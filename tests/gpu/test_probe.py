"""The probe with the real NVML under a real load: `pytest -m gpu tests/gpu` on a machine with an NVIDIA GPU and torch.

Not in the gate: its machine has no GPU. What was read on which one stands in tests/data/README.md.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
WINDOW_S = 45.0
"""The energy counter is read every ten seconds."""

LOAD = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
b = a.clone()
(a @ b).sum().item()
print("warm", flush=True)
while True:
    for _ in range(50):
        c = a @ b
    torch.cuda.synchronize()
"""

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[dict[str, Any]], list[list[float]]]]:
    """Our samples of GPU 0 and nvidia-smi's (draw, instant) over the same window of a load that keeps it busy."""
    if not shutil.which("nvidia-smi"):
        pytest.fail("no nvidia-smi here: these tests need a real NVIDIA GPU")
    folder = Path(os.environ.get("OUT") or tmp_path_factory.mktemp("gpu"))
    command = [sys.executable, "-m", "console", "--host", "local", "--json", "gpus", "--follow", "--hz", "10"]
    smi = ["nvidia-smi", "-i", "0", "--query-gpu=power.draw,power.draw.instant", "--format=csv,noheader,nounits"]
    with subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE) as load:
        assert load.stdout is not None and load.stdout.readline() == b"warm\n"
        time.sleep(3)  # the driver's one-second mean must have forgotten the idle time
        with (folder / "probe.jsonl").open("wb") as ours, (folder / "smi.csv").open("wb") as theirs:
            programs = [
                subprocess.Popen(command, stdout=ours, cwd=ROOT),
                subprocess.Popen([*smi, "-lms", "100"], stdout=theirs),
            ]
            time.sleep(WINDOW_S)
            for program in programs:
                program.terminate()
                program.wait()
        load.kill()
    samples = [json.loads(line) for line in (folder / "probe.jsonl").read_text().splitlines()]
    rows = [line.split(",") for line in (folder / "smi.csv").read_text().splitlines()]
    yield (
        [{"time_s": datetime.fromisoformat(s["time"]).timestamp(), **s["gpus"][0]} for s in samples if s["gpus"]],
        [[float(word) for word in row] for row in rows if len(row) == 2],
    )


def test_power_is_the_one_of_nvidia_smi(readings: tuple[list[dict[str, Any]], list[list[float]]]) -> None:
    ours, theirs = readings
    draw = statistics.mean(row["power_draw_w"] for row in ours)
    mean = statistics.mean(row["power_mean_w"] for row in ours)
    print(f"\ndraw {draw:.1f} W, nvidia-smi instant {statistics.mean(r[1] for r in theirs):.1f} W")
    assert draw == pytest.approx(statistics.mean(row[1] for row in theirs), rel=0.02)
    assert mean == pytest.approx(statistics.mean(row[0] for row in theirs), rel=0.02)


def test_the_energy_counter_is_the_integral_of_the_watts(
    readings: tuple[list[dict[str, Any]], list[list[float]]],
) -> None:
    ours = readings[0]
    counted = [(place, row["energy_j"]) for place, row in enumerate(ours) if row["energy_j"] is not None]
    turns = [here for before, here in pairwise(counted) if here[1] != before[1]]
    assert len(turns) >= 3
    (first, begun), (last, ended) = turns[0], turns[-1]
    integral = sum(
        row["power_draw_w"] * (following["time_s"] - row["time_s"])
        for row, following in zip(ours[first:last], ours[first + 1 : last + 1], strict=True)
    )
    print(
        f"\n{ended - begun:.0f} J counted, {integral:.0f} J integrated over {ours[last]['time_s'] - ours[first]['time_s']:.1f} s"
    )
    assert ended - begun == pytest.approx(integral, rel=0.03)


def test_ten_readings_a_second_and_no_value_missing(
    readings: tuple[list[dict[str, Any]], list[list[float]]],
) -> None:
    ours = readings[0]
    span_s = ours[-1]["time_s"] - ours[0]["time_s"]
    assert len(ours) / span_s == pytest.approx(10, rel=0.05)
    for name in ("power_draw_w", "gpu_util_pct", "memory_used_mib", "temperature_c", "sm_clock_mhz"):
        assert all(row[name] is not None for row in ours), name

"""`nvidia-smi` as the second source, played by a script: its rows, its refusals, its end."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.gpu import GpuSample
from console.remote.link import HostLink
from console.telemetry.sampler import samples
from console.telemetry.smi import guess_fields, number
from console.telemetry.throttle import throttle_words

SCRIPT = r'''#!{python}
"""A pretend nvidia-smi: honours --query-gpu, -lms and --id; MODE and STATE are in its folder."""
import os, pathlib, sys, time
here = pathlib.Path(__file__).parent
mode = (here / "mode").read_text()
with open(here / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\n")
fields = next(a.split("=", 1)[1] for a in sys.argv if a.startswith("--query-gpu=")).split(",")
(here / "pid").write_text(str(os.getpid()))
if mode == "old" and "power.draw.instant" in fields:
    print('Field "power.draw.instant" is not a valid field to query.')
    sys.exit(2)
if mode == "old" and "power.draw.average" in fields:
    print('Field "power.draw.average" is not a valid field to query.')
    sys.exit(2)
if mode == "broken":
    print("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161")
    sys.exit(18)
wanted = next((a.split("=", 1)[1].split(",") for a in sys.argv if a.startswith("--id=")), None)
if mode == "lost" and wanted is None and (here / "dropped").exists():
    print("Unable to determine the device handle for GPU0000:02:00.0: Unknown Error")
    sys.exit(255)
def cell(name, index):
    return {{"timestamp": "2026/12/02 08:00:00.000", "index": str(index), "uuid": "GPU-%d" % index, "name": "Pretend, Inc GPU"[:7],
            "pci.bus_id": "00000000:0%d:00.0" % (index + 1), "power.draw": "250.50", "power.draw.instant": "300.25",
            "power.draw.average": "240.00", "power.limit": "600.00", "utilization.gpu": "100", "memory.used": "[N/A]",
            "clocks_throttle_reasons.active": "0x0000000000000004"}}.get(name, "[Not Supported]")
print("== a banner, with commas, and more ==", flush=True)
ticks = 0
while True:
    for index in range(3):
        if wanted is None or "GPU-%d" % index in wanted:
            print(", ".join(cell(name, index) for name in fields), flush=True)
    ticks += 1
    if mode == "lost" and wanted is None and ticks == 2:
        (here / "dropped").touch()
        print("Unable to determine the device handle for GPU0000:02:00.0: Unknown Error")
        sys.exit(255)
    time.sleep(0.1)
'''


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a pretend nvidia-smi that is first on PATH, with NVML switched off."""
    script = tmp_path / "nvidia-smi"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    (tmp_path / "mode").write_text("plain")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TOKWATT_GPU_SOURCE", "nvidia-smi")
    return tmp_path


async def collect(link: HostLink, count: int) -> list[GpuSample]:
    found: list[GpuSample] = []
    async with asyncio.timeout(30), aclosing(samples(link, hz=10)) as stream:
        async for sample in stream:
            found.append(sample)
            if len(found) == count:
                break
    return found


async def test_rows_of_a_tick_are_one_sample(link: HostLink, smi: Path) -> None:
    for sample in await collect(link, 3):
        assert sample.source == "nvidia-smi" and [gpu.index for gpu in sample.gpus] == [0, 1, 2]
        gpu = sample.gpus[0]
        assert (gpu.power_draw_w, gpu.power_mean_w, gpu.power_limit_w, gpu.gpu_util_pct) == (300.25, 240, 600, 100)
        assert gpu.memory_used_mib is None and gpu.reasons["memory_used_mib"] == "N/A"
        assert gpu.throttle == ("power cap",)
    assert "-lms 100" in (smi / "calls").read_text()


async def test_unknown_fields_are_left_out(link: HostLink, smi: Path) -> None:
    (smi / "mode").write_text("old")
    (sample,) = await collect(link, 1)
    assert sample.gpus[0].power_draw_w == 250.5 and sample.gpus[0].power_mean_w is None
    calls = [line for line in (smi / "calls").read_text().splitlines() if "--query-gpu" in line]
    assert len(calls) == 3 and "power.draw.average" not in calls[2] and "power.draw," in calls[2]


async def test_a_tool_that_cannot_start_gives_its_reason(link: HostLink, smi: Path) -> None:
    (smi / "mode").write_text("broken")
    (sample,) = await collect(link, 1)
    assert not sample.gpus
    assert sample.reason == "driver/library mismatch (535.161): reboot or reload the kernel module"


async def test_a_lost_gpu_is_kept_and_the_healthy_ones_are_asked(link: HostLink, smi: Path) -> None:
    (smi / "mode").write_text("lost")
    found = await collect(link, 6)
    assert [gpu.lost for gpu in found[0].gpus] == [False, False, False]
    last = found[-1]
    assert [(gpu.uuid, gpu.lost) for gpu in last.gpus] == [("GPU-0", False), ("GPU-1", True), ("GPU-2", False)]
    assert any("GPU 0000:02:00.0 is lost" in sample.reason for sample in found)
    assert "--id=GPU-0,GPU-2" in (smi / "calls").read_text().splitlines()[-1]


async def test_its_child_ends_with_the_probe(link: HostLink, smi: Path) -> None:
    await collect(link, 1)
    pid = int((smi / "pid").read_text())
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


def test_numbers_with_and_without_units() -> None:
    assert number(" 612.35 W") == (612.35, "") and number("97 %") == (97, "") and number("0") == (0, "")
    for absent in ("[N/A]", "N/A", "[Not Supported]", "ERR!", "[Unknown Error]"):
        assert number(absent) == (None, absent.strip("[]"))


def test_a_row_without_header_is_named_by_its_look() -> None:
    assert guess_fields(["0", "NVIDIA X", "35", "61234", "81559"])[2:] == (
        "utilization.gpu",
        "memory.used",
        "memory.total",
    )
    assert guess_fields(["not", "a", "row"]) == ()


def test_throttle_bits() -> None:
    assert throttle_words(1) == () and throttle_words(0x44) == ("power cap", "thermal (hardware)")
    assert throttle_words(0x1000) == ("0x1000",)

"""The real probe, sent, through the real pynvml, on a stub library of 8 GPUs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.gpu import GpuSample
from console.remote.link import HostLink
from console.telemetry.sampler import samples

ROOT = Path(__file__).parent.parent.parent


async def first(link: HostLink, wanted: Callable[[GpuSample], bool], hz: float = 10) -> GpuSample:
    async with asyncio.timeout(20), aclosing(samples(link, hz=hz)) as stream:
        async for sample in stream:
            if wanted(sample):
                return sample
    raise AssertionError("the samples ended")


async def test_every_value_of_eight_gpus(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    sample = await first(link, lambda sample: any(gpu.energy_j is not None for gpu in sample.gpus))
    assert sample.source == "nvml" and len(sample.gpus) == 8
    assert [gpu.power_draw_w for gpu in sample.gpus] == [250 + index for index in range(8)]
    assert (sample.power_w, sample.limit_w) == (2028, 4800)
    gpu = sample.gpus[2]
    assert (gpu.index, gpu.uuid, gpu.name) == (2, "GPU-00000002-0000-0000-0000-000000000000", "Stub GPU")
    assert (gpu.power_mean_w, gpu.gpu_util_pct, gpu.mem_util_pct, gpu.temperature_c) == (245, 100, 22, 42)
    assert (gpu.memory_used_mib, gpu.memory_total_mib, gpu.sm_clock_mhz, gpu.max_sm_clock_mhz) == (
        90002,
        97887,
        2402,
        2430,
    )
    assert gpu.throttle == ("power cap", "thermal (software)") and sample.gpus[0].throttle == ()
    assert (gpu.energy_j, gpu.pcie_tx_mb_s, gpu.pcie_rx_mb_s, gpu.compute_capability) == (3000, 1000, 2000, "12.0")
    assert gpu.processes == ((4002, 89000.0),) and sample.gpus[5].pcie_width == 8
    assert sample.gpus[7].gpu_util_pct == 0 and "gpu_util_pct" not in sample.gpus[7].reasons
    assert abs(sample.time - time.time()) < 30


async def test_limits_clocks_and_modes_that_seldom_change(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "capped=3")
    sample = await first(link, lambda sample: any(gpu.pcie_replays is not None for gpu in sample.gpus))
    gpu = sample.gpus[3]
    assert (gpu.power_limit_w, gpu.power_requested_w, gpu.power_default_w) == (450, 450, 600)
    assert (gpu.power_min_w, gpu.power_max_w) == (150, 600)
    assert (gpu.app_clock_mhz, gpu.app_clock_default_mhz) == (2300, 2430)
    assert gpu.pci_bus_id == "00000000:14:00.0"
    assert [gpu.persistence for gpu in sample.gpus] == [True] * 6 + [False, True] and gpu.ecc is True
    assert [gpu.pcie_replays for gpu in sample.gpus] == [0, 0, 0, 0, 0, 1200, 0, 0]
    assert (sample.gpus[5].link, sample.gpus[5].link_best) == ("x8 gen5", "x16 gen5")


async def test_shares_of_processes_without_those_that_make_no_sense(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "tenants")
    sample = await first(link, lambda sample: any(gpu.shares_pct for gpu in sample.gpus))
    assert sample.gpus[2].shares_pct == {4002: 90}  # 4,294,967,295 % of a process that had just ended is dropped
    assert sample.gpus[7].shares_pct == {} and "shares_pct" not in sample.gpus[7].reasons


async def test_shares_are_not_asked_of_a_gpu_with_one_process(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    sample = await first(link, lambda sample: any(gpu.energy_j is not None for gpu in sample.gpus))
    assert all(gpu.shares_pct == {} and "shares_pct" not in gpu.reasons for gpu in sample.gpus)


async def test_what_a_card_has_not_is_unknown_with_its_reason(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "noecc noshares tenants count=2")
    sample = await first(link, lambda sample: any(gpu.energy_j is not None for gpu in sample.gpus))
    assert [gpu.ecc for gpu in sample.gpus] == [None, None] and sample.gpus[0].reasons["ecc"] == "Not Supported"
    assert sample.gpus[0].shares_pct == {} and sample.gpus[0].reasons["shares_pct"] == "Not Supported"


async def test_a_gpu_in_parts_says_so_where_its_use_would_stand(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "mig=1 count=2")
    sample = await first(link, lambda sample: bool(sample.gpus))
    whole, parted = sample.gpus
    assert (whole.mig, whole.gpu_util_pct) == ("", 100)
    assert (parted.mig, parted.gpu_util_pct, parted.power_draw_w) == ("3 instances", None, 251)
    assert parted.reasons["gpu_util_pct"] == "MIG is on (3 instances): not told for the whole GPU"


async def test_an_error_is_a_named_unknown(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "nopower=1 nomem=4")
    sample = await first(link, lambda sample: bool(sample.gpus))
    assert sample.gpus[1].power_draw_w is None and sample.gpus[1].reasons["power_draw_w"] == "Not Supported"
    assert sample.gpus[0].power_draw_w == 250 and sample.reporting == 7
    assert sample.gpus[4].memory_used_mib is None


async def test_a_gpu_without_memory_of_its_own_says_unified(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "nomem=0 count=1")
    sample = await first(link, lambda sample: any(gpu.unified_memory for gpu in sample.gpus))
    assert "unified memory" in sample.gpus[0].reasons["memory_used_mib"]
    assert "GPU processes hold 89000 MiB" in sample.gpus[0].reasons["memory_used_mib"]


async def test_without_power_fields_the_older_call_serves(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "nofields")
    sample = await first(link, lambda sample: bool(sample.gpus))
    assert [gpu.power_draw_w for gpu in sample.gpus] == [240 + index for index in range(8)]
    assert sample.gpus[0].power_mean_w is None


async def test_a_gpu_that_falls_off_keeps_its_place_and_last_values(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "late=3")
    sample = await first(link, lambda sample: any(gpu.lost for gpu in sample.gpus))
    assert [gpu.index for gpu in sample.gpus if gpu.lost] == [3]
    assert sample.gpus[3].uuid == "GPU-00000003-0000-0000-0000-000000000000"
    assert sample.gpus[3].power_draw_w == 253 and sample.gpus[3].reasons == {"gpu": "GPU is lost"}
    assert sample.gpus[4].power_draw_w == 254


async def test_slow_calls_do_not_delay_fast_ones(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "slow")
    seen: list[GpuSample] = []
    async with asyncio.timeout(30), aclosing(samples(link, hz=10)) as stream:
        async for sample in stream:
            seen.append(sample)
            if sum(gpu.pcie_tx_mb_s is not None for gpu in sample.gpus) == 8:
                break
    # Reading the links of 8 GPUs takes 320 ms: the fast ticks went on meanwhile.
    assert len([sample for sample in seen if sample.gpus and sample.gpus[0].pcie_tx_mb_s is None]) >= 2


async def test_without_nvml_and_nvidia_smi_there_is_a_reason(
    link: HostLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{tmp_path}")
    (tmp_path / "python3").symlink_to(sys.executable)
    sample = await first(link, lambda sample: bool(sample.reason))
    assert sample.reason == "no NVML library on this host; no nvidia-smi on this host"
    assert sample.gpus == () and sample.power_w is None


def pids_of(marker: str) -> list[int]:
    """Return the processes that have a word in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if marker.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


CONSOLE = """
import asyncio
from contextlib import aclosing
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from console.telemetry.sampler import samples

async def main():
    link = HostLink(LocalTransport())
    await link.connect()
    async with aclosing(samples(link, hz=10)) as stream:
        async for sample in stream:
            print(len(sample.gpus), flush=True)

asyncio.run(main())
"""


def test_kill_of_the_console_ends_the_probe(stub_nvml: Path) -> None:
    marker = f"TOKWATT_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = marker.partition("=")
    env = {**os.environ, "LD_LIBRARY_PATH": str(stub_nvml), name: value}
    console = subprocess.Popen([sys.executable, "-c", CONSOLE], env=env, stdout=subprocess.PIPE, cwd=ROOT)
    assert console.stdout is not None
    assert console.stdout.readline() == b"8\n"
    assert len(pids_of(marker)) == 3  # console, outpost, probe
    console.send_signal(signal.SIGKILL)
    console.wait()
    console.stdout.close()
    until = time.monotonic() + 15
    while pids_of(marker) and time.monotonic() < until:
        time.sleep(0.05)
    assert pids_of(marker) == []


def by_hand(env: dict[str, str], ticks: int) -> subprocess.CompletedProcess[bytes]:
    """Run the probe as a program of its own, to its end after some ticks."""
    command = [sys.executable, "-m", "console.telemetry.probe.run", "--hz", "10", "--ticks", str(ticks)]
    reader, writer = os.pipe()
    try:
        return subprocess.run(
            command, env={**os.environ, **env}, stdin=reader, capture_output=True, cwd=ROOT, timeout=60, check=True
        )
    finally:
        os.close(reader)
        os.close(writer)


def test_runs_by_hand(stub_nvml: Path) -> None:
    done = by_hand({"LD_LIBRARY_PATH": str(stub_nvml)}, ticks=2)
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert kinds.count("fast") == 2 and kinds[0] == "static"


async def test_a_lost_link_leaves_no_empty_sample_and_the_probe_comes_back(
    link: HostLink, nvml: pytest.MonkeyPatch
) -> None:
    seen: list[GpuSample] = []
    dropped = False
    async with asyncio.timeout(60), aclosing(samples(link, hz=10)) as stream:
        async for sample in stream:
            seen.append(sample)
            if len(seen) == 5 and not dropped:
                dropped = True
                nvml.setenv("STUB_NVML", "count=2")
                for folder in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
                    os.kill(int(folder), signal.SIGKILL)  # outpost and probe at once, as a cut link does
            if dropped and len(sample.gpus) == 2:
                break
    assert all(sample.gpus for sample in seen)


def test_dear_calls_are_seldom_and_power_is_read_each_tick(stub_nvml: Path) -> None:
    done = by_hand({"LD_LIBRARY_PATH": str(stub_nvml), "STUB_NVML": "calls"}, ticks=21)
    counts = Counter(done.stderr.decode().split())
    assert counts["nvmlDeviceGetFieldValues"] == 21 * 8
    whole = sum(tick == 0 or (tick + gpu) % 5 == 0 for gpu in range(8) for tick in range(21))
    assert counts["nvmlDeviceGetUtilizationRates"] == whole
    rounds = done.stdout.count(b'"slow"')
    assert 8 <= counts["nvmlDeviceGetTotalEnergyConsumption"] <= 8 + 2 * rounds  # 5 ms each on an H200
    assert counts["nvmlDeviceGetProcessUtilization"] == 0

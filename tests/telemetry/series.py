"""Simulated series: what 8 GPUs, their host and an engine show under one cause.

The model is stated, not measured: a GPU idles at 60 W of 600; a share of time in arithmetic costs 480 W, in memory traffic 300 W, in
spinning on a peer 190 W; the SMs count as busy in all three. Each reading wobbles by a few parts in a hundred, seeded. Ten samples a
second for ten seconds, one of the engine's a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from console.domain.gpu import GpuReading, GpuSample, HostLoad, HostProcess
from console.domain.text import SafeText
from console.domain.throughput import ThroughputSample
from console.telemetry.diagnosis.window import Window, window

SESSION = 500
START = 1_796_000_000.0
TOP_MHZ = 2430.0

Change = Callable[[GpuReading, int], GpuReading]
"""Changes one GPU's reading at a tick."""


@dataclass(frozen=True)
class Load:
    """Shares of time, and what the engine says."""

    compute: float = 0.0
    memory: float = 0.0
    spin: float = 0.0
    link: float = 0.03
    """Of an x16 gen5 link."""
    clock: float = 0.98
    running: int | None = 64
    queued: int | None = 0
    kv: float | None = 0.3
    tok_s: float | None = 880.0
    prefill_tok_s: float | None = 900.0
    retracted: tuple[int, int] = (0, 0)
    idle: bool = False
    cores: tuple[float, ...] = (20.0,) * 32
    front_pct: float = 30.0
    gpus: int = 8
    speeds: bool = True


def ours(front_pct: float = 30.0, gpus: int = 8) -> tuple[HostProcess, ...]:
    """Return the engine's processes: schedulers spin, the front does what it must."""
    front = HostProcess(4000, SafeText("python3 -m sglang.launch_server --port 30000"), front_pct, SESSION, "root")
    ranks = [HostProcess(4100 + i, SafeText(f"sglang::scheduler_TP{i}"), 100.0, SESSION, "root") for i in range(gpus)]
    return (front, *ranks)


def series(load: Load, change: Change | None = None, *, seconds: float = 10.0, seed: int = 7,
           processes: tuple[HostProcess, ...] | None = None) -> tuple[list[GpuSample], list[ThroughputSample]]:  # fmt: skip
    """Return the samples of a load; `change` bends single GPUs."""
    rng = random.Random(seed)
    busy = min(1.0, load.compute + load.memory + load.spin)
    host_processes = ours(load.front_pct, load.gpus) if processes is None else processes
    samples: list[GpuSample] = []
    for tick in range(int(seconds * 10)):
        time = START + tick / 10
        gpus = []
        for index in range(load.gpus):
            watts = 60 + 480 * load.compute + 300 * load.memory + 190 * load.spin
            gpu = GpuReading(
                index,
                uuid=f"GPU-{index}",
                power_draw_w=watts * rng.uniform(0.98, 1.02),
                power_limit_w=600.0,
                gpu_util_pct=min(100.0, 100 * busy * rng.uniform(0.99, 1.01)),
                mem_util_pct=100 * load.memory * rng.uniform(0.97, 1.03) + 8 * load.compute + 12 * load.spin,
                temperature_c=55.0,
                sm_clock_mhz=TOP_MHZ * load.clock - rng.choice((0, 15, 45)),
                max_sm_clock_mhz=TOP_MHZ,
                throttle=(),
                pcie_gen=5,
                pcie_width=16,
                pcie_gen_max=5,
                pcie_width_max=16,
                pcie_tx_mb_s=63008 * load.link * rng.uniform(0.9, 1.1),
                pcie_rx_mb_s=63008 * load.link * rng.uniform(0.9, 1.1),
                pcie_replays=0,
                processes=((4100 + index, 88_000.0),),
            )
            gpus.append(change(gpu, tick) if change else gpu)
        host = HostLoad(float(int(time)), load.cores, processes=host_processes)
        samples.append(GpuSample(time, "nvml", tuple(gpus), received=1.0, host=host))
    speeds = [
        ThroughputSample(
            START + second,
            "/metrics",
            output_tok_s=load.tok_s,
            input_tok_s=load.prefill_tok_s,
            running=load.running,
            queued=load.queued,
            kv_usage=load.kv,
            retracted=load.retracted[0] if second < seconds / 2 else load.retracted[1],
            idle=load.idle,
        )
        for second in range(int(seconds) if load.speeds else 0)
    ]
    return samples, speeds


def seen(load: Load, change: Change | None = None, *, nvlink: bool | None = False, seconds: float = 10.0,
         processes: tuple[HostProcess, ...] | None = None) -> Window:  # fmt: skip
    """Return the window of a simulated series."""
    gpus, speeds = series(load, change, seconds=seconds, processes=processes)
    return window(gpus, speeds, session=SESSION, nvlink=nvlink)


def only(index: int, **fields: object) -> Change:
    """Bend one GPU."""
    return lambda gpu, tick: replace(gpu, **fields) if gpu.index == index else gpu  # type: ignore[arg-type]


def every(**fields: object) -> Change:
    """Bend all GPUs."""
    return lambda gpu, tick: replace(gpu, **fields)  # type: ignore[arg-type]

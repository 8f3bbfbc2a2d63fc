"""GPU readings: one sample of every GPU of a host, unknown as `None`, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.domain.text import SafeText


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment."""

    index: int
    uuid: str = ""
    name: SafeText = SafeText("")
    power_draw_w: float | None = None
    """Instantaneous board power where the driver tells it, else its average."""
    power_mean_w: float | None = None
    """The driver's own one-second mean."""
    power_limit_w: float | None = None
    """Enforced."""
    power_default_w: float | None = None
    gpu_util_pct: float | None = None
    mem_util_pct: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    """Active reasons in plain words; empty means none, `None` unknown."""
    energy_j: float | None = None
    pcie_tx_mb_s: float | None = None
    pcie_rx_mb_s: float | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    compute_capability: str = ""
    pci_bus_id: str = ""
    max_sm_clock_mhz: float | None = None
    fan_pct: float | None = None
    pstate: str = ""
    processes: tuple[tuple[int, float | None], ...] | None = None
    """(pid, MiB held) of compute processes; `None` when unknown."""
    unified_memory: bool = False
    """The GPU has no memory of its own: the numbers are the host's."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a value is unknown, by field name."""
    lost: bool = False
    """It no longer answers: the values are its last ones."""
    lost_at: float | None = None
    """Host's wall clock when it was first missed."""
    power_requested_w: float | None = None
    """The limit that was asked for; the enforced one may be lower."""
    power_min_w: float | None = None
    power_max_w: float | None = None
    app_clock_mhz: float | None = None
    """SM clock that applications were given, where somebody set one."""
    app_clock_default_mhz: float | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    """Packets sent again over the link since the driver was loaded."""
    numa_node: int | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    mig: str = ""
    """Empty where it is off; else how many instances there are."""
    memory_temperature_c: float | None = None
    shares_pct: Mapping[int, int] = field(default_factory=dict)
    """SM utilisation of each process by pid, where the driver tells it."""

    @property
    def power_now_w(self) -> float | None:
        """What it draws; `None` for a lost one, whatever it drew last."""
        return None if self.lost else self.power_draw_w

    @property
    def link(self) -> str:
        """The link as people write it: `x16 gen5`; empty when it is not known."""
        return f"x{self.pcie_width} gen{self.pcie_gen}" if self.pcie_gen and self.pcie_width else ""

    @property
    def link_best(self) -> str:
        """The link at its best; empty when it is not known."""
        return f"x{self.pcie_width_max} gen{self.pcie_gen_max}" if self.pcie_gen_max and self.pcie_width_max else ""


LANE_MB_S = {1: 250.0, 2: 500.0, 3: 985.0, 4: 1969.0, 5: 3938.0, 6: 7563.0}
"""What one lane of a generation carries in a direction."""


def link_mb_s(gen: int | None, width: int | None) -> float | None:
    """Return what a PCIe link carries in each direction, at most."""
    lane = LANE_MB_S.get(gen or 0)
    return None if lane is None or not width else lane * width


def visible_gpus(said: str, gpus: Sequence[GpuReading]) -> tuple[int | None, ...]:
    """Return the host's index of each GPU that a process sees, in its own order.

    `CUDA_VISIBLE_DEVICES` names indices, beginnings of UUIDs or MIG instances; CUDA stops at the first that is none.
    An instance that does not name its GPU is `None`.
    """
    found: list[int | None] = []
    for word in (part.strip() for part in said.split(",")):
        if word.startswith("MIG-"):
            whole = word[4:].partition("/")[0]
            found.append(next((gpu.index for gpu in gpus if gpu.uuid and gpu.uuid == whole), None))
            continue
        if word.startswith("GPU-"):
            meant = [gpu.index for gpu in gpus if gpu.uuid.lower().startswith(word.lower())]
        else:
            meant = [gpu.index for gpu in gpus if str(gpu.index) == word]
        if len(meant) != 1:
            break
        found.append(meant[0])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process that has to do with the GPUs: it holds memory of one, or shares a session with one that does."""

    pid: int
    title: SafeText
    cpu_pct: float | None = None
    """Of one core."""
    session: int = 0
    user: str = ""
    start_ticks: int = 0
    rss_mib: float | None = None
    visible_devices: str | None = None
    """`CUDA_VISIBLE_DEVICES`, where it could be read."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What the host's own processors do."""

    time: float
    """Host's wall clock, seconds since the epoch."""
    cores_pct: tuple[float, ...] = ()
    """How busy each core was over the last second, in the order of the host."""
    load_1m: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    numa: Mapping[int, str] = field(default_factory=dict)
    """Processors of each NUMA node, as the kernel writes them: `0-63,128-191`."""
    processes: tuple[HostProcess, ...] = ()
    reason: str = ""
    """Why nothing is known."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """All GPUs of one host at one moment."""

    time: float
    """Host's wall clock, seconds since the epoch; 0 when a file does not tell it."""
    source: str
    """`nvml`, `nvidia-smi` or empty."""
    gpus: tuple[GpuReading, ...] = ()
    reason: str = ""
    """Why there are no readings."""
    received: float = 0.0
    """Console's `time.monotonic()`."""
    clock: str = ""
    """The stamp as a file printed it, where `time` is not known."""
    mono: float | None = None
    """Host's monotonic clock, which no time server moves."""
    driver: str = ""
    host: HostLoad | None = None
    """What the host's processors did, about once a second."""

    @property
    def reporting(self) -> int:
        """How many GPUs report their power; a lost one does not, whatever it drew last."""
        return sum(g.power_now_w is not None for g in self.gpus)

    @property
    def power_w(self) -> float | None:
        """Sum over the GPUs that report, `None` when none does."""
        known = [watts for g in self.gpus if (watts := g.power_now_w) is not None]
        return sum(known) if known else None

    @property
    def power_mean_w(self) -> float | None:
        """Sum of the driver's one-second means, `None` unless every GPU that reports tells one."""
        told = [g.power_mean_w for g in self.gpus if g.power_now_w is not None]
        known = [watts for watts in told if watts is not None]
        return sum(known) if known and len(known) == len(told) else None

    @property
    def headroom_w(self) -> float | None:
        """Watts left below the limits of the GPUs that tell both.

        A limit holds over a second or so, not at each instant: the driver's own mean counts where it is told, and
        instantaneous peaks above the limit are no negative headroom.
        """
        left = [
            g.power_limit_w - (watts if g.power_mean_w is None else g.power_mean_w)
            for g in self.gpus
            if (watts := g.power_now_w) is not None and g.power_limit_w
        ]
        return sum(left) if left else None

    @property
    def engine_gpus(self) -> tuple[int | None, ...]:
        """The host's index of each GPU of the engine, where a process says that it does not see all in their order."""
        for process in sorted(self.host.processes if self.host else (), key=lambda one: one.pid):
            if process.visible_devices:
                found = visible_gpus(process.visible_devices, self.gpus)
                return found if found != tuple(gpu.index for gpu in self.gpus) else ()
        return ()

    @property
    def limit_w(self) -> float | None:
        """Sum of the limits of the GPUs that report their power."""
        told = [g.power_limit_w for g in self.gpus if g.power_now_w is not None]
        known = [limit for limit in told if limit is not None]
        return sum(known) if known else None


def lost_words(gpu: GpuReading, sample: GpuSample) -> str:
    """Return what a lost GPU means, and what is to be done about it; we do neither."""
    why = gpu.reasons.get("gpu", "GPU is lost")
    advice = "" if "reset" in why else "; reset it or reboot the host"
    left = sum(not other.lost for other in sample.gpus)
    return f"{why}{advice}; a launch on more than {left} GPUs will fail"

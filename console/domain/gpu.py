"""GPU readings: one sample of every GPU of a host, unknown as `None`, never 0."""

from __future__ import annotations

from collections.abc import Mapping
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

    @property
    def reporting(self) -> int:
        """How many GPUs report their power."""
        return sum(g.power_draw_w is not None for g in self.gpus)

    @property
    def power_w(self) -> float | None:
        """Sum over the GPUs that report, `None` when none does."""
        known = [g.power_draw_w for g in self.gpus if g.power_draw_w is not None]
        return sum(known) if known else None

    @property
    def limit_w(self) -> float | None:
        """Sum of the limits of the GPUs that report their power."""
        known = [g.power_limit_w for g in self.gpus if g.power_draw_w is not None and g.power_limit_w is not None]
        return sum(known) if known else None

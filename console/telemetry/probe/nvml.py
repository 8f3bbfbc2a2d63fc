"""NVML through pynvml: power each tick, the other fast fields twice a second, slow ones in a thread of their own.

An error of a call becomes a named unknown: the value is null and `why` says the reason. A GPU that
fell off the bus stays in its place, marked lost.

What a call costs was measured on an H200 (driver 580, under load, microseconds of processor time): power fields 104,
utilisation 299, memory 136, temperature 47, each clock 63, throttle reasons 54; energy counter 4,766, link throughput
846 a direction, shares of processes 2,212, link replays 477, link width 209, processes 289. The driver itself has a new
power every 100 ms and a new utilisation every 200 ms. Eight GPUs read ten times a second would take 14 % of a core.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .host import Host, numa_node
from .lines import say

FAST = (
    "power_draw_w",
    "power_mean_w",
    "gpu_util_pct",
    "mem_util_pct",
    "memory_used_mib",
    "temperature_c",
    "sm_clock_mhz",
    "mem_clock_mhz",
    "throttle_bits",
)
"""Order of the values in a `fast` message."""

REST_HZ = 2.0
"""How often the fast fields beside power are read; a tick between carries their last values."""

SLOW_PERIOD_S = 1.0

ROUNDS = {
    "processes": 2,
    "pcie_tx_mb_s": 2,
    "pcie_rx_mb_s": 2,
    "shares_pct": 5,
    "energy_j": 10,
    "pcie_gen": 10,
    "pcie_width": 10,
    "pcie_replays": 10,
    "power_limit_w": 5,
}
"""Every how many rounds of the slow thread a value is read: what costs most or changes least waits longest."""

MIB = 1024.0 * 1024.0


class Unknown(Exception):
    """A value that could not be read, with the reason in a few words."""


class Gpu:
    """One GPU: its handle, and what it has been found not to support.

    Args:
        nvml: The `pynvml` module.
        index: NVML's index, kept for the life of the probe.
    """

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml = nvml
        self.index = index
        self.lost = False
        self.why: Dict[str, str] = {}
        self._never: Dict[str, str] = {}
        self._memory_v2 = True
        self._shares_seen = 0
        self._rest: List[Any] = []
        self._slow: Dict[str, Any] = {}
        self._handle: Any = None
        try:
            self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            self._gone(error)

    def read(self, name: str, function: Callable[[], Any]) -> Any:
        """Return a value, or `None` with the reason kept under its name."""
        nvml = self._nvml
        if name in self._never:
            return None
        if self._handle is None:
            self.why[name] = "GPU is lost"
            return None
        try:
            value = function()
        except nvml.NVMLError as error:
            self._failed(name, error)
            return None
        except Unknown as error:
            self.why[name] = str(error)
            return None
        self.why.pop(name, None)
        if name != "uuid":
            self.lost = False
        return value

    def fast(self, whole: bool) -> List[Any]:
        """Return the fast values in the order of `FAST`; not `whole`: power anew, the others as last read."""
        draw, mean = self._power()
        if whole or not self._rest:
            self._rest = self._others()
        return [draw, mean, *self._rest]

    def _others(self) -> List[Any]:
        nvml, handle = self._nvml, self._handle
        util = self.read("gpu_util_pct", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        if util is None:
            self.why["mem_util_pct"] = self.why.get("gpu_util_pct", "unknown")
        else:
            self.why.pop("mem_util_pct", None)
        return [
            None if util is None else util.gpu,
            None if util is None else util.memory,
            self.read("memory_used_mib", lambda: round(self._memory().used / MIB, 1)),
            self.read("temperature_c", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            self.read("sm_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            self.read("mem_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            self.read("throttle_bits", lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        ]

    def static(self) -> Dict[str, Any]:
        """Return what does not change, or seldom."""
        nvml, handle = self._nvml, self._handle
        found: Dict[str, Any] = {"index": self.index, "uuid": "", "name": ""}
        calls: List[Tuple[str, Callable[[], Any]]] = [
            ("uuid", lambda: _text(nvml.nvmlDeviceGetUUID(handle))),
            ("name", lambda: _text(nvml.nvmlDeviceGetName(handle))),
            ("pci_bus_id", lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
            ("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0),
            ("power_default_w", lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000.0),
            ("memory_total_mib", lambda: round(self._memory().total / MIB, 1)),
            ("max_sm_clock_mhz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
            ("compute_capability", lambda: "%d.%d" % tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))),
            ("pcie_gen_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
            ("pcie_width_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
            ("power_requested_w", lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000.0),
            ("power_range_w", lambda: [w / 1000.0 for w in nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)]),
            ("app_clock_mhz", lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM)),
            ("app_clock_default_mhz", lambda: nvml.nvmlDeviceGetDefaultApplicationsClock(handle, nvml.NVML_CLOCK_SM)),
            ("persistence", lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle))),
            ("ecc", lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0])),
            ("mig", self._mig),
        ]
        for name, call in calls:
            value = self.read(name, call)
            if value is not None:
                found[name] = value
        if found.get("pci_bus_id"):
            found["numa_node"] = numa_node(found["pci_bus_id"])
        return found

    def slow(self, turn: int) -> Dict[str, Any]:
        """Return what costs milliseconds: link throughput, the energy counter, processes, limits.

        Args:
            turn: Number of this round; a value whose round it is not stays as last read. GPUs take turns.
        """
        nvml, handle = self._nvml, self._handle
        calls: Dict[str, Callable[[], Any]] = {
            "processes": self._processes,
            "pcie_tx_mb_s": lambda: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES) / 1000.0,
            "pcie_rx_mb_s": lambda: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES) / 1000.0,
            "shares_pct": self._shares,
            "energy_j": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000.0,
            "pcie_gen": lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
            "pcie_width": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
            "pcie_replays": lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle),
            "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0,
        }
        for name, call in calls.items():
            if name not in self._slow or (turn + self.index) % ROUNDS[name] == 0:
                self._slow[name] = self.read(name, call)
        return {"index": self.index, **self._slow}

    def _power(self) -> Tuple[Optional[float], Optional[float]]:
        nvml, handle = self._nvml, self._handle
        if self._handle is not None and "power fields" not in self._never:
            fields: Optional[Tuple[Optional[float], Optional[float]]] = self.read(
                "power fields", lambda: self._power_fields(handle)
            )
            self.why.pop("power fields", None)
            if fields is not None and fields[0] is not None:
                self.why.pop("power_draw_w", None)
                if fields[1] is None:
                    self.why["power_mean_w"] = "not told by this driver"
                else:
                    self.why.pop("power_mean_w", None)
                return fields
        self.why["power_mean_w"] = "not told apart by this driver"
        return self.read("power_draw_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0), None

    def _power_fields(self, handle: Any) -> Tuple[Optional[float], Optional[float]]:
        nvml = self._nvml
        instant, average = nvml.NVML_FI_DEV_POWER_INSTANT, nvml.NVML_FI_DEV_POWER_AVERAGE
        values: List[Optional[float]] = [
            value.value.uiVal / 1000.0 if value.nvmlReturn == nvml.NVML_SUCCESS else None
            for value in nvml.nvmlDeviceGetFieldValues(handle, [instant, average])
        ]
        if values[0] is None and values[1] is None:
            self._never["power fields"] = "not supported"
        return values[0], values[1]

    def _memory(self) -> Any:
        nvml = self._nvml
        if self._memory_v2:
            try:
                return nvml.nvmlDeviceGetMemoryInfo(self._handle, version=nvml.nvmlMemory_v2)
            except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_InvalidArgument, AttributeError):
                self._memory_v2 = False
        return nvml.nvmlDeviceGetMemoryInfo(self._handle)

    def _processes(self) -> List[List[Any]]:
        found = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        return [[p.pid, None if p.usedGpuMemory is None else round(p.usedGpuMemory / MIB, 1)] for p in found]

    def _shares(self) -> Dict[str, int]:
        """Return each process's share of the SMs since the last reading; asked where several share the GPU."""
        nvml = self._nvml
        if len(self._slow.get("processes") or ()) < 2:
            return {}
        try:
            rows = nvml.nvmlDeviceGetProcessUtilization(self._handle, self._shares_seen)
        except nvml.NVMLError_NotFound:
            return {}  # nothing ran since
        self._shares_seen = max([row.timeStamp for row in rows] or [self._shares_seen])
        return {str(row.pid): int(row.smUtil) for row in rows if row.smUtil <= 100}

    def _mig(self) -> str:
        """Return how the GPU is parted, empty when it is not."""
        nvml = self._nvml
        if not nvml.nvmlDeviceGetMigMode(self._handle)[0]:
            return ""
        count = 0
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)):
            try:
                nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, place)
                count += 1
            except nvml.NVMLError:
                continue
        return "%d instances" % count

    def _failed(self, name: str, error: Any) -> None:
        nvml = self._nvml
        if isinstance(error, nvml.NVMLError_GpuIsLost):
            self._gone(error)
        self.why[name] = str(error)
        if isinstance(error, (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound)):
            self._never[name] = str(error)

    def _gone(self, error: Any) -> None:
        self.lost = True
        self.why["gpu"] = str(error)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Reader:
    """All GPUs of the host: a tick at a time here, the slow values in a thread.

    Args:
        nvml: The `pynvml` module.
        hz: Ticks a second.
    """

    def __init__(self, nvml: Any, hz: float) -> None:
        self._nvml = nvml
        self._every = max(1, round(hz / REST_HZ))
        self._ticks = 0
        self._gpus = [Gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        self._last_why: List[Dict[str, str]] = []
        self._host = Host()

    def start(self) -> None:
        """Say the static facts, and begin the slow readings."""
        driver = ""
        try:
            driver = _text(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            driver = ""
        say("static", source="nvml", driver=driver, fields=FAST, gpus=[gpu.static() for gpu in self._gpus])
        threading.Thread(target=self._slowly, daemon=True, name="slow").start()
        self._host.start()

    def tick(self) -> None:
        """Read the fast fields of every GPU and say them; reasons only when they changed."""
        rows = [gpu.fast((self._ticks + gpu.index) % self._every == 0) for gpu in self._gpus]
        self._ticks += 1
        lost = [gpu.index for gpu in self._gpus if gpu.lost]
        why = [dict(gpu.why) for gpu in self._gpus]
        if why != self._last_why:
            self._last_why = why
            say("fast", gpus=rows, lost=lost, why=why)
        else:
            say("fast", gpus=rows, lost=lost)

    def _slowly(self) -> None:
        turn = 0
        while True:
            began = time.monotonic()
            rows = [gpu.slow(turn) for gpu in self._gpus]
            turn += 1
            pids: Set[int] = {pid for row in rows for pid, _ in row["processes"] or ()}
            self._host.holders(pids)
            say("slow", gpus=rows, unified=_host_memory(self._gpus))
            time.sleep(max(0.05, SLOW_PERIOD_S - (time.monotonic() - began)))


def _host_memory(gpus: List[Gpu]) -> Optional[Dict[str, float]]:
    """Return the host's memory in MiB when a GPU tells none of its own: it shares the host's."""
    if not any("memory_used_mib" in gpu.why and not gpu.lost for gpu in gpus):
        return None
    found: Dict[str, float] = {}
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("MemTotal", "MemAvailable"):
                    found[name] = int(rest.split()[0]) / 1024.0
    except (OSError, ValueError, IndexError):
        return None
    if len(found) < 2:
        return None
    return {"total_mib": found["MemTotal"], "used_mib": found["MemTotal"] - found["MemAvailable"]}

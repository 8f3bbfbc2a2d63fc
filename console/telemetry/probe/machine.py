"""How the GPUs are joined and what they are set to, through NVML: one line, for hosts without `nvidia-smi`.

`python -m console.telemetry.probe.machine` runs it by hand.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from .host import numa_node
from .lines import say

LEVELS = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""`nvmlGpuTopologyLevel_t`; 0 is one board, which nvidia-smi calls PIX, too."""

PEERS = ("OK", "CNS", "GNS", "TNS", "DR", "NS", "U")
"""`nvmlGpuP2PStatus_t`."""

ACCESS = (("read", 0), ("write", 1), ("nvlink", 2))
LINKS = 18
SWITCH = 2
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")


def main() -> None:
    """Say the state, or why there is none."""
    try:
        import pynvml

        nvml: Any = pynvml
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - an odd ctypes or driver is a reason, not a traceback
        say("unavailable", reason="NVML: %s" % error)
        return
    handles: List[Tuple[int, Any]] = []
    why = ""
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handles.append((index, nvml.nvmlDeviceGetHandleByIndex(index)))
        except nvml.NVMLError as error:
            why = "GPU %d: %s" % (index, error)
    bus = {index: _bus(nvml, handle) for index, handle in handles}
    paths: List[List[Any]] = []
    peers: Dict[str, List[List[Any]]] = {name: [] for name, _ in ACCESS}
    for a, one in handles:
        joined = _nvlinks(nvml, one, bus)
        for b, other in handles:
            if a == b:
                continue
            word = "NV%d" % joined[b] if joined.get(b) else _path(nvml, one, other)
            if word:
                paths.append([a, b, word])
            for name, number in ACCESS:
                status = _try(nvml, lambda: nvml.nvmlDeviceGetP2PStatus(one, other, number))  # noqa: B023 - used at once
                if status is not None:
                    peers[name].append([a, b, PEERS[status] if status < len(PEERS) else "U"])
    say(
        "machine",
        driver=_text(_try(nvml, nvml.nvmlSystemGetDriverVersion) or ""),
        cuda=_cuda(_try(nvml, nvml.nvmlSystemGetCudaDriverVersion)),
        gpus=[_state(nvml, index, handle) for index, handle in handles],
        paths=paths,
        peers={name: rows for name, rows in peers.items() if rows},
        reason=why,
    )


def _try(nvml: Any, function: Callable[[], Any]) -> Any:
    """Return a value, `None` where this driver or GPU does not tell it."""
    try:
        return function()
    except (nvml.NVMLError, AttributeError):
        return None


def _bus(nvml: Any, handle: Any) -> str:
    pci = _try(nvml, lambda: nvml.nvmlDeviceGetPciInfo(handle))
    return _text(pci.busId).lower() if pci is not None else ""


def _path(nvml: Any, one: Any, other: Any) -> str:
    level = _try(nvml, lambda: nvml.nvmlDeviceGetTopologyCommonAncestor(one, other))
    return "" if level is None else LEVELS.get(int(level), "PIX")


def _nvlinks(nvml: Any, handle: Any, bus: Dict[int, str]) -> Dict[int, int]:
    """Return how many NVLinks lead to each GPU; those to a switch lead to all."""
    found: Dict[int, int] = {}
    for link in range(LINKS):
        if not _try(nvml, lambda: nvml.nvmlDeviceGetNvLinkState(handle, link)):  # noqa: B023 - used at once
            continue
        kind = _try(nvml, lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))  # noqa: B023
        there = _try(nvml, lambda: nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))  # noqa: B023
        name = _text(there.busId).lower() if there is not None else ""
        for index, own in bus.items():
            if kind == SWITCH or (name and name == own):
                found[index] = found.get(index, 0) + 1
    return found


def _state(nvml: Any, index: int, handle: Any) -> Dict[str, Any]:
    mode = _try(nvml, lambda: nvml.nvmlDeviceGetEccMode(handle))
    limits = _try(nvml, lambda: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)) or (None, None)
    bus = _bus(nvml, handle)
    compute = _try(nvml, lambda: nvml.nvmlDeviceGetComputeMode(handle))
    pstate = _try(nvml, lambda: nvml.nvmlDeviceGetPerformanceState(handle))
    mig = _try(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle))
    persistence = _try(nvml, lambda: nvml.nvmlDeviceGetPersistenceMode(handle))

    def clock(name: str, kind: int) -> Optional[int]:
        return _try(nvml, lambda: getattr(nvml, name)(handle, kind))  # type: ignore[no-any-return]

    def errors(kind: int, counter: int) -> Optional[int]:
        return _try(nvml, lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))  # type: ignore[no-any-return]

    return {
        "index": index,
        "uuid": _text(_try(nvml, lambda: nvml.nvmlDeviceGetUUID(handle)) or ""),
        "name": _text(_try(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or ""),
        "pci_bus_id": bus,
        "pstate": "" if pstate is None or pstate > 15 else "P%d" % pstate,
        "pcie_gen": _try(nvml, lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "pcie_gen_max": _try(nvml, lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        "pcie_gen_gpu_max": _try(nvml, lambda: nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration(handle)),
        "pcie_width": _try(nvml, lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_width_max": _try(nvml, lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "numa_node": numa_node(bus) if bus else None,
        "persistence": None if persistence is None else bool(persistence),
        "ecc": None if mode is None else bool(mode[0]),
        "ecc_pending": None if mode is None else bool(mode[1]),
        "ecc_corrected": errors(0, 0),
        "ecc_uncorrected": errors(1, 0),
        "ecc_corrected_ever": errors(0, 1),
        "ecc_uncorrected_ever": errors(1, 1),
        "power_requested_w": _watts(_try(nvml, lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle))),
        "power_enforced_w": _watts(_try(nvml, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))),
        "power_default_w": _watts(_try(nvml, lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))),
        "power_min_w": _watts(limits[0]),
        "power_max_w": _watts(limits[1]),
        "app_clock_mhz": clock("nvmlDeviceGetApplicationsClock", 1),
        "app_clock_default_mhz": clock("nvmlDeviceGetDefaultApplicationsClock", 1),
        "app_mem_clock_mhz": clock("nvmlDeviceGetApplicationsClock", 2),
        "app_mem_clock_default_mhz": clock("nvmlDeviceGetDefaultApplicationsClock", 2),
        "sm_clock_mhz": clock("nvmlDeviceGetClockInfo", 1),
        "sm_clock_max_mhz": clock("nvmlDeviceGetMaxClockInfo", 1),
        "mem_clock_mhz": clock("nvmlDeviceGetClockInfo", 2),
        "mem_clock_max_mhz": clock("nvmlDeviceGetMaxClockInfo", 2),
        "mig": None if mig is None else bool(mig[0]),
        "compute_mode": COMPUTE_MODES[compute] if compute is not None and compute < len(COMPUTE_MODES) else "",
        "vbios": _text(_try(nvml, lambda: nvml.nvmlDeviceGetVbiosVersion(handle)) or ""),
    }


def _watts(mw: Optional[int]) -> Optional[float]:
    return None if mw is None else mw / 1000.0


def _cuda(number: Optional[int]) -> str:
    return "" if not number else "%d.%d" % (number // 1000, number % 1000 // 10)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main()

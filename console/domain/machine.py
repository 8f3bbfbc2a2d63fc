"""The state of a machine that numbers depend on: driver, limits, clocks, links; and what changed between two states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.domain.text import SafeText, dash
from console.domain.topology import Topology


@dataclass(frozen=True, slots=True)
class GpuState:
    """What one GPU is set to; `None` and empty are unknown."""

    index: int
    uuid: str = ""
    name: SafeText = SafeText("")
    pci_bus_id: str = ""
    pstate: str = ""
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    """Of GPU and slot together."""
    pcie_gen_gpu_max: int | None = None
    """Of the GPU alone."""
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    numa_node: int | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    """What ECC will be after the next reset."""
    ecc_corrected: int | None = None
    """Errors since the driver was loaded."""
    ecc_uncorrected: int | None = None
    ecc_corrected_ever: int | None = None
    ecc_uncorrected_ever: int | None = None
    power_requested_w: float | None = None
    power_enforced_w: float | None = None
    power_default_w: float | None = None
    power_min_w: float | None = None
    power_max_w: float | None = None
    app_clock_mhz: float | None = None
    app_clock_default_mhz: float | None = None
    app_mem_clock_mhz: float | None = None
    app_mem_clock_default_mhz: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    mem_clock_mhz: float | None = None
    mem_clock_max_mhz: float | None = None
    mig: bool | None = None
    compute_mode: str = ""
    vbios: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a value is unknown, by field name."""

    @property
    def working(self) -> bool:
        """Whether it is in a state for work: one that saves power narrows its link by itself."""
        return self.pstate in ("P0", "P1", "P2", "P3")


@dataclass(frozen=True, slots=True)
class MachineState:
    """A host as far as it decides what is measured on it."""

    time: float = 0.0
    """Host's wall clock, seconds since the epoch."""
    source: str = ""
    """`nvidia-smi`, `nvml`, `sysfs` or empty."""
    driver: str = ""
    cuda: str = ""
    """The newest CUDA that the driver serves."""
    nccl: str = ""
    """Of the wheel that the launching interpreter has."""
    kernel: str = ""
    governor: str = ""
    """Of the processors' frequencies: `performance`, or how many have which."""
    numa: Mapping[int, str] = field(default_factory=dict)
    """Processors of each NUMA node."""
    gpus: tuple[GpuState, ...] = ()
    topology: Topology = field(default_factory=Topology)
    reason: str = ""
    """Why nothing is known of the GPUs."""


def link_words(gpu: GpuState) -> tuple[str, bool]:
    """Return a link in words, and whether it runs below what it could: what saves power while idle does not count."""
    if gpu.pcie_width is None and gpu.pcie_gen is None:
        return "link not told", False
    said = f"x{dash(gpu.pcie_width)} gen{dash(gpu.pcie_gen)}"
    best = f"x{dash(gpu.pcie_width_max)} gen{dash(gpu.pcie_gen_max)}"
    faults = []
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        faults.append(f"{gpu.pcie_width} of {gpu.pcie_width_max} lanes")
    slow = bool(gpu.pcie_gen and gpu.pcie_gen_max and gpu.pcie_gen < gpu.pcie_gen_max)
    if slow and gpu.working:
        faults.append(f"gen {gpu.pcie_gen} of {gpu.pcie_gen_max}")
    if faults:
        return f"{said}, below its best ({best}): {', '.join(faults)}", True
    if slow:
        return f"{said} while idle, up to {best}", False
    if gpu.pcie_gen_gpu_max and gpu.pcie_gen_max and gpu.pcie_gen_gpu_max > gpu.pcie_gen_max:
        return f"{said}, all that the slot gives (the GPU could gen{gpu.pcie_gen_gpu_max})", False
    return said, False


_TOLD = (
    "index", "name", "power_enforced_w", "power_requested_w", "app_clock_mhz", "app_mem_clock_mhz", "persistence", "ecc",
    "mig", "pcie_gen_max", "pcie_width", "numa_node", "compute_mode", "vbios",
)  # fmt: skip

_TOLD_OF_HOST = ("driver", "cuda", "nccl", "kernel", "governor", "topology", "paths", "peers_ok")


def kept(identity: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the machine's state that a run's identity holds; empty for runs from before it was kept."""
    found = identity.get("machine")
    return found if isinstance(found, Mapping) else {}


def compact(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a fingerprint decides, for a file that people read: no UUIDs, nothing unknown."""
    found = {name: kept.get(name) for name in _TOLD_OF_HOST}
    gpus = [{name: gpu.get(name) for name in _TOLD if gpu.get(name) is not None} for gpu in kept.get("gpus") or ()]
    return {name: value for name, value in {**found, "gpus": gpus}.items() if value not in (None, "", [], {})}


def summary(kept: Mapping[str, Any]) -> str:
    """Return a fingerprint in one line: driver, cards and limits, links, how they are joined."""
    gpus = list(kept.get("gpus") or ())
    parts = [f"driver {kept['driver']}" if kept.get("driver") else "", f"CUDA {kept['cuda']}" if kept.get("cuda") else "",
             f"NCCL {kept['nccl']}" if kept.get("nccl") else ""]  # fmt: skip
    groups: dict[str, int] = {}
    for gpu in gpus:
        limit = f" at {gpu['power_enforced_w']:,.0f} W" if gpu.get("power_enforced_w") else ""
        link = (
            f", x{gpu['pcie_width']} gen{gpu.get('pcie_gen') or gpu.get('pcie_gen_max')}"
            if gpu.get("pcie_width")
            else ""
        )
        word = f"{gpu.get('name') or 'GPU'}{limit}{link}"
        groups[word] = groups.get(word, 0) + 1
    parts += [f"{count} × {word}" for word, count in groups.items()]
    parts += [" and ".join(kept["paths"]) if kept.get("paths") else "", str(kept.get("governor") or "")]
    return " · ".join(part for part in parts if part)


GPU_FIELDS = (
    "index", "uuid", "name", "power_enforced_w", "power_requested_w", "power_default_w", "app_clock_mhz",
    "app_clock_default_mhz", "app_mem_clock_mhz", "persistence", "ecc", "mig", "pcie_gen_max", "pcie_width",
    "pcie_width_max", "numa_node", "compute_mode", "vbios",
)  # fmt: skip


def fingerprint(state: MachineState) -> dict[str, Any]:
    """Return a state as plain data, as a run keeps it; empty when nothing is known."""
    if not state.gpus and not state.driver and not state.kernel:
        return {}
    return {
        "driver": state.driver,
        "cuda": state.cuda,
        "nccl": state.nccl,
        "kernel": state.kernel,
        "governor": state.governor,
        "topology": state.topology.digest,
        "paths": list(state.topology.kinds),
        "peers_ok": state.topology.peers_ok("read"),
        "numa": {str(node): cores for node, cores in state.numa.items()},
        "gpus": [_gpu_print(gpu) for gpu in state.gpus],
    }


def _gpu_print(gpu: GpuState) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(gpu, name) for name in GPU_FIELDS}
    # An idle GPU lets its link sleep: that is no state of the machine.
    found["pcie_gen"] = gpu.pcie_gen if gpu.working else None
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as it was."""

    what: str
    before: str
    after: str
    unit: str = ""
    where: str = ""
    """`GPU 3`, `GPUs 0-3`, `all GPUs`; empty where it is the host's."""
    decides: bool = True
    """Whether numbers from before and after may not be compared."""

    @property
    def said(self) -> str:
        """The change in words: `power limit 600 → 450 W on GPU 3`."""
        unit = f" {self.unit}" if self.unit else ""
        where = f" on {self.where}" if self.where else ""
        return f"{self.what} {self.before} → {self.after}{unit}{where}"


_HOST: Sequence[tuple[str, str, bool]] = (
    ("driver", "driver", True),
    ("cuda", "CUDA of the driver", True),
    ("nccl", "NCCL", False),
    ("kernel", "kernel", False),
    ("governor", "processor governor", True),
    ("paths", "paths between GPUs", True),
    ("peers_ok", "peer access of all GPUs", True),
)
_GPU: Sequence[tuple[str, str, str, bool]] = (
    ("name", "GPU", "", True),
    ("power_enforced_w", "power limit", "W", True),
    ("power_requested_w", "requested power limit", "W", False),
    ("app_clock_mhz", "application clock", "MHz", True),
    ("app_mem_clock_mhz", "application memory clock", "MHz", True),
    ("ecc", "ECC", "", True),
    ("mig", "MIG", "", True),
    ("pcie_width", "link lanes", "", True),
    ("pcie_gen", "link generation", "", True),
    ("pcie_gen_max", "best link generation", "", True),
    ("persistence", "persistence mode", "", False),
    ("numa_node", "NUMA node", "", False),
    ("compute_mode", "compute mode", "", False),
    ("vbios", "VBIOS", "", False),
)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what changed between two fingerprints; what either does not know is no change."""
    if not before or not after:
        return ()
    found = [
        Change(what, _word(before.get(key)), _word(after.get(key)), decides=decides)
        for key, what, decides in _HOST
        if _differ(before.get(key), after.get(key))
    ]
    told = {change.what for change in found}
    if _differ(before.get("topology"), after.get("topology")) and "paths between GPUs" not in told:
        found.append(Change("topology", str(before["topology"]), str(after["topology"])))
    return (*found, *_gpu_changes(list(before.get("gpus") or ()), list(after.get("gpus") or ())))


def _gpu_changes(before: list[Mapping[str, Any]], after: list[Mapping[str, Any]]) -> list[Change]:
    if not before or not after:
        return []
    if len(before) != len(after):
        return [Change("GPUs", str(len(before)), str(len(after)))]
    found: list[Change] = []
    by_uuid = {gpu.get("uuid"): gpu for gpu in before if gpu.get("uuid")}
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    for place, gpu in enumerate(after):
        old = by_uuid.get(gpu.get("uuid"))
        if old is None:
            old = before[place]
            if old.get("uuid") and gpu.get("uuid"):
                found.append(_moved("card", str(old["uuid"])[:12], str(gpu["uuid"])[:12], gpu))
        elif old.get("index") != gpu.get("index"):
            found.append(_moved("number", str(old.get("index")), str(gpu.get("index")), gpu))
        pairs.append((old, gpu))
    for key, what, unit, decides in _GPU:
        moved: dict[tuple[str, str], list[int]] = {}
        for old, gpu in pairs:
            if _differ(old.get(key), gpu.get(key)):
                moved.setdefault((_word(old.get(key)), _word(gpu.get(key))), []).append(int(gpu["index"]))
        found += [
            Change(what, one, other, unit, _gpus_words(where, len(after)), decides)
            for (one, other), where in moved.items()
        ]
    in_force = {(one.before, one.after, one.where) for one in found if one.what == "power limit"}
    asked = "requested power limit"  # told where it is not simply the one in force
    return [one for one in found if one.what != asked or (one.before, one.after, one.where) not in in_force]


def _moved(what: str, before: str, after: str, gpu: Mapping[str, Any]) -> Change:
    """Return that a card is another or has another number: of the same kind it computes alike."""
    return Change(what, before, after, where=f"GPU {gpu.get('index')}", decides=False)


def _differ(one: object, other: object) -> bool:
    if one in (None, "", []) or other in (None, "", []):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) >= 0.5
    return one != other


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:,.0f}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _gpus_words(indices: Iterable[int], count: int) -> str:
    known = sorted(indices)
    if len(known) == count and count > 1:
        return "all GPUs"
    runs: list[list[int]] = []
    for index in known:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    words = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"GPU {words}" if len(known) == 1 else f"GPUs {words}"

"""The machine's state out of what the host told: `nvidia-smi` texts, the kernel's own view of the cards."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.domain.machine import GpuState, MachineState
from console.domain.text import clean, strip_sequences
from console.domain.topology import ACCESS, Topology
from console.remote.link import HostLink
from console.telemetry import smi
from console.telemetry.faults import fault_in
from console.telemetry.sampler import lines
from console.telemetry.topology import parse_peers, parse_topology

_NUMBERS: Mapping[str, str] = {
    "power.limit": "power_requested_w",
    "enforced.power.limit": "power_enforced_w",
    "power.default_limit": "power_default_w",
    "power.min_limit": "power_min_w",
    "power.max_limit": "power_max_w",
    "clocks.applications.graphics": "app_clock_mhz",
    "clocks.default_applications.graphics": "app_clock_default_mhz",
    "clocks.applications.memory": "app_mem_clock_mhz",
    "clocks.default_applications.memory": "app_mem_clock_default_mhz",
    "clocks.sm": "sm_clock_mhz",
    "clocks.max.sm": "sm_clock_max_mhz",
    "clocks.mem": "mem_clock_mhz",
    "clocks.max.memory": "mem_clock_max_mhz",
}
_WHOLE: Mapping[str, str] = {
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.gen.gpumax": "pcie_gen_gpu_max",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "ecc.errors.corrected.aggregate.total": "ecc_corrected_ever",
    "ecc.errors.uncorrected.aggregate.total": "ecc_uncorrected_ever",
}
_SWITCHES: Mapping[str, str] = {
    "persistence_mode": "persistence",
    "ecc.mode.current": "ecc",
    "ecc.mode.pending": "ecc_pending",
    "mig.mode.current": "mig",
}
_TEXTS: Mapping[str, str] = {
    "uuid": "uuid",
    "pci.bus_id": "pci_bus_id",
    "pstate": "pstate",
    "compute_mode": "compute_mode",
    "vbios_version": "vbios",
}
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(\d+(?:\.\d+)+)")
_SPEED = re.compile(r"([\d.]+)\s*GT/s")
_GENS = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16": 4, "16.0": 4, "32": 5, "32.0": 5, "64": 6, "64.0": 6}


def machine_state(said: Mapping[str, Any], time: float = 0.0) -> MachineState:
    """Return the state that an answer of the outpost's `machine` tells."""
    told = said.get("smi")
    state = MachineState(
        time=time,
        nccl=str(clean(str(said.get("nccl") or ""), 40)),
        kernel=str(clean(str(said.get("kernel") or ""), 100)),
        governor=str(clean(str(said.get("governor") or ""), 100)),
        numa={int(node): str(clean(str(cores), 200)) for node, cores in dict(said.get("numa") or {}).items()},
    )
    cards = [dict(card) for card in said.get("cards") or ()]
    if told is None:
        return _from_kernel(state, cards, "no nvidia-smi on this host")
    gpus, driver, reason = gpu_states(told["query"].get("fields") or (), _text(told["query"]))
    if not gpus:
        return _from_kernel(state, cards, reason or str(told["query"].get("reason") or "nvidia-smi tells no GPU"))
    cuda = _CUDA.search(_text(told["banner"]))
    topology = _topology(told)
    return replace(
        state,
        source="nvidia-smi",
        driver=driver,
        cuda=cuda[1] if cuda else "",
        gpus=tuple(_with_node(gpu, cards, topology) for gpu in gpus),
        topology=topology,
    )


def with_nvml(state: MachineState, said: Mapping[str, Any]) -> MachineState:
    """Return a state with what the probe's `machine` said of it through NVML."""
    known = {item.name for item in dataclasses.fields(GpuState)} - {"reasons"}
    texts = ("uuid", "name", "pci_bus_id", "pstate", "compute_mode", "vbios")
    gpus = []
    for row in said.get("gpus") or ():
        values = {name: value for name, value in row.items() if name in known and value is not None}
        values |= {name: clean(str(values.get(name, "")), 100) for name in texts}
        for name, value in values.items():
            if isinstance(value, int) and not isinstance(value, bool) and name.endswith("_mhz"):
                values[name] = float(value)
        missing = {name: "not told by NVML" for name in known if row.get(name) is None and name not in texts}
        gpus.append(GpuState(**values, reasons=missing))
    paths = {(f"GPU{a}", f"GPU{b}"): str(clean(str(word), 8)) for a, b, word in said.get("paths") or ()}
    peers = {
        str(access): {(int(a), int(b)): str(clean(str(word), 8)) for a, b, word in rows}
        for access, rows in dict(said.get("peers") or {}).items()
    }
    topology = Topology(
        gpus=tuple(gpu.index for gpu in gpus),
        paths=paths,
        peers=peers,
        source="nvml",
        peer_reason="" if peers else "not told by NVML",
    )
    return replace(
        state,
        source="nvml",
        driver=str(clean(str(said.get("driver") or ""), 40)),
        cuda=str(clean(str(said.get("cuda") or ""), 20)),
        gpus=tuple(gpus),
        topology=topology,
        reason=str(clean(str(said.get("reason") or ""), 200)),
    )


async def nvml_said(link: HostLink) -> dict[str, Any]:
    """Ask NVML through the probe; what is missing is said under `reason`."""
    async with link.program("console.telemetry.probe", "machine", (), extra=("pynvml",)) as channel:
        async for line in lines(channel):
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and said.get("kind") in ("machine", "unavailable"):
                return said
        complaint = channel.complaint().decode("utf-8", "replace").strip().splitlines()
    return {"reason": f"probe: {complaint[-1][:200]}" if complaint else "the probe said nothing"}


def _topology(told: Mapping[str, Any]) -> Topology:
    said = told["topo"]
    text = _text(said)
    fault = fault_in(text)
    found = Topology(reason=fault.reason) if fault is not None else parse_topology(text)
    if not found.gpus:
        found = replace(found, reason=str(clean(str(said.get("reason") or found.reason), 200)))
    peers = {name: table for letter, name in ACCESS.items() if (table := parse_peers(_text(told.get(letter) or {})))}
    if len(found.gpus) == 1:
        return replace(found, peer_reason="one GPU: no peer")
    why = "" if peers else _first_line(_text(told.get("r") or {})) or "nvidia-smi topo -p2p says nothing"
    return replace(found, peers=peers, peer_reason=why)


def gpu_states(fields: Sequence[str], text: str) -> tuple[tuple[GpuState, ...], str, str]:
    """Return the rows of a query, the driver's version, and why there are no rows."""
    found: list[GpuState] = []
    driver = ""
    for line in text.splitlines():
        cells = smi.split(line)
        if len(cells) != len(fields):
            continue
        row = dict(zip(fields, cells, strict=True))
        if not row.get("index", "").isdigit():
            continue
        driver = driver or str(clean(row.get("driver_version", ""), 40))
        found.append(_state(row))
    if found:
        return tuple(found), driver, ""
    fault = fault_in(text)
    return (), "", fault.reason if fault is not None else str(clean(_first_line(text), 200))


def _state(row: Mapping[str, str]) -> GpuState:
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, attribute in (*_NUMBERS.items(), *_WHOLE.items()):
        if name not in row:
            reasons[attribute] = "this driver does not know the field"
            continue
        value, why = smi.number(row[name])
        if value is None:
            reasons[attribute] = why
        else:
            values[attribute] = int(value) if name in _WHOLE else value
    for name, attribute in _SWITCHES.items():
        word = row.get(name, "").strip("[]")
        values[attribute] = {"enabled": True, "disabled": False}.get(word.lower())
        if values[attribute] is None:
            reasons[attribute] = word or "this driver does not know the field"
    for name, attribute in _TEXTS.items():
        word = row.get(name, "")
        values[attribute] = "" if word.strip("[]").upper() in ("N/A", "NOT SUPPORTED") else str(clean(word, 100))
    return GpuState(int(row["index"]), name=clean(row.get("name", ""), 100), reasons=reasons, **values)


def _with_node(gpu: GpuState, cards: Sequence[Mapping[str, Any]], topology: Topology) -> GpuState:
    """Return a GPU with its NUMA node: the kernel's word for it, else that of the matrix."""
    mine = next((card for card in cards if _bus(card.get("bus")) == _bus(gpu.pci_bus_id)), None)
    node = _node(mine) if mine is not None else None
    if node is None and topology.numa.get(gpu.index, "").isdigit():
        node = int(topology.numa[gpu.index])
    return replace(gpu, numa_node=node)


def _from_kernel(state: MachineState, cards: Sequence[Mapping[str, Any]], reason: str) -> MachineState:
    """Return what /sys alone tells of the cards: links and NUMA nodes, with the reason why it is no more."""
    if not cards:
        return replace(state, reason=reason, topology=Topology(reason=reason, peer_reason=reason))
    gpus = tuple(
        GpuState(
            index=place,
            pci_bus_id=str(clean(str(card.get("bus") or ""), 40)),
            pcie_gen=_gen(card.get("current_link_speed")),
            pcie_gen_max=_gen(card.get("max_link_speed")),
            pcie_width=_lanes(card.get("current_link_width")),
            pcie_width_max=_lanes(card.get("max_link_width")),
            numa_node=_node(card),
        )
        for place, card in enumerate(cards)
    )
    return replace(
        state, source="sysfs", gpus=gpus, reason=reason, topology=Topology(reason=reason, peer_reason=reason)
    )


def _bus(text: object) -> str:
    """Return a PCI address without the width of its domain: `00000000:4F:00.0` and `0000:4f:00.0` are one."""
    domain, _, rest = str(text or "").lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}" if rest else ""


def _node(card: Mapping[str, Any]) -> int | None:
    text = str(card.get("numa_node") or "")
    return int(text) if text.isdigit() else None


def _gen(text: object) -> int | None:
    match = _SPEED.search(str(text or ""))
    return _GENS.get(match[1]) if match else None


def _lanes(text: object) -> int | None:
    word = str(text or "")
    return int(word) if word.isdigit() and int(word) > 0 else None


def _text(said: Mapping[str, Any]) -> str:
    return str(said.get("text") or "")


def _first_line(text: str) -> str:
    return str(clean(next((line.strip() for line in strip_sequences(text).splitlines() if line.strip()), ""), 200))

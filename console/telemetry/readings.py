"""The probe's messages put together: facts, fast and slow values of each GPU become one sample."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.domain.gpu import GpuReading, GpuSample
from console.domain.text import clean
from console.telemetry import smi
from console.telemetry.faults import fault_in
from console.telemetry.throttle import throttle_words

_SLOW = ("pcie_tx_mb_s", "pcie_rx_mb_s", "energy_j", "pcie_gen", "pcie_width", "power_limit_w")
_WHY = {"throttle_bits": "throttle"}


class Readings:
    """Knows what the probe said so far; `feed` returns a sample when one is complete."""

    def __init__(self) -> None:
        self._fields: tuple[str, ...] = ()
        self._facts: list[GpuReading] = []
        self._slow: list[Mapping[str, Any]] = []
        self._why: list[Mapping[str, str]] = []
        self._unified: Mapping[str, float] | None = None
        self._known: dict[str, GpuReading] = {}
        self._reasons: list[str] = []

    def feed(self, line: bytes) -> GpuSample | None:
        """Take one line; lines that are not ours are passed over."""
        try:
            said = json.loads(line)
        except ValueError:
            return None
        if not isinstance(said, dict):
            return None
        take = {"static": self._static, "fast": self._fast, "slow": self._slowly, "smi": self._smi}.get(
            str(said.get("kind"))
        )
        if take is not None:
            return take(said)
        return self._unavailable(said) if said.get("kind") == "unavailable" else None

    def _static(self, said: Mapping[str, Any]) -> None:
        self._fields = tuple(said["fields"])
        self._reasons = []
        self._facts = [
            GpuReading(
                index=int(gpu["index"]),
                uuid=str(clean(str(gpu.get("uuid", "")), 100)),
                name=clean(str(gpu.get("name", "")), 100),
                pci_bus_id=str(clean(str(gpu.get("pci_bus_id", "")), 40)),
                power_limit_w=gpu.get("power_limit_w"),
                power_default_w=gpu.get("power_default_w"),
                memory_total_mib=gpu.get("memory_total_mib"),
                max_sm_clock_mhz=gpu.get("max_sm_clock_mhz"),
                compute_capability=str(gpu.get("compute_capability", "")),
            )
            for gpu in said["gpus"]
        ]

    def _slowly(self, said: Mapping[str, Any]) -> None:
        self._slow = list(said["gpus"])
        self._unified = said.get("unified")

    def _fast(self, said: Mapping[str, Any]) -> GpuSample:
        if "why" in said:
            self._why = list(said["why"])
        lost = set(said.get("lost", ()))
        gpus = tuple(
            self._reading(place, row, lost) for place, row in enumerate(said["gpus"]) if place < len(self._facts)
        )
        return GpuSample(time=float(said["time"]), source="nvml", gpus=gpus, received=time.monotonic())

    def _reading(self, place: int, row: Sequence[Any], lost: set[int]) -> GpuReading:
        fact = self._facts[place]
        why = self._why[place] if place < len(self._why) else {}
        if fact.index in lost:
            last = self._known.get(fact.uuid or str(fact.index), fact)
            return replace(last, lost=True, reasons={"gpu": why.get("gpu", "GPU is lost")})
        values = dict(zip(self._fields, row, strict=False))
        bits = values.pop("throttle_bits", None)
        slow = self._slow[place] if place < len(self._slow) else {}
        limit = slow.get("power_limit_w")
        processes = slow.get("processes")
        slowly: dict[str, Any] = {name: slow.get(name) for name in _SLOW if name != "power_limit_w"}
        gpu = replace(
            fact,
            **values,
            throttle=None if bits is None else throttle_words(int(bits)),
            reasons={_WHY.get(name, name): text for name, text in why.items() if name not in ("gpu", "power fields")},
            **slowly,
            power_limit_w=fact.power_limit_w if limit is None else limit,
            processes=None if processes is None else tuple((int(pid), mib) for pid, mib in processes),
        )
        if self._unified and gpu.memory_used_mib is None:
            gpu = smi.with_unified_memory(gpu, self._unified["total_mib"], self._unified["used_mib"])
        self._known[gpu.uuid or str(gpu.index)] = gpu
        return gpu

    def _smi(self, said: Mapping[str, Any]) -> GpuSample | None:
        rows = []
        for line in said["lines"]:
            try:
                rows.append(smi.reading(said["fields"], smi.split(str(line))))
            except smi.NotARowError:
                continue
        if not rows:
            return None
        here = {gpu.uuid for gpu in rows}
        gone = [replace(gpu, lost=True) for uuid, gpu in self._known.items() if uuid and uuid not in here]
        self._known.update({gpu.uuid: gpu for gpu in rows})
        gpus = tuple(sorted([*rows, *gone], key=lambda gpu: gpu.index))
        return GpuSample(time=float(said["time"]), source="nvidia-smi", gpus=gpus, received=time.monotonic())

    def _unavailable(self, said: Mapping[str, Any]) -> GpuSample | None:
        """NVML's reason waits for nvidia-smi's; together they are a sample without readings."""
        text = str(said.get("reason", ""))
        fault = fault_in(text)
        reason = fault.reason if fault else str(clean(" ".join(text.split()), 300))
        if said.get("source") == "nvml":
            self._reasons = [reason]
            return None
        reasons = dict.fromkeys([*self._reasons, reason])
        gpus = tuple(replace(gpu, lost=True) for gpu in self._known.values()) if self._known and fault else ()
        return GpuSample(
            time=float(said["time"]), source="", gpus=gpus, reason="; ".join(reasons), received=time.monotonic()
        )

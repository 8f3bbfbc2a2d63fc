"""The probe's messages put together: facts, fast and slow values of each GPU become one sample."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.domain.gpu import GpuReading, GpuSample, HostLoad, HostProcess
from console.domain.text import clean
from console.telemetry import smi
from console.telemetry.faults import LOST, fault_in
from console.telemetry.throttle import throttle_words

_SLOW = ("pcie_tx_mb_s", "pcie_rx_mb_s", "energy_j", "pcie_gen", "pcie_width", "pcie_replays", "power_limit_w")
_FACTS = (
    "power_requested_w", "app_clock_mhz", "app_clock_default_mhz", "pcie_gen_max", "pcie_width_max", "numa_node",
    "persistence", "ecc",
)  # fmt: skip
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
        self._lost_at: dict[str, float] = {}
        self._reasons: list[str] = []
        self._host: HostLoad | None = None
        self._driver = ""
        self._links: dict[int, tuple[float | None, float | None]] = {}
        self._held: Mapping[str, Any] | None = None

    def feed(self, line: bytes) -> GpuSample | None:
        """Take one line; lines that are not ours are passed over."""
        try:
            said = json.loads(line)
        except ValueError:
            return None
        if not isinstance(said, dict):
            return None
        take = {
            "static": self._static,
            "fast": self._fast,
            "slow": self._slowly,
            "smi": self._smi,
            "host": self._host_load,
            "links": self._links_of,
            "apps": self._apps,
        }.get(str(said.get("kind")))
        if take is not None:
            return take(said)
        return self._unavailable(said) if said.get("kind") == "unavailable" else None

    def _static(self, said: Mapping[str, Any]) -> None:
        self._fields = tuple(said["fields"])
        self._driver = str(clean(str(said.get("driver", "")), 40))
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
                mig=str(clean(str(gpu.get("mig") or ""), 40)),
                power_min_w=(gpu.get("power_range_w") or (None, None))[0],
                power_max_w=(gpu.get("power_range_w") or (None, None))[1],
                **{name: gpu.get(name) for name in _FACTS},
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
            self._reading(place, row, lost, float(said["time"]))
            for place, row in enumerate(said["gpus"])
            if place < len(self._facts)
        )
        return GpuSample(
            time=float(said["time"]), source="nvml", gpus=gpus, received=time.monotonic(),
            mono=said.get("mono"), driver=self._driver, host=self._host,
        )  # fmt: skip

    def _missed(self, gpu: GpuReading, time: float) -> GpuReading:
        """Return a GPU's last reading as that of one which is lost since it was first missed."""
        since = self._lost_at.setdefault(gpu.uuid or str(gpu.index), time)
        reasons = gpu.reasons if "gpu" in gpu.reasons else {**gpu.reasons, "gpu": LOST}
        return replace(gpu, lost=True, lost_at=since, reasons=reasons)

    def _reading(self, place: int, row: Sequence[Any], lost: set[int], time: float) -> GpuReading:
        fact = self._facts[place]
        why = self._why[place] if place < len(self._why) else {}
        if fact.index in lost:
            last = self._known.get(fact.uuid or str(fact.index), fact)
            return self._missed(replace(last, reasons={"gpu": why.get("gpu", "GPU is lost")}), time)
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
            shares_pct={int(pid): int(share) for pid, share in (slow.get("shares_pct") or {}).items()},
        )
        if gpu.mig and gpu.gpu_util_pct is None:
            gpu = replace(
                gpu, reasons={**gpu.reasons, "gpu_util_pct": f"MIG is on ({gpu.mig}): not told for the whole GPU"}
            )
        if self._unified and gpu.memory_used_mib is None:
            gpu = smi.with_unified_memory(gpu, self._unified["total_mib"], self._unified["used_mib"])
        self._known[gpu.uuid or str(gpu.index)] = gpu
        self._lost_at.pop(gpu.uuid or str(gpu.index), None)
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
        rows = [self._with_links(gpu) for gpu in rows]
        here = {gpu.uuid for gpu in rows}
        for uuid in here:
            self._lost_at.pop(uuid, None)
        gone = [
            self._missed(gpu, float(said["time"])) for uuid, gpu in self._known.items() if uuid and uuid not in here
        ]
        self._known.update({gpu.uuid: gpu for gpu in rows})
        gpus = tuple(sorted([*rows, *gone], key=lambda gpu: gpu.index))
        return GpuSample(
            time=float(said["time"]), source="nvidia-smi", gpus=gpus, received=time.monotonic(),
            mono=said.get("mono"), host=self._host,
        )  # fmt: skip

    def _with_links(self, gpu: GpuReading) -> GpuReading:
        """Return a reading with what `dmon` and `--query-compute-apps` told of its GPU."""
        received, sent = self._links.get(gpu.index, (None, None))
        held = (self._held or {}).get(gpu.uuid)
        return replace(
            gpu,
            pcie_rx_mb_s=received,
            pcie_tx_mb_s=sent,
            processes=None if held is None else tuple((int(pid), mib) for pid, mib in held),
        )

    def _links_of(self, said: Mapping[str, Any]) -> None:
        self._links = {int(index): (pair[0], pair[1]) for index, pair in said["gpus"].items()}

    def _apps(self, said: Mapping[str, Any]) -> None:
        self._held = said["held"]

    def _host_load(self, said: Mapping[str, Any]) -> None:
        total, free = said.get("memory_total_mib"), said.get("memory_available_mib")
        self._host = HostLoad(
            time=float(said["time"]),
            cores_pct=tuple(float(one) for one in said.get("cores") or ()),
            load_1m=said.get("load_1m"),
            memory_used_mib=None if total is None or free is None else round(total - free, 1),
            memory_total_mib=None if total is None else round(total, 1),
            numa={int(node): str(cores) for node, cores in (said.get("numa") or {}).items()},
            processes=tuple(
                HostProcess(
                    pid=int(one["pid"]),
                    title=clean(str(one.get("title", "")), 200),
                    cpu_pct=one.get("cpu_pct"),
                    session=int(one.get("session") or 0),
                    user=str(clean(str(one.get("user", "")), 60)),
                    start_ticks=int(one.get("start_ticks") or 0),
                    rss_mib=one.get("rss_mib"),
                    visible_devices=None if one.get("devices") is None else str(clean(one["devices"], 200)),
                )
                for one in said.get("processes") or ()
            ),
            reason=str(clean(str(said.get("reason", "")), 200)),
        )

    def _unavailable(self, said: Mapping[str, Any]) -> GpuSample | None:
        """NVML's reason waits for nvidia-smi's; together they are a sample without readings."""
        text = str(said.get("reason", ""))
        fault = fault_in(text)
        reason = fault.reason if fault else str(clean(" ".join(text.split()), 300))
        if said.get("source") == "nvml":
            self._reasons = [reason]
            return None
        reasons = dict.fromkeys([*self._reasons, reason])
        lost = self._known.values() if fault else ()
        gpus = tuple(self._missed(gpu, float(said["time"])) for gpu in lost)
        return GpuSample(
            time=float(said["time"]), source="", gpus=gpus, reason="; ".join(reasons), received=time.monotonic()
        )

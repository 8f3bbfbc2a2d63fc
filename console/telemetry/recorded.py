"""Samples as JSON, and back: what `gpus --json` printed once can be read, judged and replayed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from console.domain.gpu import GpuReading, GpuSample, HostLoad, HostProcess
from console.domain.text import clean

_FIELDS = {field.name for field in dataclasses.fields(GpuReading)}
_TEXTS = ("name", "uuid", "pci_bus_id", "compute_capability", "pstate", "mig")


def sample_of(said: Mapping[str, Any]) -> GpuSample | None:
    """Return the sample that one JSON object of `gpus --json` holds, `None` when it holds none."""
    rows = said.get("gpus")
    if not isinstance(rows, list) or "source" not in said:
        return None
    try:
        gpus = tuple(_reading(row) for row in rows)
        when = said.get("time")
        return GpuSample(
            time=datetime.fromisoformat(when).timestamp() if isinstance(when, str) else float(when or 0.0),
            source=str(clean(str(said.get("source", "")), 40)),
            gpus=gpus,
            reason=str(clean(str(said.get("reason", "")), 400)),
            clock=str(clean(str(said.get("clock", "")), 60)),
            host=_host(said.get("host")),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def _reading(row: Mapping[str, Any]) -> GpuReading:
    values = {name: value for name, value in row.items() if name in _FIELDS and value is not None}
    for name in _TEXTS:
        values[name] = clean(str(row.get(name) or ""), 100)
    if "throttle" in values:
        values["throttle"] = tuple(map(str, values["throttle"]))
    if "processes" in values:
        values["processes"] = tuple((int(one["pid"]), one["memory_mib"]) for one in values["processes"])
    values["shares_pct"] = {int(pid): int(share) for pid, share in (row.get("shares_pct") or {}).items()}
    values["reasons"] = {str(name): str(clean(str(why), 200)) for name, why in (row.get("reasons") or {}).items()}
    return GpuReading(**{**values, "index": int(row["index"])})


def _host(said: object) -> HostLoad | None:
    if not isinstance(said, Mapping):
        return None
    processes = tuple(
        HostProcess(
            int(one["pid"]),
            clean(str(one.get("title") or ""), 200),
            one.get("cpu_pct"),
            int(one.get("session") or 0),
            str(clean(str(one.get("user") or ""), 60)),
            rss_mib=one.get("rss_mib"),
            visible_devices=one.get("visible_devices"),
        )
        for one in said.get("processes") or ()
    )
    return HostLoad(
        time=0.0,
        cores_pct=tuple(float(one) for one in said.get("cores_pct") or ()),
        load_1m=said.get("load_1m"),
        memory_used_mib=said.get("memory_used_mib"),
        memory_total_mib=said.get("memory_total_mib"),
        processes=processes,
    )

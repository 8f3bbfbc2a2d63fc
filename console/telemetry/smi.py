"""`nvidia-smi --query-gpu` CSV: cells to readings, whatever units, headers and oddities surround them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.domain.gpu import GpuReading
from console.domain.text import clean
from console.telemetry.throttle import throttle_words

NUMBERS: Mapping[str, str] = {
    "power.draw.instant": "power_draw_w",
    "power.draw.average": "power_mean_w",
    "power.limit": "power_limit_w",
    "enforced.power.limit": "power_limit_w",
    "power.default_limit": "power_default_w",
    "utilization.gpu": "gpu_util_pct",
    "utilization.memory": "mem_util_pct",
    "memory.used": "memory_used_mib",
    "memory.total": "memory_total_mib",
    "temperature.gpu": "temperature_c",
    "clocks.sm": "sm_clock_mhz",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks.mem": "mem_clock_mhz",
    "clocks.current.memory": "mem_clock_mhz",
    "clocks.max.sm": "max_sm_clock_mhz",
    "fan.speed": "fan_pct",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.max": "pcie_width_max",
    "power.min_limit": "power_min_w",
    "power.max_limit": "power_max_w",
    "temperature.memory": "memory_temperature_c",
    "clocks.applications.graphics": "app_clock_mhz",
    "clocks.default_applications.graphics": "app_clock_default_mhz",
}
"""Field of nvidia-smi → attribute of `GpuReading`. `power.draw` is handled apart."""

WORDS: Mapping[str, str] = {"uuid": "uuid", "gpu_uuid": "uuid", "compute_cap": "compute_capability", "pstate": "pstate"}
BUS = ("pci.bus_id", "gpu_bus_id")
THROTTLE = ("clocks_throttle_reasons.active", "clocks_event_reasons.active")
SWITCHES: Mapping[str, str] = {"persistence_mode": "persistence", "ecc.mode.current": "ecc"}
KNOWN = {
    *NUMBERS,
    *WORDS,
    *SWITCHES,
    "mig.mode.current",
    *BUS,
    *THROTTLE,
    "index",
    "name",
    "gpu_name",
    "timestamp",
    "power.draw",
    "count",
}

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_NUMBER = re.compile(r"^([-+]?\d+(?:\.\d+)?)\s*(%|W|MiB|MHz|C|kB|MB/s)?$")


class NotARowError(ValueError):
    """A line that is no row of the query."""


def number(cell: str) -> tuple[float | None, str]:
    """Return the value of a cell, or `None` and the cell's own words as the reason."""
    match = _NUMBER.match(cell.strip())
    if match:
        return float(match[1]), ""
    words = cell.strip().strip("[]").strip()
    return None, words or "empty"


def field_name(cell: str) -> str:
    """Return a header cell as a field name, its unit dropped."""
    return _UNIT.sub("", cell.strip()).lower()


def split(line: str) -> list[str]:
    """Return the cells of a line."""
    return [cell.strip() for cell in line.split(",")]


def reading(fields: Sequence[str], cells: Sequence[str]) -> GpuReading:
    """Return one row as a reading.

    Raises:
        NotARowError: The line has another number of cells, or no whole number as index.
    """
    if len(cells) != len(fields):
        raise NotARowError(f"{len(cells)} cells instead of {len(fields)}")
    by_name = dict(zip(fields, cells, strict=True))
    try:
        index = int(by_name.get("index", "0"))
    except ValueError as error:
        raise NotARowError(str(error)) from error
    found: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, cell in by_name.items():
        if name in NUMBERS:
            _put(found, reasons, NUMBERS[name], cell)
        elif name in WORDS:
            found[WORDS[name]] = "" if _absent(cell) else str(clean(cell, 100))
        elif name in BUS:
            found["pci_bus_id"] = str(clean(cell, 40))
        elif name in ("name", "gpu_name"):
            found["name"] = clean(cell, 100)
        elif name in SWITCHES:
            found[SWITCHES[name]] = {"enabled": True, "disabled": False}.get(cell.strip().lower())
        elif name == "mig.mode.current":
            found["mig"] = "on" if cell.strip().lower() == "enabled" else ""
        elif name in THROTTLE:
            _put_throttle(found, reasons, cell)
    _put_power(found, reasons, by_name)
    if "power.limit" in by_name and "enforced.power.limit" in by_name:
        found["power_requested_w"] = number(by_name["power.limit"])[0]
    if found.get("mig") and found.get("gpu_util_pct") is None:
        reasons["gpu_util_pct"] = "MIG is on: utilisation is told for no instance"
    return GpuReading(index=index, reasons=reasons, **found)


def _put(found: dict[str, Any], reasons: dict[str, str], attribute: str, cell: str) -> None:
    value, why = number(cell)
    if value is not None:
        whole: Callable[[float], float] = int if attribute.startswith("pcie_") else float
        found[attribute] = whole(value)
        reasons.pop(attribute, None)
    elif attribute not in found:
        reasons[attribute] = why


def _put_power(found: dict[str, Any], reasons: dict[str, str], by_name: Mapping[str, str]) -> None:
    """Take the instantaneous power where it is told; `power.draw` is that or a mean, by driver."""
    if found.get("power_draw_w") is None and "power.draw" in by_name:
        reasons.pop("power_draw_w", None)
        _put(found, reasons, "power_draw_w", by_name["power.draw"])


def _put_throttle(found: dict[str, Any], reasons: dict[str, str], cell: str) -> None:
    try:
        found["throttle"] = throttle_words(int(cell, 16))
    except ValueError:
        reasons["throttle"] = cell.strip().strip("[]") or "empty"


def _absent(cell: str) -> bool:
    return cell.strip().strip("[]").upper() in ("N/A", "NOT SUPPORTED", "")


def guess_fields(cells: Sequence[str]) -> tuple[str, ...]:
    """Return likely field names for a row without a header, from the look of its cells.

    Empty when the row does not look like one: the first cell must be a whole number.
    """
    if len(cells) < 3 or not re.fullmatch(r"\d{1,3}", cells[0]):
        return ()
    names = ["index"]
    numbers: list[int] = []
    for place, cell in enumerate(cells[1:], 1):
        if re.match(r"(GPU|MIG)-[0-9a-f]", cell, re.I):
            names.append("uuid")
        elif re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d", cell):
            names.append("pci.bus_id")
        elif re.fullmatch(r"\d{4}/\d{2}/\d{2} [\d:.]+", cell):
            names.append("timestamp")
        elif re.fullmatch(r"P\d{1,2}", cell):
            names.append("pstate")
        elif number(cell)[0] is not None or _absent(cell):
            names.append("")
            numbers.append(place)
        elif "name" not in names:
            names.append("name")
        else:
            names.append(f"unknown.{place}")
    for place, name in zip(numbers, _guess_numbers([cells[place] for place in numbers]), strict=True):
        names[place] = name
    return tuple(name or f"unknown.{place}" for place, name in enumerate(names))


_BY_UNIT = {"%": ("utilization.gpu", "utilization.memory", "fan.speed"), "MiB": ("memory.used", "memory.total"),
            "W": ("power.draw", "power.limit"), "MHz": ("clocks.sm", "clocks.mem"), "C": ("temperature.gpu",)}  # fmt: skip


def _guess_numbers(cells: Sequence[str]) -> list[str]:
    """Name numeric cells: by unit where they have one, else by the orders that people use."""
    names = [""] * len(cells)
    counts: dict[str, int] = {}
    for place, cell in enumerate(cells):
        match = _NUMBER.match(cell)
        unit = match[2] if match else ""
        if unit in _BY_UNIT and counts.get(unit, 0) < len(_BY_UNIT[unit]):
            names[place] = _BY_UNIT[unit][counts.get(unit, 0)]
            counts[unit] = counts.get(unit, 0) + 1
    if any(names):
        return names
    values = [number(cell)[0] for cell in cells]
    if len(values) == 3 and _pair(values[1], values[2]) and _share(values[0]):
        return ["utilization.gpu", "memory.used", "memory.total"]
    if len(values) == 3 and _pair(values[0], values[1]) and _share(values[2]):
        return ["memory.used", "memory.total", "utilization.gpu"]
    if len(values) == 2 and _pair(values[0], values[1]):
        return ["memory.used", "memory.total"]
    if len(values) == 2 and _share(values[1]) and (values[0] or 0) > 100:
        return ["memory.used", "utilization.gpu"]
    return names


def _pair(used: float | None, total: float | None) -> bool:
    return total is not None and total >= 1000 and (used is None or used <= total)


def _share(value: float | None) -> bool:
    return value is None or 0 <= value <= 100


def with_unified_memory(gpu: GpuReading, total_mib: float, used_mib: float) -> GpuReading:
    """Return a reading whose memory is the host's, and says so."""
    why = f"unified memory: host uses {used_mib / 1024:.1f} of {total_mib / 1024:.1f} GiB"
    held = [mib for _, mib in gpu.processes or () if mib is not None]
    if held:
        why += f", GPU processes hold {sum(held):.0f} MiB"
    reasons = {**gpu.reasons, "memory_used_mib": why, "memory_total_mib": why}
    return replace(gpu, unified_memory=True, reasons=reasons)

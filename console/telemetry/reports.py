"""Files of GPU readings that people were sent: CSV with or without header, XML, tables, error texts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from console.domain.gpu import GpuReading, GpuSample
from console.domain.text import clean, strip_sequences
from console.telemetry import smi
from console.telemetry.faults import LOST, fault_in

_QUERY = re.compile(r"--query-gpu=(\S+)")
_APPS = re.compile(r"--query-(?:compute-)?apps=(\S+)")
_MEMINFO = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB")
_XML_GPU = re.compile(r"<gpu\b.*?</gpu>", re.DOTALL)
_TABLE = re.compile(
    r"^\|\s*(?P<fan>N/A|ERR!|\d+%)\s+(?P<temp>ERR!|N/A|\d+)C?\s+(?P<pstate>\S+)\s+(?P<draw>\S+)\s*/\s*(?P<limit>\S+)\s*\|"
    r"\s*(?P<used>\S+)\s*/\s*(?P<total>\S+)\s*\|\s*(?P<util>\S+)"
)
_TABLE_NAME = re.compile(r"^\|\s*(\d+)\s+(.+?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.\d)")


@dataclass(slots=True)
class _Report:
    """What has been read of a file so far."""

    fields: tuple[str, ...] = ()
    samples: list[GpuSample] = field(default_factory=list)
    rows: list[GpuReading] = field(default_factory=list)
    clock: str = ""
    known: dict[str, GpuReading] = field(default_factory=dict)
    """Last reading by identity, for GPUs that go missing."""
    missing: bool = False
    lost_why: str = ""
    """What the driver said of the GPU that it misses."""
    apps: tuple[str, ...] = ()
    host: dict[str, float] = field(default_factory=dict)

    def row(self, gpu: GpuReading, clock: str) -> None:
        if self.rows and gpu.index <= self.rows[-1].index:
            self.flush()
        self.clock = self.clock or clock
        self.rows.append(gpu)

    def flush(self, reason: str = "") -> None:
        if not self.rows and not reason:
            return
        rows = self.rows
        if reason:
            rows = []
        elif self.missing:
            here = {_identity(gpu) for gpu in rows}
            why = self.lost_why or LOST
            gone = [
                replace(gpu, lost=True, reasons={**gpu.reasons, "gpu": why})
                for key, gpu in self.known.items()
                if key not in here
            ]
            rows = sorted([*rows, *gone], key=lambda gpu: gpu.index)
        self.known.update({_identity(gpu): gpu for gpu in rows if not gpu.lost})
        sample = GpuSample(time=0.0, source="nvidia-smi", gpus=tuple(rows), reason=reason, clock=self.clock)
        if not (reason and self.samples and self.samples[-1].reason == reason):
            self.samples.append(sample)
        self.rows, self.clock = [], ""


def _identity(gpu: GpuReading) -> str:
    return gpu.uuid or gpu.pci_bus_id or str(gpu.index)


def parse_gpu_file(data: bytes, fields: Sequence[str] = ()) -> list[GpuSample]:
    """Return the samples of a file; a text of failure is a sample without GPUs and with its reason.

    Args:
        data: What nvidia-smi or a script printed.
        fields: Names of the columns, when the file does not tell them.
    """
    text = strip_sequences(data.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "<gpu" in text:
        return _parse_xml(text)
    report = _Report(fields=tuple(smi.field_name(name) for name in fields))
    lines = text.split("\n")
    for place, line in enumerate(lines):
        _take_line(report, line, "\n".join(lines[place : place + 2]))
    report.flush()
    return _with_host_memory(report)


def _take_line(report: _Report, line: str, with_next: str) -> None:
    if not line.strip():
        return
    if line.lstrip().startswith("#"):
        _take_comment(report, line)
        return
    fault = fault_in(with_next if fault_in(line) else line)
    if fault is not None:
        report.flush()
        report.missing = report.missing or bool(fault.bus_id)
        report.lost_why = fault.reason if fault.bus_id else report.lost_why
        report.flush(fault.reason)
        return
    memory = _MEMINFO.match(line)
    if memory:
        report.host[memory[1]] = float(memory[2]) / 1024
        return
    cells = smi.split(line)
    if report.apps:
        _take_process(report, cells)
        return
    names = tuple(smi.field_name(cell) for cell in cells)
    if len(names) > 1 and sum(name in smi.KNOWN for name in names) >= max(2, len(names) // 2):
        report.flush()
        report.fields = names
        return
    if line.startswith("|"):
        _take_table_line(report, line)
        return
    _take_row(report, cells)


def _take_row(report: _Report, cells: list[str]) -> None:
    fields = report.fields
    if len(fields) != len(cells):
        fields = smi.guess_fields(cells)
        if not fields or (report.rows and len(cells) != len(report.fields) and report.fields):
            return
        report.fields = fields
    try:
        gpu = smi.reading(fields, cells)
    except smi.NotARowError:
        return
    clock = cells[fields.index("timestamp")] if "timestamp" in fields else ""
    report.row(gpu, clock)


def _take_comment(report: _Report, line: str) -> None:
    """Comments of a collection may name the columns of what follows."""
    report.flush()
    report.apps = ()
    apps = _APPS.search(line)
    if apps:
        report.apps = tuple(smi.field_name(name) for name in apps[1].split(","))
        return
    query = _QUERY.search(line)
    if query:
        report.fields = tuple(smi.field_name(name) for name in query[1].split(","))
        return
    names = [part.strip(" ()#") for part in re.split(r"[,;]", line.partition("(")[2] or line.partition(":")[2])]
    known = [name for name in names if name in smi.KNOWN]
    if len(known) >= 3 or (len(known) == 2 and "index" in known):
        first = names.index(known[0])
        report.fields = tuple(names[first : first + len(names)][: _run_of_names(names[first:])])


def _run_of_names(names: Sequence[str]) -> int:
    count = 0
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_.]*", name) or name in ("csv", "noheader", "nounits"):
            break
        count += 1
    return count


def _take_process(report: _Report, cells: list[str]) -> None:
    if len(cells) != len(report.apps) or not report.samples:
        return
    found = dict(zip(report.apps, cells, strict=True))
    try:
        pid = int(found.get("pid", ""))
    except ValueError:
        return
    held = smi.number(found.get("used_memory", found.get("used_gpu_memory", "")))[0]
    last = report.samples[-1]
    wanted = found.get("gpu_uuid", "")
    gpus = tuple(
        replace(gpu, processes=(*(gpu.processes or ()), (pid, held)))
        if gpu.uuid == wanted or (not gpu.uuid and len(last.gpus) == 1)
        else gpu
        for gpu in last.gpus
    )
    report.samples[-1] = replace(last, gpus=gpus)


def _with_host_memory(report: _Report) -> list[GpuSample]:
    """Where a GPU tells no memory and the file tells the host's, they are one."""
    if len(report.host) < 2:
        return report.samples
    total, used = report.host["MemTotal"], report.host["MemTotal"] - report.host["MemAvailable"]
    return [
        replace(
            sample,
            gpus=tuple(
                smi.with_unified_memory(gpu, total, used)
                if gpu.memory_used_mib is None and gpu.memory_total_mib is None
                else gpu
                for gpu in sample.gpus
            ),
        )
        for sample in report.samples
    ]


def _take_table_line(report: _Report, line: str) -> None:
    """Read the two lines that the human table has for a GPU."""
    name = _TABLE_NAME.match(line)
    if name:
        report.row(GpuReading(int(name[1]), name=clean(name[2], 100), pci_bus_id=name[3]), "")
        return
    match = _TABLE.match(line)
    if match is None:
        return
    whole = report.rows.pop() if report.rows and report.rows[-1].temperature_c is None else None
    index = whole.index if whole else (report.rows[-1].index + 1 if report.rows else 0)
    gpu = _table_reading(index, match)
    if whole:
        gpu = replace(gpu, name=whole.name, pci_bus_id=whole.pci_bus_id)
    report.row(gpu, "")


_TABLE_FIELDS = ("index", "temperature.gpu", "power.draw", "power.limit", "memory.used", "memory.total",
                 "utilization.gpu", "fan.speed", "pstate")  # fmt: skip


def _table_reading(index: int, match: re.Match[str]) -> GpuReading:
    cells = [str(index), *(match[name] for name in ("temp", "draw", "limit", "used", "total", "util", "fan", "pstate"))]
    gpu = smi.reading(_TABLE_FIELDS, cells)
    reasons = {name: "transient error" if why == "ERR!" else why for name, why in gpu.reasons.items()}
    return replace(gpu, reasons=reasons)


def _parse_xml(text: str) -> list[GpuSample]:
    """Read `nvidia-smi -q -x`, several documents or fragments in a row, and table lines between them."""
    samples: list[GpuSample] = []
    rows: list[GpuReading] = []
    seen: set[str] = set()
    end = 0
    for match in _XML_GPU.finditer(text):
        between = text[end : match.start()]
        end = match.end()
        try:
            element = ET.fromstring(match[0])
        except ET.ParseError:
            continue
        identity = element.get("id", "") or str(len(rows))
        if rows and (identity in seen or "<!--" in between or "<?xml" in between):
            samples.append(GpuSample(0.0, "nvidia-smi", tuple(rows)))
            rows, seen = [], set()
        seen.add(identity)
        rows.append(_xml_reading(len(rows), element))
    if rows:
        samples.append(GpuSample(0.0, "nvidia-smi", tuple(rows)))
    tail = _Report()
    for line in text[end:].split("\n"):
        if line.startswith("|"):
            _take_table_line(tail, line)
    tail.flush()
    return [*samples, *tail.samples]


_XML_NUMBERS = (
    ("power_draw_w", ("gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw")),
    ("power_mean_w", ("gpu_power_readings/average_power_draw",)),
    ("power_limit_w", (
        "gpu_power_readings/current_power_limit", "gpu_power_readings/power_limit",
        "power_readings/enforced_power_limit", "power_readings/power_limit",
    )),
    ("power_default_w", ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit")),
    ("gpu_util_pct", ("utilization/gpu_util",)),
    ("mem_util_pct", ("utilization/memory_util",)),
    ("memory_used_mib", ("fb_memory_usage/used",)),
    ("memory_total_mib", ("fb_memory_usage/total",)),
    ("temperature_c", ("temperature/gpu_temp",)),
    ("sm_clock_mhz", ("clocks/sm_clock",)),
    ("mem_clock_mhz", ("clocks/mem_clock",)),
    ("max_sm_clock_mhz", ("max_clocks/sm_clock",)),
    ("fan_pct", ("fan_speed",)),
)  # fmt: skip


def _xml_reading(index: int, element: ET.Element) -> GpuReading:
    found: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for attribute, paths in _XML_NUMBERS:
        for path in paths:
            said = element.findtext(path)
            if said is None:
                continue
            value, why = smi.number(said)
            if value is not None:
                found[attribute] = value
                reasons.pop(attribute, None)
                break
            reasons.setdefault(attribute, why)
    state = (element.findtext("gpu_power_readings/power_state") or element.findtext("performance_state") or "").strip()
    minor = (element.findtext("minor_number") or "").strip()
    return GpuReading(
        index=int(minor) if minor.isdigit() else index,
        uuid=str(clean(element.findtext("uuid") or "", 100)),
        name=clean(element.findtext("product_name") or "", 100),
        pci_bus_id=str(clean(element.get("id", ""), 40)),
        pstate=state if re.fullmatch(r"P\d{1,2}", state) else "",
        reasons=reasons,
        **found,  # type: ignore[arg-type]
    )

"""A window of samples boiled down to the numbers that rules look at; unknown stays `None`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from console.domain.gpu import GpuReading, GpuSample, HostLoad, HostProcess, link_mb_s
from console.domain.throughput import ThroughputSample
from console.telemetry.diagnosis.pauses import work_of

WORKS_PCT = 5.0
"""A GPU busier than this takes part."""

ENGINES = re.compile(r"sglang|vllm|llama[-_ ]?server|xllamacpp", re.I)
"""Titles and commands of inference servers."""


@dataclass(frozen=True, slots=True)
class Span:
    """How a reading moved."""

    middle: float
    low: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True)
class GpuWindow:
    """One GPU over the window."""

    index: int
    last: GpuReading
    util: Span | None = None
    mem_util: Span | None = None
    watts: Span | None = None
    clock: Span | None = None
    temperature: Span | None = None
    link_mb_s: float | None = None
    """The busier direction."""
    throttle: dict[str, float] | None = None
    """Share of the samples in which each reason was active; `None`: not told."""
    replays: int | None = None
    """Packets sent again within the window."""

    @property
    def power_share(self) -> float | None:
        """Watts of the limit."""
        limit = self.last.power_limit_w
        return self.watts.mean / limit if self.watts and limit else None

    @property
    def clock_share(self) -> float | None:
        """Clock of its highest."""
        top = self.last.max_sm_clock_mhz
        return self.clock.middle / top if self.clock and top else None

    @property
    def capacity_mb_s(self) -> float | None:
        """What its link carries in a direction."""
        return link_mb_s(self.last.pcie_gen, self.last.pcie_width)

    @property
    def link_share(self) -> float | None:
        """Traffic of what the link carries."""
        room = self.capacity_mb_s
        return self.link_mb_s / room if room and self.link_mb_s is not None else None

    def slowed_by(self, *words: str) -> float | None:
        """Return in what share of the samples one of these reasons was active."""
        if self.throttle is None:
            return None
        return max((share for reason, share in self.throttle.items() if reason.startswith(words)), default=0.0)


@dataclass(frozen=True, slots=True)
class Window:
    """Everything that was known over the same seconds."""

    seconds: float = 0.0
    """Of work; rests between loads are left out."""
    rest_s: float = 0.0
    """What was left out."""
    samples: int = 0
    gpus: tuple[GpuWindow, ...] = ()
    reason: str = ""
    """Why there are no GPU readings."""
    speeds: int = 0
    """How many readings of the engine's speed are inside."""
    running: float | None = None
    running_steady: bool = False
    queued: float | None = None
    kv: float | None = None
    output_tok_s: float | None = None
    prefill_share: float | None = None
    retracting: bool | None = None
    idle: bool = False
    stale: bool = False
    cores_pct: tuple[float, ...] = ()
    processes: tuple[HostProcess, ...] = ()
    session: int = 0
    """Of the run that is watched; 0 when it is not known."""
    nvlink: bool | None = None
    refused: str = ""
    """The word with which a GPU may not reach another: `CNS`, `GNS`."""
    foreign: tuple[tuple[int, HostProcess, float | None], ...] = field(default=())
    """(GPU index, process, MiB held) of processes that are no part of the engine."""

    @property
    def working(self) -> tuple[GpuWindow, ...]:
        """The GPUs that take part; all of them when none is busy."""
        alive = [gpu for gpu in self.gpus if not gpu.last.lost]
        busy = [gpu for gpu in alive if gpu.util and gpu.util.mean >= WORKS_PCT]
        return tuple(busy or alive)

    def across(self, read: Callable[[GpuWindow], float | None]) -> float | None:
        """Return the median over the GPUs that take part."""
        known = [value for gpu in self.working if (value := read(gpu)) is not None]
        return median(known) if known else None

    @property
    def util(self) -> float | None:
        """SM utilisation."""
        return self.across(lambda gpu: gpu.util.mean if gpu.util else None)

    @property
    def mem_util(self) -> float | None:
        """How long the memory was read or written."""
        return self.across(lambda gpu: gpu.mem_util.mean if gpu.mem_util else None)

    @property
    def power_share(self) -> float | None:
        """Watts of the limit."""
        return self.across(lambda gpu: gpu.power_share)

    @property
    def link_share(self) -> float | None:
        """Traffic of what the links carry, at the busiest one."""
        known = [gpu.link_share for gpu in self.working if gpu.link_share is not None]
        return max(known) if known else None

    @property
    def clock_share(self) -> float | None:
        """Clock of its highest."""
        return self.across(lambda gpu: gpu.clock_share)


def window(
    gpus: Sequence[GpuSample],
    speeds: Sequence[ThroughputSample] = (),
    *,
    session: int = 0,
    nvlink: bool | None = None,
    refused: str = "",
) -> Window:
    """Return the window of samples: the newest seconds of work, or of rest where the work is over.

    Args:
        gpus: GPU samples in their order.
        speeds: The engine's, of the same seconds.
        session: Session of the run's processes: what else holds a GPU is another tenant.
        nvlink: Whether the GPUs are joined by more than PCIe.
        refused: The word with which peer access is refused, empty where it is not.
    """
    work = work_of(gpus, speeds)
    known = list(work.samples)
    host = next((sample.host for sample in reversed(gpus) if sample.host is not None), None)
    if not known:
        return Window(reason=gpus[-1].reason if gpus else "no GPU was read yet", speeds=len(speeds))
    last = speeds[-1] if speeds else None
    if work.rest_s or work.resting:
        speeds = [one for one in speeds if not one.idle and one.time >= known[0].time - 1]
    fresh = [one for one in speeds if one.source and not one.stale]
    running = [float(one.running) for one in fresh if one.running is not None]
    loads = {id(sample.host): sample.host for sample in gpus if sample.host is not None}
    return Window(
        seconds=work.seconds,
        rest_s=work.rest_s,
        samples=len(known),
        gpus=tuple(_gpu(known, place) for place in range(len(known[-1].gpus))),
        speeds=len(fresh),
        running=_mean(running),
        running_steady=len(running) > 2 and max(running) - min(running) <= max(1.0, 0.02 * max(running)),
        queued=_mean(one.queued for one in fresh),
        kv=_mean(one.kv_usage for one in fresh),
        output_tok_s=_mean(one.output_tok_s for one in fresh),
        prefill_share=_prefill_share(fresh),
        retracting=_retracting(fresh),
        idle=bool(last and last.idle) and not work.resting,
        stale=bool(last and last.stale),
        cores_pct=_cores(list(loads.values())),
        processes=host.processes if host else (),
        session=session,
        nvlink=nvlink,
        refused=refused,
        foreign=_foreign(known[-1], host, session),
    )


def _gpu(samples: Sequence[GpuSample], place: int) -> GpuWindow:
    last = samples[-1].gpus[place]
    mine = [gpu for sample in samples for gpu in sample.gpus if _same(gpu, last) and not gpu.lost]
    if not mine:
        return GpuWindow(last.index, last)
    links = [max(gpu.pcie_tx_mb_s or 0.0, gpu.pcie_rx_mb_s or 0.0) for gpu in mine if gpu.pcie_tx_mb_s is not None]
    told = [gpu.throttle for gpu in mine if gpu.throttle is not None]
    reasons = {reason for each in told for reason in each}
    replays = [gpu.pcie_replays for gpu in mine if gpu.pcie_replays is not None]
    return GpuWindow(
        index=last.index,
        last=last,
        util=_span(gpu.gpu_util_pct for gpu in mine),
        mem_util=_span(gpu.mem_util_pct for gpu in mine),
        watts=_span(gpu.power_draw_w for gpu in mine),
        clock=_span(gpu.sm_clock_mhz for gpu in mine),
        temperature=_span(gpu.temperature_c for gpu in mine),
        link_mb_s=fmean(links) if links else None,
        throttle={reason: sum(reason in each for each in told) / len(told) for reason in reasons} if told else None,
        replays=max(0, replays[-1] - replays[0]) if replays else None,
    )


def _same(one: GpuReading, other: GpuReading) -> bool:
    return one.uuid == other.uuid if one.uuid and other.uuid else one.index == other.index


def _span(values: Iterable[float | None]) -> Span | None:
    known = [value for value in values if value is not None]
    return Span(median(known), min(known), max(known), fmean(known)) if known else None


def _mean(values: Iterable[float | int | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None


def _prefill_share(speeds: Sequence[ThroughputSample]) -> float | None:
    out, into = _mean(one.output_tok_s for one in speeds), _mean(one.input_tok_s for one in speeds)
    return None if out is None or into is None or out + into == 0 else into / (out + into)


def _retracting(speeds: Sequence[ThroughputSample]) -> bool | None:
    counts = [one.retracted for one in speeds if one.retracted is not None]
    return counts[-1] > counts[0] if counts else None


def _cores(loads: Sequence[HostLoad | None]) -> tuple[float, ...]:
    rows = [load.cores_pct for load in loads if load is not None and load.cores_pct]
    rows = [row for row in rows if len(row) == len(rows[-1])]
    return tuple(fmean(values) for values in zip(*rows, strict=True)) if rows else ()


def _foreign(
    sample: GpuSample, host: HostLoad | None, session: int
) -> tuple[tuple[int, HostProcess, float | None], ...]:
    """Return who else holds a GPU; a process that cannot be seen is nobody's, rather than a stranger."""
    by_pid = {process.pid: process for process in host.processes} if host else {}
    found = []
    for gpu in sample.gpus:
        for pid, held in gpu.processes or ():
            process = by_pid.get(pid)
            if process is None or not process.title:
                continue
            ours = process.session == session if session and process.session else bool(ENGINES.search(process.title))
            if not ours:
                found.append((gpu.index, process, held))
    return tuple(found)

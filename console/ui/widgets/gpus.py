"""GPU gauges: one widget, one row a GPU, bars scaled to the limit and a minute of history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from console.domain.gpu import GpuReading, GpuSample, lost_words
from console.domain.machine import GpuState, link_words
from console.domain.text import clean, dash
from console.operations.machine_words import topology_lines
from console.state.store import Snapshot
from console.ui import clock
from console.ui.drawing import Span, age, bar, braille, columns, fit, marked, wrapped
from console.ui.widgets.frame import Framed
from console.ui.widgets.inks import Painting

STALE_S = 3.0
"""Older readings are dimmed and carry their age."""

WORKS_PCT = 5.0
"""A GPU busier than this is at work."""


def power_ink(reading: GpuReading) -> str:
    """Return the ink of a power bar: a throttled GPU is not simply busy."""
    return "warn" if reading.throttle else "bar"


def total(sample: GpuSample | None) -> str:
    """Return the power of all GPUs of their limit."""
    if sample is None or not sample.gpus:
        return ""
    power, limit = sample.power_w, sample.limit_w
    share = f" · {power / limit * 100:.0f} %" if power is not None and limit else ""
    return f"{dash(power)} of {dash(limit)} W{share}"


def readings_age(sample: GpuSample | None) -> float | None:
    """Return how old the newest reading is."""
    return None if sample is None or not sample.received else clock.monotonic() - sample.received


def throttled(reading: GpuReading) -> Span:
    """Return the throttle reasons in a word."""
    if reading.lost:
        return "lost", "bad"
    if reading.throttle is None:
        return "—", "dim"
    if not reading.throttle:
        return "none", "dim"
    return clean(reading.throttle[0] + (f" +{len(reading.throttle) - 1}" if len(reading.throttle) > 1 else "")), "warn"


def notes(snapshot: Snapshot) -> list[str]:
    """Return what is to be known of the machine beside its readings: what changed, links below their best."""
    sample = snapshot.gpus
    lost = (
        []
        if sample is None
        else [f"GPU {gpu.index}: {lost_words(gpu, sample)}{_since(gpu)}" for gpu in sample.gpus if gpu.lost]
    )
    since = f"since base run {snapshot.base_run}: " if snapshot.base_run else ""
    said = [*lost, *(f"{since}{text}" for text in snapshot.machine_changes)]
    if snapshot.machine is not None:
        told = ((gpu.index, link_words(gpu)) for gpu in _with_links(snapshot))
        said += [f"GPU {index}: link {words}" for index, (words, below) in told if below]
    if sample is not None and sample.engine_gpus:
        seen = ", ".join("a MIG instance" if index is None else str(index) for index in sample.engine_gpus)
        said.append(f"the engine's GPUs, its 0 first, are {seen} here (CUDA_VISIBLE_DEVICES)")
    return said


def _since(gpu: GpuReading) -> str:
    return f"; since {clock.of_day(gpu.lost_at)}" if gpu.lost_at else ""


def _with_links(snapshot: Snapshot) -> Sequence[GpuState]:
    """Return the states with the links of the newest readings: a link is at its best under load only."""
    states = snapshot.machine.gpus if snapshot.machine is not None else ()
    newest = {gpu.uuid: gpu for gpu in snapshot.gpus.gpus if not gpu.lost} if snapshot.gpus is not None else {}
    found = []
    for state in states:
        gpu = newest.get(state.uuid)
        if gpu is not None and gpu.pcie_gen and gpu.pcie_width:
            busy = (
                "P0"
                if (gpu.gpu_util_pct or 0.0) >= WORKS_PCT
                else state.pstate
                if gpu.pcie_gen == state.pcie_gen
                else "P8"
            )
            state = replace(state, pcie_gen=gpu.pcie_gen, pcie_width=gpu.pcie_width, pstate=busy)
        found.append(state)
    return found


def machine_lines(snapshot: Snapshot, width: int, most: int) -> list[list[Span]]:
    """Return the notes, and the matrix of paths where there is room for all of it; `8` shows the rest."""
    if most < 1:
        return []
    said = notes(snapshot)
    found: list[list[Span]] = [[(fit(f" ! {clean(text)}", width).rstrip(), "warn")] for text in said[:most]]
    if len(said) > most:
        more = f"  … {len(said) - most} more (8)"
        found[-1] = [(fit(found[-1][0][0], width - len(more)) + more, "warn")]
    if snapshot.machine is None or snapshot.machine.topology.nvlink is None:
        return found
    inks = {"head": "dim", "note": "dim", "warn": "warn"}
    drawn = topology_lines(snapshot.machine.topology, width - 2)
    if len(found) + 1 + len(drawn) > most:
        return found
    return [*found, [], *([(" " + clean(text), inks.get(kind, ""))] for text, kind in drawn)]


class Gpus(Painting, Framed, can_focus=True):
    """All GPUs of the host."""

    def __init__(self) -> None:
        super().__init__(id="gpus")
        self.snapshot = Snapshot()
        self.reason = ""
        self.entitle("4", "GPUs")

    def show(self, snapshot: Snapshot, reason: str = "") -> None:
        """Show a snapshot; `reason` says why there are no readings."""
        self.snapshot, self.reason = snapshot, reason
        right = total(snapshot.gpus)
        if right and snapshot.peak_w is not None and self.size.width >= 60:
            right += f" · peak {snapshot.peak_w:,.0f}"
        left = snapshot.gpus.headroom_w if snapshot.gpus is not None else None
        if right and left is not None and self.size.width >= 70:
            right += f" · headroom {left:,.0f}"
        old = readings_age(snapshot.gpus)
        if old is not None and old > STALE_S:
            right = f"{right} · {age(old)} ago"
        self.entitle("4", "GPUs", right)
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return a heading and a row a GPU."""
        sample = self.snapshot.gpus
        if sample is None or not sample.gpus:
            why = self.reason or (sample.reason if sample else "")
            return [
                [("", "")],
                [(" power, clocks and memory of every GPU, ten times a second", "dim")],
                *wrapped(
                    f"none yet: {clean(why)}" if why else "waiting for the first reading",
                    width,
                    "warn" if why else "dim",
                    1,
                ),
            ]
        old = readings_age(sample)
        stale = " dim" if old is not None and old > STALE_S else ""
        means = width >= 76 and any(gpu.power_mean_w is not None for gpu in sample.gpus)
        rest = width - 52 - 6 * means
        bar_width = max(6, min(40, rest * 5 // 9)) if rest >= 14 else max(4, rest)
        past = max(0, min(30, rest - bar_width)) if rest >= 14 else 0
        head = f" GPU {bar_title(bar_width):<{bar_width}} {'W':>5}{'  mean' if means else ''}  {'60 s':<{past}.{past}} {'util %':>6} {'°C':>4} {'MHz':>6} {'mem GiB':>9} throttle"
        rows: list[list[Span]] = [[(head, "dim")]]
        below = machine_lines(self.snapshot, width, height - 1 - len(sample.gpus))
        for place, reading in enumerate(sample.gpus):
            if len(rows) >= height > 1 and place < len(sample.gpus):
                rows[-1] = [(f" … {len(sample.gpus) - place + 1} more (+ zooms)", "dim")]
                break
            rows.append(self._row(place, reading, bar_width, past, stale, means))
        return [*rows, *below]

    def _row(self, place: int, reading: GpuReading, bar_width: int, past: int, stale: str, means: bool) -> list[Span]:
        """Return a GPU's row; what was last read of a lost one is grey, its bar empty."""
        if reading.lost:
            stale = " dim"
        sample = self.snapshot.gpus
        assert sample is not None
        limit = reading.power_limit_w
        share = reading.power_draw_w / limit if reading.power_draw_w is not None and limit else None
        mine = [(time, watts[place] if place < len(watts) else None) for time, watts in self.snapshot.gpu_history]
        history = braille(columns(mine, sample.time, past * 2), limit or 0.0)[0] if past else ""
        marks = [(mark.time, mark.kind) for mark in self.snapshot.marks]
        used, size = reading.memory_used_mib, reading.memory_total_mib
        memory = f"{dash(None if used is None else used / 1024)}/{dash(None if size is None else size / 1024)}"
        filled = bar(None if reading.lost else share, bar_width, power_ink(reading))
        spans: list[Span] = [(f" {reading.index:>3} ", "number"), *filled]
        spans += [
            (f" {dash(reading.power_draw_w):>5}", "strong" + stale),
            (f" {dash(reading.power_mean_w):>5}  " if means else "  ", stale),
            *marked(history, marks, sample.time, "info"),
        ]
        hot = " warn" if reading.temperature_c is not None and reading.temperature_c >= 85 else ""
        spans += [
            (f" {dash(reading.gpu_util_pct):>6}", stale),
            (f" {dash(reading.temperature_c):>4}", stale + hot),
            (f" {dash(reading.sm_clock_mhz):>6}", stale),
            (f" {memory:>9} ", stale),
        ]
        text, ink = throttled(reading)
        return [*spans, (fit(text, 8), ink)]


def bar_title(width: int) -> str:
    """Return what stands over power bars of that many cells: whole words, or nothing."""
    return next((one for one in ("power of limit", "of limit") if len(one) <= width), "")

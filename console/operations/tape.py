"""A tape: what was recorded of a run, as the gauges had it at any moment of it."""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from console.domain.gpu import GpuReading, GpuSample
from console.domain.host import Host, Link, LinkState
from console.domain.profile import Profile, TargetSection
from console.domain.run import Run, RunPhase
from console.domain.text import clean, dash
from console.domain.throughput import ThroughputSample
from console.errors import ConsoleError
from console.journal.book import Journal
from console.journal.packing import MAX, Block, Column, packed, steps
from console.journal.recordings import Kept, blocks_of, marks_of
from console.journal.records import RunEntry
from console.operations.recording import ENGINE_VALUES, FIELDS, GPU_VALUES
from console.operations.replay import Frame, frames_of
from console.state.store import Mark, Snapshot

GAP_S = 6.0
"""A longer pause between two rows is a gap: nobody watched."""

HISTORY_S = 60.0
PEAK_S = 10.0
DRAWN = ("patch", "restart", "measurement")
"""Marks that histories show; the others stand in the story alone."""

MEASURED = "measured"
"""Source of what measurements kept."""

DECODED = 8
"""Blocks whose rows are at hand; a minute of history needs three."""


@dataclass(frozen=True, slots=True)
class Window:
    """A measurement on the tape."""

    began: float
    ended: float
    concurrency: int
    repeat: int
    tok_s: float | None


@dataclass(frozen=True, slots=True)
class Second:
    """A second of the history that gauges draw."""

    time: float
    watts: tuple[float | None, ...]
    """Mean of each GPU."""
    most_w: float | None
    """Highest sum of all GPUs."""
    tok_s: float | None


class Tape:
    """One recorded run, read block by block.

    Args:
        entry: The run.
        kept: Its blocks in the order of time.
        marks: Moments of its story.
    """

    def __init__(self, entry: RunEntry, kept: Sequence[Kept], marks: Sequence[Mark]) -> None:
        self.entry = entry
        self.kept = tuple(kept)
        self.damaged: set[int] = set()
        """Blocks that could not be read."""
        self.windows = windows_of(entry)
        told = [Mark(one.began, "measurement", _told(one)) for one in self.windows]
        self.marks = tuple(sorted({*marks, *told}, key=lambda mark: mark.time))
        self.began = kept[0].began if kept else 0.0
        self.ended = max((one.ended for one in kept), default=0.0)
        self._begins = [one.began for one in kept]
        self.gaps = tuple(
            (earlier.ended, later.began)
            for earlier, later in itertools.pairwise(self.kept)
            if later.began - earlier.ended > max(GAP_S, 3 * earlier.step_s)
        )
        """From when to when nobody watched."""
        self.block = lru_cache(DECODED)(self._block)
        self.seconds = lru_cache(DECODED)(self._seconds)

    @property
    def target_tok_s(self) -> float | None:
        """The line to look at, as the profile had it."""
        return self._profile(0).target.output_tok_s

    @property
    def target_from(self) -> str:
        """Where that number comes from: another model."""
        return self._profile(0).target.origin

    @property
    def recorded(self) -> bool:
        """Whether a console watched it; else there is only what its measurements kept."""
        return any(self.block(number).meta.get("source") != MEASURED for number in range(len(self.kept)))

    def moments(self) -> Iterator[tuple[Block, int]]:
        """Yield every row, in the order of time."""
        for number in range(len(self.kept)):
            block = self.block(number)
            for row in range(len(block)):
                yield block, row

    def part(self, number: int, only: Callable[[str], bool] = lambda name: True) -> Block:
        """Return the rows of one block, or some columns of them; a damaged one has none, and the rest still plays."""
        try:
            return self.kept[number].block(only)
        except ConsoleError:
            self.damaged.add(number)
            return Block([])

    def _block(self, number: int) -> Block:
        return self.part(number)

    def _seconds(self, number: int) -> tuple[Second, ...]:
        """Return the seconds of one block."""
        block = self.block(number)
        gpus = [gpu[0] for gpu in block.meta.get("gpus", ())]
        found = []
        for _, group in itertools.groupby(range(len(block)), lambda row: block.times[row] // 1000):
            rows = list(group)
            watts = tuple(_mean([block.value(f"power_w.{gpu}", row) for row in rows]) for gpu in gpus)
            totals = [value for row in rows if (value := most(block, "power_w", row)) is not None]
            speed = _mean([block.value("tok_s", row) for row in rows])
            found.append(Second(block.times[rows[0]] / 1000, watts, max(totals, default=None), speed))
        return tuple(found)

    def place(self, time: float) -> tuple[int, int] | None:
        """Return block and row that stood there at a moment; `None` where nobody watched."""
        number = bisect.bisect_right(self._begins, time + 0.0005) - 1
        if number < 0:
            return None
        block = self.block(number)
        row = bisect.bisect_right(block.times, round(time * 1000)) - 1
        if row < 0 or time - block.times[row] / 1000 > max(GAP_S, 2 * block.step_s):
            return None
        return number, row

    def beside(self, time: float, way: int) -> float:
        """Return the moment of the next row, or of the one before."""
        number = max(0, bisect.bisect_right(self._begins, time + 0.0005) - 1)
        for block in (number, number + way):
            if not 0 <= block < len(self.kept):
                continue
            times = self.block(block).times
            at = (
                bisect.bisect_right(times, round(time * 1000))
                if way > 0
                else bisect.bisect_left(times, round(time * 1000)) - 1
            )
            if 0 <= at < len(times):
                return times[at] / 1000
        return time

    def window(self, time: float) -> Window | None:
        """Return the measurement that was under way."""
        return next((one for one in self.windows if one.began <= time <= one.ended), None)

    def snapshot(self, time: float) -> Snapshot:
        """Return what the screens would have shown at a moment."""
        found = self.place(time)
        past = self._past(time, found[0] if found else None)
        peak = [one.most_w for one in past if one.time >= time - PEAK_S and one.most_w is not None]
        best = [one.tok_s for one in self.windows if one.ended <= time and one.tok_s is not None]
        fields: dict[str, Any] = {
            "host": Host(self.entry.host, badge=self.entry.badge),
            "link": LinkState(Link.CLOSED),
            "readonly": True,
            "run": self._run(time),
            "profile": self._profile(found[0] if found else 0),
            "marks": tuple(mark for mark in self.marks if mark.time <= time and mark.kind in DRAWN),
            "gpu_history": tuple((one.time, one.watts) for one in past),
            "tok_s_history": tuple((one.time, one.tok_s) for one in past),
            "peak_w": max(peak, default=None),
            "best_tok_s": max(best, default=None),
        }
        if found is None:
            reason = self._why(time)
            return Snapshot(**fields, gpus=GpuSample(time, "", reason=reason),
                            throughput=ThroughputSample(time, "", reason=reason))  # fmt: skip
        block, row = self.block(found[0]), found[1]
        return Snapshot(**fields, gpus=sample_of(block, row), throughput=speed_of(block, row))

    def _past(self, time: float, number: int | None) -> list[Second]:
        if number is None:
            number = bisect.bisect_right(self._begins, time) - 1
        found: list[Second] = []
        while number >= 0 and self.kept[number].ended >= time - HISTORY_S:
            found = [one for one in self.seconds(number) if time - HISTORY_S <= one.time <= time] + found
            number -= 1
        return found

    def _why(self, time: float) -> str:
        for began, ended in self.gaps:
            if began <= time <= ended:
                return "no console watched this part of the run"
        if any(self.kept[number].began <= time <= self.kept[number].ended for number in self.damaged):
            return "this part of the recording is damaged"
        return "the recording begins later" if time < self.began else "the recording ends here"

    def _run(self, time: float) -> Run:
        entry = self.entry
        ready = next((mark.time for mark in self.marks if mark.kind == "ready"), None)
        ended = next((mark for mark in self.marks if mark.kind == "end" and mark.time <= time), None)
        phase = RunPhase.READY if ready is None or ready <= time else RunPhase.STARTING
        return Run(
            entry.id, entry.profile, entry.engine, "", "", 0, entry.started_at,
            phase=RunPhase.EXITED if ended is not None else phase,
            ready_at=ready if ready is not None and ready <= time else None,
            ended_at=ended.time if ended is not None else None,
            patches_on=tuple(map(str, entry.identity.get("patches_on") or ())),
        )  # fmt: skip

    def _profile(self, number: int) -> Profile:
        meta = self.block(number).meta if self.kept else {}
        target = TargetSection(meta.get("target_tok_s"), str(clean(str(meta.get("target_from") or ""), 80)))
        return Profile(self.entry.profile, target=target)


async def load(entry: RunEntry) -> Tape:
    """Return the tape of a run; of one that was only measured, the power and the course of its measurements."""
    journal = Journal()
    kept = await blocks_of(journal, entry.host, entry.id)
    frames = await frames_of(entry)
    marks = [
        Mark(one.time, one.kind, one.text)
        for one in await marks_of(journal, entry.host, entry.id)
        if one.kind != "measurement"
    ]
    if not any(mark.kind == "restart" for mark in marks) and entry.started_at:
        marks.append(Mark(entry.started_at, "restart", f"{entry.id} {entry.profile}".strip()))
    if frames:
        kept = await asyncio.to_thread(_with_measured, kept, frames)
    return Tape(entry, kept, marks)


def windows_of(entry: RunEntry) -> tuple[Window, ...]:
    """Return the measurements of a run in the order of time."""
    found = [
        Window(
            one.started_at,
            one.started_at + one.duration_s,
            one.concurrency_limit,
            one.repeat,
            one.output_throughput_tok_s,
        )
        for one in entry.measurements
    ]
    return tuple(sorted(found, key=lambda one: one.began))


def _told(one: Window) -> str:
    return f"{one.concurrency}: {dash(one.tok_s)} tok/s"


def _with_measured(kept: Sequence[Kept], frames: Sequence[Frame]) -> tuple[Kept, ...]:
    """Add what measurements recorded where nothing else did: their power, and the speed their load had."""
    begins = [one.began - 1 for one in kept]
    reached = list(itertools.accumulate((one.ended + 1 for one in kept), max))  # blocks may lie in one another

    def watched(time: float) -> bool:
        number = bisect.bisect_right(begins, time) - 1
        return number >= 0 and time <= reached[number]

    alone = [frame for frame in frames if not watched(frame.time)]
    added = [_kept(_block_of(list(group))) for _, group in _groups(alone)]
    times = [frame.time for frame in frames]
    filled = [_filled(one, times, frames) for one in kept]
    return tuple(sorted([*filled, *added], key=lambda one: one.began))


def _groups(frames: Sequence[Frame]) -> Iterator[tuple[object, Iterator[Frame]]]:
    number, last = 0, 0.0

    def group(frame: Frame) -> object:
        nonlocal number, last
        number += frame.time - last > GAP_S
        last = frame.time
        return number, frame.concurrency, frame.repeat

    return itertools.groupby(frames, group)


def _filled(one: Kept, times: Sequence[float], frames: Sequence[Frame]) -> Kept:
    """Return a block whose speed was not watched with the one that the load had."""
    first = bisect.bisect_left(times, one.began)
    if first == len(times) or times[first] > one.ended:
        return one
    try:
        if any(one.block(lambda name: name == "tok_s").columns.get("tok_s", [])):
            return one
        block = one.block()
    except ConsoleError:  # the tape tells of it
        return one
    speeds: Column = []
    for time in block.times:
        at = bisect.bisect_right(times, time / 1000) - 1
        near = at >= 0 and time / 1000 - times[at] < 1
        speeds.append(steps("tok_s", frames[at].output_tok_s) if near else None)
    return _kept(replace(block, columns={**block.columns, "tok_s": speeds}))


def _block_of(frames: Sequence[Frame]) -> Block:
    count = max(len(frame.power_w) for frame in frames)
    rows = [frame for frame, last in zip(frames, [None, *frames[:-1]], strict=True)
            if last is None or round(frame.time * 1000) > round(last.time * 1000)]  # fmt: skip
    columns: dict[str, Column] = {
        "power_w": [steps("power_w", frame.total_w) for frame in rows],
        "tok_s": [steps("tok_s", frame.output_tok_s) for frame in rows],
        "running": [steps("running", frame.running) for frame in rows],
    }
    for gpu in range(count):
        name = f"power_w.{gpu}"
        columns[name] = [steps(name, frame.power_w[gpu] if gpu < len(frame.power_w) else None) for frame in rows]
    meta: dict[str, Any] = {"source": MEASURED, "speed_source": MEASURED}
    meta["gpus"] = [[gpu, "", "", None] for gpu in range(count)]
    meta["rung"] = [frames[0].concurrency, frames[0].repeat]
    return Block([round(frame.time * 1000) for frame in rows], columns, 0.0, meta)


def _kept(block: Block) -> Kept:
    return Kept(block.times[0] / 1000, block.times[-1] / 1000, block.step_s, len(block), packed(block))


def most(block: Block, name: str, row: int) -> float | None:
    """Return the highest value that a row stands for."""
    found = block.value(name + MAX, row) if block.step_s else None
    return block.value(name, row) if found is None else found


def sample_of(block: Block, row: int) -> GpuSample:
    """Return the readings of one row."""
    gpus = tuple(_reading(block, row, gpu) for gpu in block.meta.get("gpus", ()))
    known = any(block.value(f"lost.{gpu.index}", row) is not None or gpu.power_draw_w is not None for gpu in gpus)
    reason = "" if known else "no readings of GPUs were recorded"
    return GpuSample(block.times[row] / 1000, str(block.meta.get("source", "")), gpus if known else (), reason)


def _reading(block: Block, row: int, gpu: Sequence[Any]) -> GpuReading:
    index, name, uuid, total_mib = gpu
    values = {FIELDS.get(field, field): block.value(f"{field}.{index}", row) for field in GPU_VALUES}
    limited = most(block, f"throttled.{index}", row)
    head = f"throttle.{index}."
    words = [
        column.removeprefix(head)
        for column in block.columns
        if limited and column.startswith(head) and not column.endswith((MAX, ".min")) and most(block, column, row)
    ]
    return GpuReading(
        index=index,
        name=clean(str(name), 100),
        uuid=str(clean(str(uuid), 100)),
        memory_total_mib=total_mib,
        throttle=None if limited is None else tuple(str(clean(word, 60)) for word in words),
        lost=bool(most(block, f"lost.{index}", row)),
        **values,  # type: ignore[arg-type]
    )


def speed_of(block: Block, row: int) -> ThroughputSample:
    """Return the server's speed of one row."""
    values: dict[str, Any] = {name: block.value(name, row) for name in ENGINE_VALUES}
    for name in ("running", "queued", "retracted"):
        values[name] = None if values[name] is None else round(values[name])
    speed = block.value("tok_s", row)
    known = speed is not None or any(value is not None for value in values.values())
    return ThroughputSample(
        block.times[row] / 1000,
        str(clean(str(block.meta.get("speed_source") or "recorded"), 40)) if known else "",
        speed,
        idle=bool(block.value("idle", row)),
        reason="" if known else "no speed was recorded",
        **values,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

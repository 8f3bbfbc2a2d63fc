"""Recording: what the gauges show of a run goes into the journal, for as long as a console watches it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.domain.gpu import GpuReading, GpuSample
from console.domain.run import LIVING, Run, RunPhase
from console.domain.throughput import ThroughputSample
from console.errors import ConsoleError
from console.journal.packing import Block, Column, steps
from console.operations.desk import Desk
from console.state.store import Snapshot

if TYPE_CHECKING:
    from console.journal.recordings import KeptMark

FLUSH_S = 5.0
"""So much is lost at most when the console is killed."""

ROWS_KEPT = 6000
"""Rows that wait while the journal cannot be written; the oldest go first."""

HELD_S = 5.0
"""A speed that is older is unknown."""

LATE_S = 60.0
"""A patch that was switched so long before a launch belongs to its story."""

KNOWN_ANYWAY = ("restart", "measurement")
"""Marks that the run itself and its measurements tell."""

GPU_VALUES = (
    "power_w", "limit_w", "gpu_util_pct", "mem_util_pct", "memory_used_mib", "temperature_c", "memory_temperature_c",
    "sm_clock_mhz", "mem_clock_mhz", "pcie_tx_mb_s", "pcie_rx_mb_s",
)  # fmt: skip
"""What is kept of each GPU, as columns `NAME.INDEX`; `power_w` alone is all of them together, where all report."""

FIELDS = {"power_w": "power_draw_w", "limit_w": "power_limit_w"}
"""Names that readings have for those; the others are the same."""

ENGINE_VALUES = ("input_tok_s", "running", "queued", "kv_usage", "retracted", "accept_length")

Row = tuple[GpuSample | None, ThroughputSample | None]


def journalled_id(run: Run) -> str:
    """Return the id of a run in the journal: a server that we did not launch has no run folder, hence none of its own."""
    if run.id:
        return run.id
    began = datetime.fromtimestamp(run.started_at, UTC).strftime("%Y-%m-%d-%H%M%S") if run.started_at else "unknown"
    return f"attached-{run.port}-{began}"


async def record_runs(desk: Desk) -> None:
    """Keep what is shown of each run that lives; never returns.

    Raises:
        ConsoleError: The journal cannot be written; what could not be kept is a gap.
    """
    recorder: Recorder | None = None
    try:
        async for snapshot in desk.store.changes():
            run = snapshot.run if snapshot.run is not None and snapshot.run.phase is not RunPhase.NONE else None
            if recorder is not None and (run is None or journalled_id(run) != recorder.run_id):
                await recorder.close()
                recorder = None
            if recorder is None and run is not None and run.phase in LIVING:
                recorder = Recorder(desk, run)
            if recorder is not None and run is not None:
                recorder.take(snapshot, run)
    finally:
        if recorder is not None:
            await asyncio.shield(recorder.close())


class Recorder:
    """What waits to be written of one run."""

    def __init__(self, desk: Desk, run: Run) -> None:
        self.run_id = journalled_id(run)
        self._desk = desk
        self._run = run
        self._rows: list[Row] = []
        self._seen: tuple[object, object] = (None, None)
        self._marks: dict[tuple[str, float], KeptMark] = {}
        self._marked: set[tuple[str, float]] = set()
        self._looked_at: tuple[object, object] = (None, None)
        self._introduced = False
        self._due = time.monotonic() + FLUSH_S
        self._writing: asyncio.Task[None] | None = None

    def take(self, snapshot: Snapshot, run: Run) -> None:
        """Take what is shown now; it is written in the background, a few seconds' worth at once."""
        if self._writing is not None and self._writing.done():
            done, self._writing = self._writing, None
            done.result()
        self._run = run
        self._take_marks(snapshot, run)
        if run.phase in LIVING:
            self._take_row(snapshot)
        if self._writing is None and time.monotonic() >= self._due:
            self._due = time.monotonic() + FLUSH_S
            self._writing = asyncio.create_task(self._write(snapshot), name=f"record {self.run_id}")

    async def close(self) -> None:
        """Write what still waits."""
        if self._writing is not None:
            await self._writing
        await self._write(self._desk.store.snapshot)

    def _take_row(self, snapshot: Snapshot) -> None:
        gpus, speed = snapshot.gpus, snapshot.throughput
        fresh = gpus is not None and gpus is not self._seen[0] and bool(gpus.gpus)
        told = speed is not None and speed is not self._seen[1] and bool(speed.source)
        newest = gpus.time if gpus is not None and gpus.gpus else 0.0
        if fresh or (told and speed is not None and speed.time - newest > HELD_S):  # a host without readings of GPUs
            self._rows.append((gpus if fresh else None, speed))
            del self._rows[:-ROWS_KEPT]
        self._seen = (gpus, speed)

    def _take_marks(self, snapshot: Snapshot, run: Run) -> None:
        if self._looked_at[0] is snapshot.marks and self._looked_at[1] is run:
            return
        from console.journal.recordings import KeptMark

        self._looked_at = (snapshot.marks, run)
        told = [
            KeptMark(mark.time, mark.kind, mark.text)
            for mark in snapshot.marks
            if mark.time >= run.started_at - LATE_S and mark.kind not in KNOWN_ANYWAY
        ]
        if run.started_at:
            told.append(KeptMark(run.started_at, "restart", f"{run.id} {run.profile}".strip()))
        if run.ready_at:
            told.append(KeptMark(run.ready_at, "ready", ""))
        if run.ended_at and run.phase not in LIVING:
            told.append(KeptMark(run.ended_at, "end", run.failure.cause if run.failure else run.phase.value))
        for mark in told:
            key = (mark.kind, round(mark.time, 3))
            if key not in self._marked and key not in self._marks:
                self._marks[key] = mark

    async def _write(self, snapshot: Snapshot) -> None:
        from console.journal import recordings
        from console.journal.book import Journal

        host, journal = self._desk.link.host, Journal()
        rows, self._rows = self._rows, []
        marks, self._marks = self._marks, {}
        self._looked_at = (None, None)  # should the journal refuse these, they are taken once more
        if not self._introduced:
            await recordings.introduce(journal, _entry(self._desk, self._run, self.run_id))
            self._introduced = True
        if rows:
            block = await asyncio.to_thread(block_of, rows, _meta(snapshot))
            await recordings.append(journal, host.name, self.run_id, block)
        if marks:
            await recordings.keep_marks(journal, host.name, self.run_id, marks.values())
            self._marked |= marks.keys()


def _entry(desk: Desk, run: Run, run_id: str) -> dict[str, Any]:
    host = desk.link.host
    identity = {"resolved": dict(run.resolved), "patches_on": list(run.patches_on), "versions": dict(run.versions)}
    return {
        "host": host.name,
        "id": run_id,
        "profile": run.profile,
        "engine": run.engine,
        "started_at": run.started_at,
        "badge": host.badge,
        "identity": {name: value for name, value in identity.items() if value},
    }


def _meta(snapshot: Snapshot) -> dict[str, Any]:
    """Return what a replay needs to know beside the readings: which cards they are, and the line to look at."""
    gpus = snapshot.gpus.gpus if snapshot.gpus is not None else ()
    target = snapshot.profile.target if snapshot.profile is not None else None
    return {
        "gpus": [[gpu.index, str(gpu.name), gpu.uuid, gpu.memory_total_mib] for gpu in gpus],
        "source": snapshot.gpus.source if snapshot.gpus is not None else "",
        "speed_source": snapshot.throughput.source if snapshot.throughput is not None else "",
        "target_tok_s": target.output_tok_s if target is not None else None,
        "target_from": target.origin if target is not None else "",
    }


def block_of(rows: Sequence[Row], meta: dict[str, Any]) -> Block:
    """Return rows of readings as a block."""
    columns: dict[str, Column] = {}
    times: list[int] = []
    for gpus, speed in rows:
        at = gpus.time if gpus is not None else speed.time if speed is not None else 0.0
        time_ms = round(at * 1000)
        if times and time_ms <= times[-1]:  # the host's clock was set back, or one sample came twice
            continue
        told = _of_gpus(gpus) if gpus is not None else {}
        if speed is not None and speed.source and abs(at - speed.time) <= HELD_S:
            told |= _of_engine(speed)
        for name, value in told.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = [None] * len(times)
            column.append(steps(name, value))
        times.append(time_ms)
        for column in columns.values():
            if len(column) < len(times):
                column.append(None)
    return Block(times, columns, 0.0, meta)


def _of_gpus(sample: GpuSample) -> dict[str, float | None]:
    whole = sample.reporting == len(sample.gpus)
    told: dict[str, float | None] = {"power_w": sample.power_w if whole else None}
    for gpu in sample.gpus:
        told |= _of_gpu(gpu)
    return told


def _of_gpu(gpu: GpuReading) -> dict[str, float | None]:
    told: dict[str, float | None] = {f"{name}.{gpu.index}": getattr(gpu, FIELDS.get(name, name)) for name in GPU_VALUES}
    told[f"lost.{gpu.index}"] = float(gpu.lost)
    told[f"throttled.{gpu.index}"] = None if gpu.throttle is None else float(bool(gpu.throttle))
    for word in gpu.throttle or ():
        told[f"throttle.{gpu.index}.{word}"] = 1.0
    return told


def _of_engine(sample: ThroughputSample) -> dict[str, float | None]:
    told: dict[str, float | None] = {name: getattr(sample, name) for name in ENGINE_VALUES}
    told["tok_s"] = None if sample.stale else sample.output_tok_s
    told["idle"] = float(sample.idle)
    return told


@contextlib.asynccontextmanager
async def recorded(desk: Desk) -> AsyncIterator[None]:
    """Record for as long as something else goes on; a journal that cannot be used is told of and spoils nothing."""
    task = asyncio.create_task(record_runs(desk), name="recording")
    try:
        yield
    finally:
        task.cancel()
        (said,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(said, ConsoleError):
            desk.say(f"not recorded: {said.one_line()}")

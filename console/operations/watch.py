"""Watching: GPU samples and the engine's speed into the store, with a minute of history."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from console.domain.gpu import GpuSample
from console.domain.host import Link
from console.domain.run import UP, Run
from console.domain.throughput import ThroughputSample
from console.errors import ConsoleError
from console.operations.desk import Desk
from console.operations.keys import auth_of
from console.telemetry import reports, sampler
from console.telemetry.decode import LogReadings
from console.telemetry.joined import joules_per_token
from console.telemetry.sources import EngineSources
from console.telemetry.steady import Steady
from console.telemetry.throughput import Speeds

__all__ = ["gpu_samples", "joules_per_token", "parse_gpu_file", "watch_gpus", "watch_throughput"]

HISTORY_S = 60
PERIOD_S = 1.0

SLOW_PERIOD_S = 3.0
"""Between polls while nothing is gained by more: nothing answers, or the server has been idle for a while.

Every poll is a line in the server's log.
"""

IDLE_POLLS = 10
"""A server that was idle so often is polled slowly."""


def gpu_samples(desk: Desk, *, hz: float = 10.0) -> AsyncIterator[GpuSample]:
    """Yield GPU samples of the desk's host without end, across lost links."""
    return sampler.samples(desk.link, hz=hz)


def parse_gpu_file(data: bytes, fields: Sequence[str] = ()) -> list[GpuSample]:
    """Return the samples of a file that somebody sent: CSV, XML, table or error text."""
    return reports.parse_gpu_file(data, fields)


async def watch_gpus(desk: Desk, *, hz: float = 10.0) -> None:
    """Keep `gpus` and `gpu_history` of the store fresh; never returns."""
    from console.operations.diagnosis import Judge, session_of, topology_of

    history: deque[tuple[float, tuple[float | None, ...]]] = deque(maxlen=HISTORY_S)
    second: list[GpuSample] = []
    judge = Judge()
    async with aclosing(sampler.samples(desk.link, hz=hz)) as samples:
        async for sample in samples:
            if second and sample.gpus and _order(sample) != _order(second[-1]):
                second = []
                history.clear()  # a GPU came, went or changed its place: rows of the history are places
            if second and int(sample.time) != int(second[0].time):
                history.append((float(int(second[0].time)), _mean_watts(second)))
                second = []
            if sample.gpus:
                second.append(sample)
            fields: dict[str, Any] = {"gpus": sample, "gpu_history": tuple(history)}
            speed = desk.store.snapshot.throughput
            if judge.take(sample, speed, session=session_of(desk), topology=topology_of(desk)):
                fields |= {"diagnosis": judge.diagnosis, "peak_w": judge.peak_w,
                           "energy_j_per_token": judge.energy_j_per_token}  # fmt: skip
            desk.store.update(**fields)


def _order(sample: GpuSample) -> list[str]:
    return [gpu.uuid for gpu in sample.gpus]


def _mean_watts(samples: Sequence[GpuSample]) -> tuple[float | None, ...]:
    """Return each GPU's mean over the samples that have its reading."""
    watts: dict[int, list[float]] = {}
    for sample in samples:
        for place, gpu in enumerate(sample.gpus):
            known = watts.setdefault(place, [])
            if (draw := gpu.power_now_w) is not None:
                known.append(draw)
    return tuple(sum(known) / len(known) if known else None for _, known in sorted(watts.items()))


async def watch_throughput(desk: Desk) -> None:
    """Keep `throughput`, `tok_s_history` and `best_tok_s` of the store fresh; never returns.

    The history keeps a point a poll. The speed of `throughput` is the mean of the last 3 s, and the best is the best
    mean of at least 5 s without a pause (`telemetry.steady`): a single poll of a counter that moves in steps is no speed.
    """
    history: deque[tuple[float, float | None]] = deque(maxlen=HISTORY_S)
    steady = Steady()
    while True:
        await sampler.until_up(desk.link)
        port, run_id = _port(desk)
        async with aclosing(_speeds(desk, port)) as speeds:
            async for sample in speeds:
                if not sample.source and desk.link.state.link is not Link.UP:
                    break  # the last readings stay, with their age
                history.append((sample.time, None if sample.stale else sample.output_tok_s))
                speed = None if sample.stale else sample.output_tok_s
                mean = steady.step(sample.time, speed, sample.output_tokens)
                shown = replace(sample, output_tok_s=mean)
                best = max(filter(None, (desk.store.snapshot.best_tok_s, steady.best)), default=None)
                desk.store.update(throughput=shown, tok_s_history=tuple(history), best_tok_s=best)
                if (port, run_id) != _port(desk):
                    steady = Steady()  # the best of a run is no promise of the next
                    desk.store.update(best_tok_s=None)
                    break
                if desk.link.state.link is not Link.UP:
                    break


async def _speeds(desk: Desk, port: int) -> AsyncGenerator[ThroughputSample, None]:
    """Yield a sample a second, fewer while nothing happens; the log is read only while nothing else answers."""
    from console.remote.http import http_client

    offset_s = desk.link.facts.clock_offset_s or 0.0
    log = _LogSource(desk)
    async with http_client(desk.link, port, timeout_s=4.0, auth=auth_of(desk, desk.store.snapshot.run)) as client:
        sources = EngineSources(client, offset_s)
        idle = 0
        try:
            while True:
                began = time.monotonic()
                sample = await sources.sample()
                if not sample.source:
                    sample = await log.instead_of(sample)
                yield sample
                idle = idle + 1 if sample.idle else 0
                slow = idle >= IDLE_POLLS or not sample.source
                await _next_poll(desk, began + (SLOW_PERIOD_S if slow else PERIOD_S))
        finally:
            await log.close()


async def _next_poll(desk: Desk, due: float) -> None:
    """Wait until it is time, or the run is another or in another phase."""
    before = _phase(desk)
    while (rest := due - time.monotonic()) > 0 and _phase(desk) == before:
        await asyncio.sleep(min(rest, 0.25))


def _phase(desk: Desk) -> tuple[object, ...]:
    snapshot = desk.store.snapshot
    return (*_port(desk), snapshot.run.phase if snapshot.run else None, snapshot.sweep is not None)


class _LogSource:
    """Decode lines of the run's log, followed from the first time that nothing else answers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._readings = LogReadings()
        self._speeds = Speeds()
        self._task: asyncio.Task[None] | None = None

    async def instead_of(self, sample: ThroughputSample) -> ThroughputSample:
        """Return the log's sample, or the given one when the log has none."""
        run = self._desk.store.snapshot.run
        if self._task is None and run is not None and run.log and run.phase in UP:
            self._task = asyncio.create_task(self._follow(run))
        reading = self._readings.reading(sample.time)
        if reading is None:
            return sample
        found = self._speeds.step(reading)
        return ThroughputSample(
            time=found.time,
            source=found.source,
            output_tok_s=found.output_tok_s,
            running=found.running,
            queued=found.queued,
            kv_usage=found.kv_usage,
            idle=found.idle,
            stale=found.stale,
            reason=sample.reason,
            received=time.monotonic(),
        )

    async def close(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, run: Run) -> None:
        from console.operations import logs

        try:
            async for records in logs.follow(self._desk, run, tail_lines=0):
                offset_s = self._desk.link.facts.clock_offset_s or 0.0
                self._readings.take(records, time.time() + offset_s)
        except ConsoleError:
            return  # the pane that shows the log says what is wrong with it


def _port(desk: Desk) -> tuple[int, str]:
    run, profile = desk.store.snapshot.run, desk.profile
    if run is not None and run.port:
        return run.port, run.id
    return (profile.launch.port if profile is not None else 30000), ""

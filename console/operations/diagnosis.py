"""Diagnosis: the last seconds of GPUs and engine judged together, for the store and for a shell."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from console.domain.diagnosis import Diagnosis
from console.domain.gpu import GpuSample
from console.domain.throughput import ThroughputSample
from console.domain.topology import Topology
from console.operations.desk import Desk
from console.telemetry.diagnosis.judge import diagnose
from console.telemetry.diagnosis.pauses import KEEP_S, WINDOW_S
from console.telemetry.diagnosis.window import window
from console.telemetry.joined import energy_per_token

PERIOD_S = 1.0


class Judge:
    """Keeps the last seconds of one host and judges them once a second."""

    def __init__(self) -> None:
        self._gpus: deque[GpuSample] = deque()
        self._speeds: deque[ThroughputSample] = deque()
        self._judged_at = 0.0
        self.diagnosis: Diagnosis | None = None
        self.peak_w: float | None = None
        self.energy_j_per_token: float | None = None

    def take(
        self,
        sample: GpuSample,
        speed: ThroughputSample | None = None,
        *,
        session: int = 0,
        topology: Topology | None = None,
    ) -> bool:
        """Take what is new; return whether it was judged anew."""
        if self._gpus and [gpu.uuid for gpu in self._gpus[-1].gpus] != [gpu.uuid for gpu in sample.gpus]:
            self._gpus.clear()  # a GPU came, went or changed its place
        self._gpus.append(sample)
        if speed is not None and (not self._speeds or speed.time != self._speeds[-1].time):
            self._speeds.append(speed)
        for kept in (self._gpus, self._speeds):
            while len(kept) > 1 and kept[-1].time - kept[0].time > KEEP_S:
                kept.popleft()
        if 0 <= sample.time - self._judged_at < PERIOD_S:
            return False
        self._judged_at = sample.time
        known = [one for one in self._speeds if abs(one.time - sample.time) <= KEEP_S]
        self.diagnosis = diagnose(
            window(
                list(self._gpus),
                known,
                session=session,
                nvlink=topology.nvlink if topology is not None else None,
                refused=topology.refused if topology is not None else "",
            )
        )
        recent = [one for one in self._gpus if sample.time - one.time <= WINDOW_S]
        self.peak_w = max((one.power_w for one in recent if one.power_w is not None), default=None)
        self.energy_j_per_token = energy_per_token(
            recent, [one for one in known if abs(one.time - sample.time) <= WINDOW_S]
        )
        return True


def session_of(desk: Desk) -> int:
    """Return the session of the run that is watched, 0 when it is not known."""
    run = desk.store.snapshot.run
    return run.process.session if run is not None and run.process is not None else 0


def topology_of(desk: Desk) -> Topology | None:
    """Return how the host's GPUs are joined, `None` before it was looked at."""
    machine = desk.store.snapshot.machine
    return machine.topology if machine is not None else None


async def judged(
    desk: Desk, samples: AsyncIterator[GpuSample]
) -> AsyncGenerator[tuple[GpuSample, Diagnosis | None], None]:
    """Yield each sample with the newest verdict; the engine is asked for its speed meanwhile."""
    from console.operations.machine import look_quietly
    from console.operations.watch import watch_throughput

    judge = Judge()
    asking = asyncio.gather(watch_throughput(desk), look_quietly(desk))
    try:
        async with aclosing(samples) as stream:  # type: ignore[type-var]
            async for sample in stream:
                judge.take(sample, desk.store.snapshot.throughput, session=session_of(desk), topology=topology_of(desk))
                yield sample, judge.diagnosis
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking


def of_samples(samples: Sequence[GpuSample]) -> list[tuple[GpuSample, Diagnosis | None]]:
    """Return samples of a file with the verdict over the seconds before each."""
    judge = Judge()
    found = []
    for sample in samples:
        judge.take(sample)
        found.append((sample, judge.diagnosis))
    return found

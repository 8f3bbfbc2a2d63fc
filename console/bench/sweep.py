"""A ladder of measurements: each one idle, flushed, warmed up, measured, with its own window of power."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from console.bench.judging import measurement
from console.bench.loading import LoadPlan, LoadProgress, load
from console.bench.power import PowerWindow, power_between
from console.bench.protocol import flush, wait_idle
from console.bench.vocabulary import USUAL
from console.domain.gpu import GpuSample
from console.domain.measurement import Measurement, SweepProgress
from console.domain.profile import BenchSection, LimitsSection
from console.remote.link import HostLink
from console.telemetry.sources import EngineSources

if TYPE_CHECKING:
    import httpx

SEED = 20_000
"""Of the first repeat; the same for every arm, another for each repeat and concurrency."""

SAMPLES_KEPT = 60 * 60 * 10


@dataclass(frozen=True, slots=True)
class Target:
    """The server that is measured."""

    run_id: str
    engine: str
    port: int
    model: str = ""
    token_range: tuple[int, int] = USUAL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of each request: the key that the server wants."""


class Sweep:
    """Measures each concurrency, repeats and all; knows how far it is.

    Args:
        link: The host.
        client: HTTP to the server.
        target: The server.
        bench: The plan of the profile.
        limits: For goodput.
        clock_offset_s: Host's wall clock minus ours.
    """

    def __init__(
        self,
        link: HostLink,
        client: httpx.AsyncClient,
        target: Target,
        bench: BenchSection,
        limits: LimitsSection,
        clock_offset_s: float = 0.0,
    ) -> None:
        self._link = link
        self._client = client
        self._target = target
        self._bench = bench
        self._limits = limits
        self._sources = EngineSources(client, clock_offset_s)
        self.power: deque[GpuSample] = deque(maxlen=SAMPLES_KEPT)
        """Filled by whoever samples the GPUs meanwhile."""
        self.first_repeat = 0
        """Number of the first repeat, where the seeds begin."""
        self.progress = SweepProgress(target.run_id, bench.concurrency, bench.repeats)
        self.windows: list[tuple[float, float]] = []
        """Of the measurements done, in the host's time."""
        self.loads: list[Mapping[str, Any]] = []
        """What the load program said of each: a row for each request, and the course."""

    async def run(self) -> AsyncGenerator[SweepProgress, None]:
        """Yield the progress, each measurement as it is done; closing the iterator ends the load."""
        for repeat in range(self.first_repeat, self.first_repeat + self._bench.repeats):
            for concurrency in self._bench.concurrency:
                async with aclosing(self._one(concurrency, repeat)) as steps:
                    async for progress in steps:
                        yield progress
        self.progress = replace(self.progress, current=None, step="", fraction=None, live_tok_s=None)
        yield self.progress

    async def _one(self, concurrency: int, repeat: int) -> AsyncGenerator[SweepProgress, None]:
        self.progress = replace(self.progress, current=concurrency, repeat=repeat - self.first_repeat, live_tok_s=None)
        yield self._step("waiting for idle")
        idle = await wait_idle(self._sources)
        yield self._step("flushing")
        flushed = await flush(self._client, self._target.engine)
        before = await self._retracted()
        yield self._step("warming up")
        plan = self._plan(concurrency, repeat)
        result: Mapping[str, Any] = {}
        async with aclosing(load(self._link, plan)) as parts:
            async for part in parts:
                if isinstance(part, LoadProgress):
                    yield self._progress(part)
                else:
                    result = part
        after = await self._retracted()
        began, ended = float(result["began"]), float(result["ended"])
        self.windows.append((began, ended))
        self.loads.append(result)
        done = measurement(
            self._target.run_id,
            plan,
            repeat,
            result,
            limits=self._limits,
            power=self._power(began, ended),
            flushed=flushed,
            idle=idle,
            retracted=None if before is None or after is None else max(0.0, after - before),
        )
        self.progress = replace(self.progress, done=(*self.progress.done, done), failed=0, silent_s=0.0)
        yield self.progress

    def _power(self, began: float, ended: float) -> PowerWindow:
        return power_between(self.power, began, ended)

    def _step(self, step: str, fraction: float | None = None) -> SweepProgress:
        self.progress = replace(self.progress, step=step, fraction=fraction)
        return self.progress

    def _progress(self, part: LoadProgress) -> SweepProgress:
        step = "warming up" if part.phase == "warmup" else "measuring"
        self.progress = replace(self.progress, live_tok_s=part.tok_s, failed=part.failed, silent_s=part.silent_s)
        return self._step(step, part.done / part.total if part.total else None)

    def _plan(self, concurrency: int, repeat: int) -> LoadPlan:
        bench = self._bench
        return LoadPlan(
            port=self._target.port,
            concurrency=concurrency,
            requests=concurrency * max(1, bench.requests_per_stream),
            warmup=concurrency,
            input_tokens=bench.input_tokens,
            output_tokens=bench.output_tokens,
            seed=SEED + 1000 * repeat + concurrency,
            api=bench.api or ("generate" if self._target.engine == "sglang" else "completions"),
            rate=bench.request_rate,
            arrival=bench.arrival,
            burst=bench.burst,
            input_spread=bench.input_spread,
            output_spread=bench.output_spread,
            ignore_eos=bench.ignore_eos,
            model=self._target.model,
            token_range=self._target.token_range,
            headers=self._target.headers,
        )

    async def _retracted(self) -> float | None:
        reading = await self._sources.reading()
        return None if reading is None else reading.retracted


def best(measurements: tuple[Measurement, ...]) -> Measurement | None:
    """Return the untainted measurement with the most output tok/s; `None` when none is fit."""
    fit = [one for one in measurements if one.output_throughput_tok_s and not one.tainted]
    return max(fit, key=lambda one: one.output_throughput_tok_s or 0.0, default=None)

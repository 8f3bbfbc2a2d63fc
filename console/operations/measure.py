"""Measuring: the profile's ladder against the running server, each rung journalled with its identity."""

from __future__ import annotations

import asyncio
import contextlib
import json
import posixpath
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from console.bench.knee import Knee, knee
from console.bench.naming import engine_names
from console.bench.sweep import SAMPLES_KEPT, Sweep, Target
from console.bench.vocabulary import size_in, size_told, token_range
from console.domain.activity import Activity, Outcome
from console.domain.gpu import GpuSample
from console.domain.measurement import Measurement, SweepProgress
from console.domain.profile import BenchSection, LimitsSection
from console.domain.run import Run, RunPhase
from console.domain.text import clean, dash
from console.errors import ConsoleError, RefusedError, RemoteError, UsageError
from console.operations import machine
from console.operations.desk import Desk
from console.operations.holds import held, must_hold
from console.operations.identity import identity_of, model_folder
from console.operations.keys import auth_of, headers_of
from console.operations.recording import journalled_id, recorded
from console.operations.watch import watch_gpus
from console.state.store import Mark

if TYPE_CHECKING:
    import httpx

    from console.journal.book import Journal
    from console.journal.records import RunEntry

__all__ = ["Knee", "engine_names", "identity_of", "knee", "sweep"]

FRESH_S = 2.0
"""GPU samples younger than this mean that somebody is watching already."""

FIRST_SAMPLE_S = 4.0


async def sweep(
    desk: Desk,
    *,
    concurrency: Sequence[int] = (),
    repeats: int = 0,
    first_repeat: int = 0,
    rate: float | None = None,
    arrival: str = "",
) -> AsyncIterator[SweepProgress]:
    """Measure a ladder against the ready server; yields the progress, the last one complete.

    Closing the iterator, or cancelling its task, ends the load on the host.

    Args:
        desk: Its run must be ready.
        concurrency: Instead of the profile's.
        repeats: Instead of the profile's, unless 0.
        first_repeat: Number of the first repeat: prompts follow from it, so equal numbers have equal prompts.
        rate: Requests a second of an open loop, instead of the profile's.
        arrival: How they arrive, instead of the profile's.

    Raises:
        ReadOnlyError: Load and an emptied prefix cache are changes, too.
        RefusedError: No server is ready.
        UsageError: A concurrency is not a positive number.
    """
    desk.must_write("bench run")
    bench, limits = _bench(desk, concurrency, repeats)
    if rate is not None:
        bench = replace(bench, request_rate=rate, arrival=arrival or bench.arrival)
    run = await _ready_run(desk)
    text = f"measure {run.id} at {', '.join(map(str, bench.concurrency))}"
    number = desk.store.begin(Activity(0, "bench", clean(text), started_at=time.time()))
    began = time.monotonic()
    outcome, detail = Outcome.FAILED, "cancelled"
    try:
        async with (
            held(desk, text, total=False),
            aclosing(_measured(desk, run, bench, limits, first_repeat)) as steps,
        ):
            async for progress in steps:
                must_hold(desk)
                desk.store.update(sweep=progress)
                yield progress
        outcome, detail = Outcome.DONE, _told(desk.store.snapshot.sweep)
    except ConsoleError as error:
        detail = error.one_line()
        raise
    finally:
        last = desk.store.snapshot.sweep
        if outcome is not Outcome.DONE and last is not None:
            desk.store.update(sweep=replace(last, current=None, step="", live_tok_s=None, fraction=None, error=detail))
        desk.store.amend(number, outcome=outcome, detail=clean(detail), ms=(time.monotonic() - began) * 1000)


async def _measured(
    desk: Desk, run: Run, bench: BenchSection, limits: LimitsSection, first_repeat: int
) -> AsyncGenerator[SweepProgress, None]:
    from console.journal.book import Journal
    from console.remote.http import http_client

    journal = Journal()
    offset_s = desk.link.facts.clock_offset_s or 0.0
    async with (
        http_client(desk.link, run.port, timeout_s=15.0, auth=auth_of(desk, run)) as client,
        _power(desk) as samples,
    ):
        await _first_sample(desk, samples)
        identity = await identity_of(desk, run)
        entry = _entry(desk, run, identity)
        await journal.record_run(entry)
        base, since = await machine.since_base(entry)
        for text in since:
            desk.say(f"since base run {base}: {text}")
        size = await _vocabulary(desk, identity["resolved"]) or await _told_vocabulary(client)
        tokens = token_range(size)
        ladder = Sweep(
            desk.link,
            client,
            replace(_target(run), token_range=tokens, headers=headers_of(desk, run)),
            bench,
            limits,
            offset_s,
        )
        ladder.power, ladder.first_repeat = samples, first_repeat
        kept, done = 0, list[Measurement]()
        async with aclosing(ladder.run()) as steps:
            async for progress in steps:
                if len(progress.done) > kept:
                    window = ladder.windows[kept]
                    one = machine.marked(progress.done[kept], identity, _within(samples, window))
                    done.append(one)
                    try:
                        await _keep(desk, journal, one, window, samples, ladder.loads[kept])
                    except ConsoleError:
                        yield replace(progress, done=tuple(done))  # what took minutes is told, if it cannot be kept
                        raise
                    kept += 1
                yield replace(progress, done=tuple(done))


def _within(samples: Iterable[GpuSample], window: tuple[float, float]) -> list[GpuSample]:
    return [sample for sample in samples if window[0] <= sample.time <= window[1]]


async def _keep(
    desk: Desk,
    journal: Journal,
    one: Measurement,
    window: tuple[float, float],
    samples: Iterable[GpuSample],
    load: Mapping[str, Any],
) -> None:
    rows = [[round(sample.time, 2), [gpu.power_draw_w for gpu in sample.gpus]] for sample in _within(samples, window)]
    host = desk.link.host
    await journal.record_measurement(host.name, one, badge=host.badge, telemetry=rows, load=load)
    mark = Mark(window[0], "measurement", f"{one.concurrency_limit}: {dash(one.output_throughput_tok_s)} tok/s")
    desk.store.update(marks=(*desk.store.snapshot.marks, mark))


@contextlib.asynccontextmanager
async def _power(desk: Desk) -> AsyncIterator[deque[GpuSample]]:
    """Collect the GPU samples of the store, watching the GPUs ourselves when nobody does."""
    samples: deque[GpuSample] = deque(maxlen=SAMPLES_KEPT)

    async def collect() -> None:
        last: GpuSample | None = None
        async for snapshot in desk.store.changes():
            if snapshot.gpus is not None and snapshot.gpus is not last and snapshot.gpus.gpus:
                samples.append(snapshot.gpus)
            last = snapshot.gpus

    seen = desk.store.snapshot.gpus
    watched = seen is not None and time.monotonic() - seen.received < FRESH_S
    tasks = [asyncio.create_task(collect())]
    if not watched:
        tasks.append(asyncio.create_task(watch_gpus(desk)))
    try:
        async with contextlib.nullcontext() if watched else recorded(desk):
            yield samples
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first_sample(desk: Desk, samples: deque[GpuSample]) -> None:
    """Give the probe a moment: the identity names the GPUs, and the first window wants its watts."""
    until = time.monotonic() + FIRST_SAMPLE_S
    while not samples and time.monotonic() < until:
        seen = desk.store.snapshot.gpus
        if seen is not None and seen.reason:
            return
        await asyncio.sleep(0.05)


def _bench(desk: Desk, concurrency: Sequence[int], repeats: int) -> tuple[BenchSection, LimitsSection]:
    profile = desk.profile
    bench = profile.bench if profile is not None else BenchSection()
    limits = profile.limits if profile is not None else LimitsSection()
    wanted = tuple(concurrency) or bench.concurrency
    if not wanted or any(one < 1 for one in wanted) or repeats < 0:
        raise UsageError(f"concurrency must be positive numbers, not {', '.join(map(str, wanted)) or 'nothing'}")
    return replace(bench, concurrency=wanted, repeats=repeats or bench.repeats), limits


async def _ready_run(desk: Desk) -> Run:
    run = desk.store.snapshot.run
    if run is None or run.phase not in (RunPhase.READY, RunPhase.BUSY):
        from console.operations import server

        run = await server.status(desk)
    host = desk.link.host.name
    if run is None:
        raise RefusedError(f"{host}: no server to measure", hint="start one with: tokwatt serve start")
    if run.phase not in (RunPhase.READY, RunPhase.BUSY):
        cause = run.failure.cause if run.failure else ""
        raise RefusedError(f"{host}: run {run.id} is {run.phase.value}, not ready", cause, "tokwatt serve status")
    return replace(run, id=journalled_id(run))


def _target(run: Run) -> Target:
    model = run.resolved.get("served_model_name") or run.resolved.get("model_path") or ""
    return Target(run.id, run.engine or "sglang", run.port, str(model) if isinstance(model, str) else "")


async def _vocabulary(desk: Desk, resolved: Mapping[str, Any]) -> int | None:
    """Return the size of the served model's vocabulary; `None` when its folder on the host does not tell."""
    if not (model := model_folder(resolved)):
        return None
    args = {"path": posixpath.join(model, "config.json"), "hash": False, "git": False}
    try:
        config = json.loads((await desk.link.call("read", args)).body)
    except (RemoteError, ValueError):
        return None
    return size_in(config) if isinstance(config, dict) else None


async def _told_vocabulary(client: httpx.AsyncClient) -> int | None:
    """Return the size of the vocabulary where the server tells it: llama.cpp's, whose model is one file."""
    import httpx

    try:
        return size_told((await client.get("/v1/models")).json())
    except (httpx.HTTPError, ValueError):
        return None


def _entry(desk: Desk, run: Run, identity: Mapping[str, Any]) -> RunEntry:
    from console.journal.records import RunEntry

    host = desk.link.host
    return RunEntry(run.id, host.name, run.profile, run.engine, run.started_at, host.badge, identity)


def _told(progress: SweepProgress | None) -> str:
    parts = [
        f"{one.concurrency_limit}: {one.output_throughput_tok_s:,.0f} tok/s"
        for one in (progress.done if progress else ())
        if one.output_throughput_tok_s is not None
    ]
    return " · ".join(parts) or "nothing measured"

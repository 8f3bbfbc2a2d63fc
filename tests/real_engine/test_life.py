"""A real SGLang from launch to proven end, over a real sshd, with a console that dies and a link that is dead on the way."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.host import Link
from console.domain.measurement import Measurement
from console.domain.run import LogRecord, Run, RunPhase
from console.domain.throughput import ThroughputSample
from console.engines.records import LogParser
from console.engines.registry import engine
from console.errors import AlreadySoError
from console.operations import logs, server
from console.operations.desk import Desk
from console.operations.measure import sweep
from console.operations.watch import watch_throughput
from console.remote.http import http_client
from tests.real_engine.conftest import READY_S, Bay, alive, until
from tests.real_engine.cutting import way_to

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(1200)]

CUT_S = 60.0
READY_LINE = "fired up and ready to roll"
STEPS = ["start", "arguments", "workers", "distributed", "weights", "kv cache", "http", "ready"]


async def test_the_life_of_a_server_whose_console_is_killed_and_whose_link_is_cut_during_the_launch(bay: Bay) -> None:
    profile = bay.profile()
    await a_console_launches_and_is_killed(bay, str(profile))
    ready = await another_waits_over_a_link_that_is_dead_meanwhile(bay, profile)
    the_ladder_is_whole(ready)
    desk = await bay.desk(profile)
    attached = await server.attach(desk)
    assert attached is not None and (attached.id, attached.phase) == (ready.id, RunPhase.READY)
    assert attached.ladder == ready.ladder
    await what_is_in_force_is_told(desk, ready)
    await a_request_is_answered(desk, ready)
    await speed_has_a_source_while_it_is_measured(desk)
    with pytest.raises(AlreadySoError, match=ready.id):
        await server.start(await bay.desk(profile))
    await its_end_is_proven(bay, desk, ready)


async def a_console_launches_and_is_killed(bay: Bay, profile: str) -> None:
    console = subprocess.Popen(
        bay.command("--profile", profile, "serve", "start", "--wait"),
        env=bay.environment(),
        cwd=bay.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await until(
            lambda: any("server_args=" in log.read_text() for log in bay.folder.glob("ssh/state/**/server.log"))
        )
        assert console.poll() is None
    finally:
        console.kill()
        console.wait()


async def another_waits_over_a_link_that_is_dead_meanwhile(bay: Bay, profile: Path) -> Run:
    """The cut is silent: no end of a connection tells of it; the engine starts, and writes, all through it."""
    async with way_to(bay.server.target) as way:
        desk = await bay.desk(profile, way.target)
        run = await server.attach(desk)
        assert run is not None and run.adopted and run.phase is RunPhase.STARTING
        log, told = Path(run.log), list[LogRecord]()
        following = asyncio.create_task(follow_into(told, desk, run))
        waiting = asyncio.create_task(server.wait_ready(desk, run, deadline_s=READY_S))
        await until(lambda: bool(told) and bool(desk.store.snapshot.run and desk.store.snapshot.run.ladder))
        way.cut()
        size, processes = log.stat().st_size, set(alive(run))
        await asyncio.sleep(CUT_S)
        assert desk.link.state.link is not Link.UP and not waiting.done()
        assert log.stat().st_size > size and processes <= set(alive(run))
        way.mend()
        ready = await waiting
        await until(lambda: sum(READY_LINE in record.raw for record in told) == 1)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        whole = LogParser(engine(run.engine).grammar()).feed(log.read_bytes())
        assert [record.raw for record in told] == [record.raw for record in whole][: len(told)]
        return ready


async def follow_into(told: list[LogRecord], desk: Desk, run: Run) -> None:
    async with aclosing(logs.follow(desk, run, from_offset=0)) as batches:
        async for records in batches:
            told += records


def the_ladder_is_whole(run: Run) -> None:
    assert run.phase is RunPhase.READY and run.failure is None and run.ready_at is not None
    steps = [rung.name for rung in run.ladder]
    assert [step for step in steps if step in STEPS] == STEPS
    times = [(rung.started_s, rung.ended_s) for rung in run.ladder]
    assert all(began is not None and ended is not None and began <= ended for began, ended in times)
    assert times[-1][1] == pytest.approx(run.ready_at - run.started_at, abs=2)
    assert dict(run.versions)["sglang"] == "0.5.23" and "torch" in run.versions


async def what_is_in_force_is_told(desk: Desk, run: Run) -> None:
    resolved = await server.resolved_arguments(desk, run)
    assert len(resolved) > 300
    assert (resolved["device"], resolved["dtype"], resolved["served_model_name"]) == ("cpu", "float32", "tiny")
    assert resolved["max_total_tokens"] == 32768
    assert not {"version", "status", "internal_states"} & resolved.keys()
    assert desk.profile is not None
    [difference] = server.differences(desk.profile, resolved)
    assert (difference.name, difference.requested, difference.resolved) == ("sampling-backend", "flashinfer", "pytorch")


async def a_request_is_answered(desk: Desk, run: Run) -> None:
    async with http_client(desk.link, run.port, timeout_s=120.0) as client:
        reply = await client.post(
            "/v1/completions", json={"model": "tiny", "prompt": "Once", "max_tokens": 5, "ignore_eos": True}
        )
    assert reply.status_code == 200 and reply.json()["usage"]["completion_tokens"] == 5
    assert await server.requests_in_flight(desk, run) == 0


async def speed_has_a_source_while_it_is_measured(desk: Desk) -> None:
    """Counts come from the engine's own usage; the clock of two busy cores is not looked at."""
    watching = asyncio.create_task(watch_throughput(desk))
    seen: list[ThroughputSample] = []
    done: tuple[Measurement, ...] = ()
    async with aclosing(sweep(desk)) as steps:  # type: ignore[type-var]
        async for progress in steps:
            done = progress.done
            if desk.store.snapshot.throughput is not None:
                seen.append(desk.store.snapshot.throughput)
    async with asyncio.timeout(60):
        while not (sample := desk.store.snapshot.throughput) or not sample.idle:
            await asyncio.sleep(0.1)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    assert {sample.source for sample in seen} - {""} == {"/metrics"}
    assert any(sample.output_tok_s for sample in seen)
    # no rung here need be busy for the 5 s that a best is counted over
    counts = [(one.concurrency_limit, one.completed, one.failed, one.input_tokens, one.output_tokens) for one in done]
    assert counts == [(1, 4, 0, 4 * 64, 4 * 32), (8, 32, 0, 32 * 64, 32 * 32)]
    for one in done:
        assert one.output_throughput_tok_s and one.ttft_ms.p50_ms and one.protocol["flushed"]
        assert one.protocol["token_range"] == [256, 1024] and one.protocol["idle_before"]
        assert not [why for why in one.tainted if "the client was" not in why]


async def its_end_is_proven(bay: Bay, desk: Desk, run: Run) -> None:
    processes = set(alive(run))
    assert len(processes) >= 3
    stopped = await server.stop(desk, run, grace_s=120)
    assert (stopped.phase, stopped.failure) == (RunPhase.EXITED, None)
    assert stopped.exit_status in (0, 137)
    assert not set(alive(run))
    assert f"every process gone · port {run.port} free · GPU memory not checked (no nvidia-smi)" in bay.said
    assert "SIGKILL" not in " ".join(bay.said)
    again = await server.status(await bay.desk(bay.profile()))
    assert again is not None and (again.phase, again.failure, again.exit_status) == (
        RunPhase.EXITED, None, stopped.exit_status,
    )  # fmt: skip

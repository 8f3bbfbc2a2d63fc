"""A real vLLM from launch to proven end, and deaths of its own kind; llama.cpp stands in for the rest."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from console.domain.run import LogKind, Run, RunPhase
from console.errors import ConsoleError, RefusedError
from console.operations import logs, server
from console.operations.desk import Desk
from console.remote.http import http_client
from tests.real_engine.conftest import READY_S, Bay, alive, until
from tests.real_engine.test_deaths import stranger_on

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(1200)]

STEPS = ["start", "arguments", "engine", "distributed", "weights", "kv cache", "warm-up", "http", "ready"]


async def test_the_life_of_a_server(vllm_bay: Bay) -> None:
    profile = vllm_bay.vllm_profile(args="max-num-seqs = 4\nenable-prefix-caching = true\nblock-size = 32")
    desk = await vllm_bay.desk(profile)
    run = await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)
    assert (run.phase, run.failure) == (RunPhase.READY, None) and run.ready_at is not None
    assert [rung.name for rung in run.ladder] == STEPS
    times = [(rung.started_s, rung.ended_s) for rung in run.ladder]
    assert all(began is not None and ended is not None and began <= ended for began, ended in times)
    assert times[-1][1] == pytest.approx(run.ready_at - run.started_at, abs=2)
    assert dict(run.versions)["vllm"].startswith("0.32.0")
    await what_is_in_force_is_told(desk, run)
    await requests_are_counted_while_they_run(desk, run)
    async with http_client(desk.link, run.port, timeout_s=60.0) as client:
        assert (await client.post("/reset_prefix_cache")).json() == {"success": True}
    told = [record async for record in logs.past(desk, run)]
    speeds = [record.values for record in told if record.kind is LogKind.DECODE]
    assert any(isinstance(speed := values["gen_throughput_tok_s"], float) and speed > 0 for values in speeds)
    assert not [record for record in told if record.kind is LogKind.FAILURE]
    processes = set(alive(run))
    assert len(processes) >= 3
    stopped = await server.stop(desk, run, grace_s=60)
    assert (stopped.phase, stopped.failure) == (RunPhase.EXITED, None)
    assert not set(alive(run))
    assert f"every process gone · port {run.port} free · GPU memory not checked (no nvidia-smi)" in vllm_bay.said
    assert "abort of all requests: HTTP 200" in vllm_bay.said
    assert "SIGKILL" not in " ".join(vllm_bay.said)
    again = await server.status(await vllm_bay.desk(profile))
    assert again is not None and (again.phase, again.failure) == (RunPhase.EXITED, None)


async def what_is_in_force_is_told(desk: Desk, run: Run) -> None:
    from_log = run.resolved
    assert (from_log["dtype"], from_log["max_model_len"], from_log["enforce_eager"]) == ("float32", 2048, True)
    resolved = await server.resolved_arguments(desk, run)
    assert len(resolved) > 150
    assert (resolved["dtype"], resolved["max_num_seqs"], resolved["max_model_len"]) == ("float32", 4, 2048)
    assert desk.profile is not None
    found = {each.name: (each.requested, each.resolved) for each in server.differences(desk.profile, resolved)}
    assert found.keys() <= {"block-size"}


async def requests_are_counted_while_they_run(desk: Desk, run: Run) -> None:
    async def ask(tokens: int) -> int:
        body = {"model": "tiny", "prompt": "Once", "max_tokens": tokens, "ignore_eos": True}
        async with http_client(desk.link, run.port, timeout_s=600.0) as client:
            reply = await client.post("/v1/completions", json=body)
        assert reply.status_code == 200
        return int(reply.json()["usage"]["completion_tokens"])

    assert await ask(5) == 5
    asking = [asyncio.create_task(ask(2000)) for _ in range(6)]
    async with asyncio.timeout(READY_S):
        while await server.requests_in_flight(desk, run) != 6:  # four run, two wait
            assert not all(task.done() for task in asking)
            await asyncio.sleep(0.05)
    assert await asyncio.gather(*asking) == [2000] * 6
    assert await server.requests_in_flight(desk, run) == 0


DEATHS = {
    "a wrong flag": ("max-num-sequencess = 2", 1, "unknown argument: --max-num-sequencess 2", 2),
    "no memory": ("", 4000, "the host's memory does not suffice on kv cache allocation: 4000.0 GiB asked", 1),
}


@pytest.mark.parametrize("name", DEATHS)
async def test_what_keeps_it_from_coming_up(vllm_bay: Bay, name: str) -> None:
    args, kv_gb, cause, status = DEATHS[name]
    desk = await vllm_bay.desk(vllm_bay.vllm_profile(args=args, kv_gb=kv_gb))
    with pytest.raises(ConsoleError, match=f"failed: {cause}"):
        await server.wait_ready(desk, await server.start(desk, force=True), deadline_s=READY_S)
    [run] = vllm_bay.runs()
    await until((run / "exit").exists)
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, status)
    assert found.failure is not None and found.failure.cause.startswith(cause)
    assert not list(alive(found))


async def test_a_port_that_is_taken_before_and_meanwhile(vllm_bay: Bay) -> None:
    """It takes its port before it loads anything."""
    desk = await vllm_bay.desk(vllm_bay.vllm_profile())
    run = await server.start(desk)
    with stranger_on(vllm_bay.port):
        with pytest.raises(ConsoleError, match=f"failed: port {vllm_bay.port} is taken"):
            await server.wait_ready(desk, run, deadline_s=READY_S)
        await until((vllm_bay.runs()[0] / "exit").exists)
        found = await server.find_run(desk, run.id)
        assert (found.phase, found.exit_status) == (RunPhase.FAILED, 1)
        with pytest.raises(RefusedError, match=f"port {vllm_bay.port} is taken by pid {os.getpid()}"):
            await server.start(desk)


async def test_a_launcher_that_is_killed_leaves_nothing_that_is_not_named(vllm_bay: Bay) -> None:
    """Its children notice the death of their parent in their own time; until then they are orphans."""
    desk = await vllm_bay.desk(vllm_bay.vllm_profile())
    run = await server.start(desk)
    await until(lambda: "Initializing a V1 LLM engine" in Path(run.log).read_text())
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    for pid in set(alive(run)) - {run.process.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # they would end by themselves at a moment of their own
    await until((vllm_bay.runs()[0] / "exit").exists)
    orphans = list(alive(run))
    assert orphans
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, 137)
    assert found.failure is not None and found.failure.cause.startswith("killed by signal 9")
    assert f"{len(orphans)} of its processes live on" in found.failure.hint
    assert "VLLM::EngineCore" in found.failure.hint
    stopped = await server.stop(desk, found, grace_s=5)
    assert stopped.phase is RunPhase.EXITED and not list(alive(run))

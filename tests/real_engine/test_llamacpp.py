"""llama.cpp's real server from launch to proven end, and all of its deaths: starts take a tenth of a second."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.run import LogKind, Run, RunPhase
from console.errors import AlreadySoError, ConsoleError, RefusedError
from console.experiments.answers import PROMPTS
from console.operations import answers, logs, measure, server
from console.operations.desk import Desk
from console.remote.http import http_client
from tests.real_engine.conftest import Bay, alive, until
from tests.real_engine.test_deaths import stranger_on

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(300)]

READY_S = 60.0


async def ready(bay: Bay, profile: Path) -> tuple[Desk, Run]:
    desk = await bay.desk(profile)
    return desk, await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)


async def ask(desk: Desk, run: Run, tokens: int) -> int:
    body = {"model": "tiny", "prompt": "Once", "max_tokens": tokens, "ignore_eos": True}
    async with http_client(desk.link, run.port, timeout_s=120.0) as client:
        reply = await client.post("/v1/completions", json=body)
    assert reply.status_code == 200
    return int(reply.json()["usage"]["completion_tokens"])


async def test_the_life_of_a_server(llama_bay: Bay) -> None:
    profile = llama_bay.llama_profile(args="metrics = true\nslots = true\nparallel = 2\nctx-size = 1000")
    desk, run = await ready(llama_bay, profile)
    assert (run.engine, run.phase, run.failure) == ("llamacpp", RunPhase.READY, None)
    assert [rung.name for rung in run.ladder] == ["start", "arguments", "weights", "kv cache", "http", "ready"]
    assert all(rung.started_s is not None and rung.ended_s is not None for rung in run.ladder)
    assert run.ready_at is not None and 0 <= run.ready_at - run.started_at < READY_S
    assert await ask(desk, run, 5) == 5
    assert await server.requests_in_flight(desk, run) == 0
    resolved = await server.resolved_arguments(desk, run)
    assert (resolved["parallel"], resolved["model"], resolved["alias"]) == (2, str(llama_bay.model), "tiny")
    assert desk.profile is not None and not server.differences(desk.profile, resolved)
    with pytest.raises(AlreadySoError, match=run.id):
        await server.start(await llama_bay.desk(profile))
    told = [record async for record in logs.past(desk, run)]
    speeds = [record.values for record in told if "request_throughput_tok_s" in record.values]
    assert [values["tokens"] for values in speeds] == [5]
    assert not [record for record in told if record.kind in (LogKind.FAILURE, LogKind.DECODE)]
    stopped = await server.stop(desk, run, grace_s=30)
    assert (stopped.phase, stopped.failure, stopped.exit_status) == (RunPhase.EXITED, None, 0)
    assert not list(alive(run))
    assert "requests end with the server: llamacpp has no call that aborts them" in llama_bay.said
    assert f"every process gone · port {run.port} free · GPU memory not checked (no nvidia-smi)" in llama_bay.said
    assert "SIGKILL" not in " ".join(llama_bay.said)
    again = await server.status(await llama_bay.desk(profile))
    assert again is not None and again.phase is RunPhase.EXITED


async def test_a_server_that_wants_a_key_is_asked_with_it(llama_bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_KEY", "hunter2hunter2")
    key = 'api-key = { from = "env", name = "TINY_KEY" }'
    profile = llama_bay.llama_profile(args=f"metrics = true\nslots = true\nparallel = 2\nctx-size = 8192\n{key}")
    desk, run = await ready(llama_bay, profile)
    async with http_client(desk.link, run.port) as client:
        assert (await client.get("/metrics")).status_code == 401, "it tells nobody without"
    assert await server.requests_in_flight(desk, run) == 0
    async with aclosing(measure.sweep(desk, concurrency=(2,), repeats=1)) as steps:  # type: ignore[type-var]
        told = [step async for step in steps]
    [done] = told[-1].done
    assert (done.completed, done.failed) == (done.requests, 0) and done.output_tokens > 0
    assert len(await answers.ask(desk, run) or ()) == len(PROMPTS)
    await server.stop(desk, run, grace_s=30)
    kept = [path for path in llama_bay.folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert not kept, "a secret stays out of files"


async def test_requests_that_run_are_counted_and_do_not_keep_a_stop(llama_bay: Bay) -> None:
    desk, run = await ready(llama_bay, llama_bay.llama_profile(args="metrics = true\nparallel = 2\nctx-size = 200000"))
    asking = [asyncio.create_task(ask(desk, run, 100_000)) for _ in range(2)]
    async with asyncio.timeout(READY_S):
        while await server.requests_in_flight(desk, run) != 2:
            await asyncio.sleep(0.05)
    assert (await server.blast_radius(desk)).startswith("2 requests in flight · ready again in about")
    stopped = await server.stop(desk, run, grace_s=30)
    assert stopped.phase is RunPhase.EXITED and not list(alive(run))
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_server_of_unknown_make_is_ready_when_it_answers(llama_bay: Bay) -> None:
    """The same server under the kind of which only the protocol is known."""
    desk, run = await ready(llama_bay, llama_bay.llama_profile(kind="openai"))
    assert (run.engine, run.phase) == ("openai", RunPhase.READY) and run.ready_at is not None
    assert await ask(desk, run, 5) == 5
    assert (await server.resolved_arguments(desk, run))["alias"] == "tiny"
    stopped = await server.stop(desk, run, grace_s=30)
    assert (stopped.phase, stopped.exit_status) == (RunPhase.EXITED, 0)


DEATHS = {
    "a wrong flag": ("contxt-size = 128", (), "unknown argument: --contxt-size 128", 2),
    "a wrong choice": ('cache-type-k = "f8"', (), "--cache-type-k cannot be 'f8'", 2),
    "no memory": ("ctx-size = 8000000", ("prlimit", "--as=2000000000"), "the host's memory does not suffice", 1),
}


@pytest.mark.parametrize("name", DEATHS)
async def test_what_keeps_it_from_coming_up(llama_bay: Bay, name: str) -> None:
    args, before, cause, status = DEATHS[name]
    desk = await llama_bay.desk(llama_bay.llama_profile(args=args, before=before))
    with pytest.raises(ConsoleError, match=f"failed: {cause}"):
        await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)
    [run] = llama_bay.runs()
    await until((run / "exit").exists, READY_S)
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, status)
    assert found.failure is not None and found.failure.lines
    done = llama_bay.shell("--profile", str(llama_bay.folder / "tiny.toml"), "serve", "status", "--json")
    told = json.loads(done.stdout)["run"]
    assert (told["phase"], told["failure"]["cause"]) == ("failed", found.failure.cause)


async def test_a_model_that_is_cut_off(llama_bay: Bay) -> None:
    model = llama_bay.folder / "cut.gguf"
    model.write_bytes(llama_bay.model.read_bytes()[:1000])
    desk = await llama_bay.desk(llama_bay.llama_profile(model=model))
    with pytest.raises(ConsoleError, match="failed: the model's file is damaged or incomplete"):
        await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)


async def test_a_port_that_is_taken_before_and_meanwhile(llama_bay: Bay) -> None:
    late = ("bash", "-c", 'while ! [ -e go ]; do sleep 0.05; done; exec "$@"', "late")
    profile = llama_bay.llama_profile(before=late)
    profile.write_text(profile.read_text().replace("[launch]\n", f'[launch]\nworkdir = "{llama_bay.folder}"\n'))
    desk = await llama_bay.desk(profile)
    run = await server.start(desk)
    with stranger_on(llama_bay.port):
        (llama_bay.folder / "go").touch()
        with pytest.raises(ConsoleError, match=f"failed: port {llama_bay.port} is taken"):
            await server.wait_ready(desk, run, deadline_s=READY_S)
        await until((llama_bay.runs()[0] / "exit").exists, READY_S)
        with pytest.raises(RefusedError, match=f"port {llama_bay.port} is taken by pid {os.getpid()}"):
            await server.start(desk)


async def test_orphans_of_a_launcher_that_was_killed_are_named_and_ended(llama_bay: Bay) -> None:
    desk, run = await ready(llama_bay, llama_bay.llama_profile(before=("bash", "-c", '"$@" & wait', "wrapper")))
    assert run.process is not None and len(list(alive(run))) >= 2
    os.kill(run.process.pid, signal.SIGKILL)
    await until((llama_bay.runs()[0] / "exit").exists, READY_S)
    orphans = list(alive(run))
    assert len(orphans) == 1
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, 137)
    assert found.failure is not None and found.failure.cause.startswith("killed by signal 9")
    assert f"1 of its processes live on: {orphans[0]}" in found.failure.hint
    with contextlib.suppress(ConsoleError):
        await server.start(desk)
    assert list(alive(run)) == orphans
    stopped = await server.stop(desk, found, grace_s=5)
    assert stopped.phase is RunPhase.EXITED and not list(alive(run))

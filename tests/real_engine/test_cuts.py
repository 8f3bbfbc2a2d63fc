"""A console that is killed, or whose connection is reset, at any moment of a real launch: one whole server all the same."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from console.domain.run import RunPhase
from console.engines.records import LogParser
from console.engines.registry import engine
from console.operations import logs, server
from tests.real_engine.conftest import Bay, alive, until

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(300)]

READY_S = 60.0
SLOW = ("bash", "-c", 'for n in 1 2 3 4; do echo "before it $n"; sleep 0.5; done; exec "$@"', "slow")
"""Makes a start last long enough for whatever happens in it."""

MOMENTS: dict[str, Callable[[Path], bool]] = {
    "while it is launched": lambda run: True,
    "once it writes": lambda run: (run / "server.log").exists() and b"before it 2" in (run / "server.log").read_bytes(),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("what", ["console", "link"])
async def test_one_server_comes_up_with_its_whole_log(llama_bay: Bay, what: str, moment: str) -> None:
    bay, reached = llama_bay, MOMENTS[moment]
    profile = bay.llama_profile(before=SLOW)
    console = subprocess.Popen(
        bay.command("--profile", str(profile), "serve", "start", "--wait"),
        env=bay.environment(),
        cwd=bay.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with console:
        try:
            await until(lambda: console.poll() is not None or any(map(reached, bay.runs())), READY_S)
            if what == "console":
                console.kill()
            else:
                await bay.server.drop()
            said, _ = await asyncio.to_thread(console.communicate, timeout=READY_S)
        finally:
            console.kill()
    assert bay.runs(), said
    desk = await bay.desk(profile)
    found = await server.status(desk)
    assert found is not None and found.phase in (RunPhase.STARTING, RunPhase.READY)
    run = await server.wait_ready(desk, found, deadline_s=READY_S)
    if what == "link":
        # its answer to the launch may be lost with the link (4); once it has that, it waits on over a new one
        assert console.returncode in ((0, 4) if moment == "while it is launched" else (0,)), said
    assert [each.name for each in bay.runs()] == [run.id], "one launch, one server"
    assert [rung.name for rung in run.ladder] == ["start", "arguments", "weights", "kv cache", "http", "ready"]
    assert all(rung.started_s is not None and rung.ended_s is not None for rung in run.ladder)
    told = [record async for record in logs.past(desk, run)]
    parser = LogParser(engine(run.engine).grammar())
    whole = [*parser.feed(Path(run.log).read_bytes()), *parser.close()]
    assert [record.raw for record in told] == [record.raw for record in whole]
    assert [f"before it {n}" in record.raw for n, record in enumerate(told[:4], 1)] == [True] * 4
    stopped = await server.stop(desk, run, grace_s=30)
    assert (stopped.phase, stopped.failure, stopped.exit_status) == (RunPhase.EXITED, None, 0)
    assert not list(alive(run))

"""How a run stands at this moment, asked anew: folder and process, then its log, then HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from console.domain import readiness
from console.domain.run import Run, RunPhase
from console.operations import blame, run_log, running, starting
from console.operations.desk import Desk

ENDING_S = 1.5
"""How long a server that has closed its port may take to be gone."""

LOOK_S = 0.2


async def told(desk: Desk, state: running.State, patterns: Sequence[str]) -> Run:
    """Return a run as everything says together.

    Args:
        desk: The host.
        state: Its folder.
        patterns: Evidence texts to look for in its log.
    """
    run = running.run_of(state)
    reading = await _read(desk, run, state, patterns)
    now = running.run_with(run, state, reading)
    if now.phase is RunPhase.STARTING:
        reading.usual = await starting.usual_times(desk, run)
        now = running.run_with(run, state, reading)
    if now.phase is RunPhase.READY or (reading.by_http and now.phase is RunPhase.STARTING):
        answer = await running.answers(desk, now)
        if now.phase is RunPhase.READY and answer != readiness.OK:
            state = await looked_again(lambda: _state(desk, run), answer)
            reading = await _read(desk, run, state, patterns)
        now = running.run_with(run, state, reading, answers=answer)
    return await blame.named(desk, now)


async def looked_again(look: Callable[[], Awaitable[running.State]], answer: str) -> running.State:
    """Return how a server stands after it did not answer well: one that ends closes its port before it is gone.

    Args:
        look: Looks at folder or process.
        answer: What HTTP did (`domain.readiness`).
    """
    until = time.monotonic() + ENDING_S
    while True:
        state = await look()
        if answer != readiness.REFUSED or not state["alive"] or state.get("stop") or time.monotonic() > until:
            return state
        await asyncio.sleep(LOOK_S)


async def _state(desk: Desk, run: Run) -> running.State:
    return (await desk.link.call("run_state", {"folder": run.folder})).result


async def _read(desk: Desk, run: Run, state: running.State, patterns: Sequence[str]) -> run_log.Reading:
    reading = await run_log.read_through(desk, run, patterns)
    reading.take(reading.parser.settle() if state["alive"] else reading.parser.close())
    return reading

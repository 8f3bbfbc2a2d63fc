"""Stopping what we started: abort, SIGTERM, wait, SIGKILL to the recorded session, then proof."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from console.domain.run import Run
from console.engines.registry import engine
from console.errors import ConsoleError, RefusedError, RemoteError
from console.operations.desk import Desk
from console.operations.running import State
from console.remote.http import http_client

STATUS_S = 3.0
"""How long the status of a server that is gone is waited for: who keeps it writes it after the death."""

POLL_S = 0.4
KILL_WAIT_S = 60.0
"""Teardown of 90 GB contexts takes seconds; newer engines wait so long themselves."""

Say = Callable[[str], None]


async def end_run(desk: Desk, run: Run, say: Say, *, grace_s: float) -> State:
    """Take a run down step by step and prove that it is gone.

    Raises:
        RefusedError: The process under the recorded number is not the one that was started.
        ConsoleError: Something of it is still there after SIGKILL.
    """
    state = (await desk.link.call("note_stop", {"folder": run.folder, "operator": desk.operator})).result
    members = _ids(state)
    if state["pid"] is not None and state["alive"]:
        await _abort(desk, run, members, say)
        say(f"SIGTERM to pid {state['pid']}")
        await _terminate(desk, state)
        state, members = await _wait_gone(desk, run, members, say, grace_s)
    elif members:
        say(f"the launcher is gone, {len(members)} of its processes are left")
    if members:
        say(f"SIGKILL to session {state['session']} ({len(members)} processes)")
        await _kill(desk, state, members)
        state, members = await _wait_gone(desk, run, members, say, KILL_WAIT_S)
    if members:
        left = ", ".join(f"{pid}" for pid in sorted(members))
        raise ConsoleError(f"{run.id}: processes {left} are still there after SIGKILL", hint="a driver may hold them")
    await _prove(desk, run, state, say)
    return (await desk.link.call("run_state", {"folder": run.folder})).result


async def _abort(desk: Desk, run: Run, members: Mapping[int, int], say: Say) -> None:
    """End the requests in flight, so that draining does not wait for them."""
    import httpx

    listeners = (await desk.link.call("ports", {"port": run.port})).result["listeners"]
    if not any(entry["pid"] in members for entry in listeners):
        say(f"no request to abort: {'another server has' if listeners else 'nothing listens on'} port {run.port}")
        return
    path, body = engine(run.engine).abort
    if not path:
        say(f"no request to abort: {run.engine} has no call for it")
        return
    try:
        async with http_client(desk.link, run.port, timeout_s=2) as client:
            reply = await client.post(path, json=dict(body))
        say(f"abort of all requests: HTTP {reply.status_code}")
    except httpx.HTTPError:
        say("abort of all requests: no answer")


async def _terminate(desk: Desk, state: State) -> None:
    args = {"pid": state["pid"], "start_ticks": state["start_ticks"], "signal": "SIGTERM"}
    try:
        await desk.link.call("signal", args)
    except RemoteError as error:
        if error.kind == "changed":
            raise RefusedError(f"pid {state['pid']} is another process by now; nothing was stopped") from error
        raise


async def _kill(desk: Desk, state: State, members: Mapping[int, int]) -> None:
    args = {
        "session": state["session"],
        "start_ticks": state["start_ticks"],
        "signal": "SIGKILL",
        "others": [list(pair) for pair in members.items()],
    }
    said = (await desk.link.call("signal_session", args)).result
    if said["refused"]:
        raise RefusedError(f"not allowed to signal pid {', '.join(map(str, said['refused']))}")


async def _wait_gone(
    desk: Desk, run: Run, members: dict[int, int], say: Say, limit_s: float
) -> tuple[State, dict[int, int]]:
    """Wait until every process is gone by pid and start time; return what is left.

    Processes that left the session are asked for by number, since the folder no longer tells them.
    """
    began = told = time.monotonic()
    gone = 0.0
    while True:
        state = (await desk.link.call("run_state", {"folder": run.folder})).result
        members |= _ids(state)
        listed = (await desk.link.call("processes", {"pids": sorted(members)})).result["processes"]
        here = {(entry["pid"], entry["start_ticks"]) for entry in listed}
        members = {pid: ticks for pid, ticks in members.items() if (pid, ticks) in here}
        now = time.monotonic()
        if not members and not state["alive"]:
            gone = gone or now
        if not members and (state["exit"] is not None or (gone and now - gone >= STATUS_S)):
            return state, members
        if now - began >= limit_s:
            return state, members
        if now - told >= 5:
            told = now
            say(f"{len(members)} processes left after {now - began:.0f} s{await _waits_for(desk, run)}")
        await asyncio.sleep(POLL_S)


async def _waits_for(desk: Desk, run: Run) -> str:
    """Return what the log says that draining waits for."""
    try:
        said = await desk.link.call("read_log", {"path": run.log, "offset": -4096, "length": 4096})
    except RemoteError:
        return ""
    found = re.findall(rb"Remaining number of requests (\d+)", said.body)
    return f", draining waits for {int(found[-1])} requests" if found else ""


async def _prove(desk: Desk, run: Run, state: State, say: Say) -> None:
    listeners = (await desk.link.call("ports", {"port": run.port})).result["listeners"]
    ours = [entry for entry in listeners if entry["pid"] == state["pid"]]
    port = "still held" if ours else "free" if not listeners else "taken by another server"
    holders = (await desk.link.call("gpu_processes", deadline_s=30)).result["gpu_processes"]
    if holders is None:
        memory = "GPU memory not checked (no nvidia-smi)"
    else:
        held = [entry for entry in holders if entry["session"] == state["session"]]
        memory = f"GPU memory still held by {len(held)} of its processes" if held else "GPU memory given back"
    say(f"every process gone · port {run.port} {port} · {memory}")


def _ids(state: State) -> dict[int, int]:
    found: list[Mapping[str, Any]] = list(state["processes"])
    return {int(entry["pid"]): int(entry["start_ticks"]) for entry in found}

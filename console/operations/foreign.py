"""Servers that tokwatt did not start: looked at, adopted as a run, or stopped once their pid was typed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from console.domain import readiness
from console.domain.run import UP, Run, RunPhase
from console.domain.server import HostServer, Role
from console.domain.text import clean
from console.engines.registry import engine
from console.errors import AlreadySoError, RefusedError, RemoteError
from console.operations import activities, run_log, running, server, servers, standing, stopping
from console.operations.desk import Desk
from console.operations.holds import must_be_free
from console.operations.keeping import ids_kept
from console.operations.running import LIVING
from console.operations.server_words import Stake

UNPROVEN = "unknown which bytes it had loaded: nothing was written down when it started"


async def look(desk: Desk, run: Run) -> Run:
    """Return a server without a run folder as it stands now: its process, its log, its HTTP."""
    assert run.process is not None
    state: Mapping[str, Any] = await _state(desk, run)
    answer = await running.answers(desk, run) if state["alive"] and run.port else None
    if answer not in (None, readiness.OK) and run.phase in UP and run.phase is not RunPhase.STARTING:
        state = await standing.looked_again(lambda: _state(desk, run), answer)
    reading = run_log.reading_of(run) if not run.log else await run_log.read_through(desk, run)
    reading.take(reading.parser.settle())
    return _judged(run, state, reading, answer if state["alive"] else None)


async def again(desk: Desk, run: Run, *, asked: bool) -> Run:
    """Return a server that was looked at before as it stands now; its log is read again only where that matters.

    Args:
        desk: The host.
        run: As it stood.
        asked: Whether it is asked over HTTP; each question is a line in its log.
    """
    state = await _state(desk, run)
    if not state["alive"] or run.phase is RunPhase.STARTING:
        return await look(desk, run)
    if not asked or not run.port:
        return run
    answer = await running.answers(desk, run)
    if answer == readiness.REFUSED:
        return await look(desk, run)
    quiet_s = max(0.0, float(state["time"]) - float(state["log_mtime"] or state["time"]))
    phase, reason = readiness.judged(ready=True, answer=answer, quiet_s=quiet_s)
    return replace(run, phase=phase, reason=reason)


async def _state(desk: Desk, run: Run) -> dict[str, Any]:
    assert run.process is not None
    args = {
        "pid": run.process.pid,
        "start_ticks": run.process.start_ticks,
        "others": [[one.pid, one.start_ticks] for one in run.members],
        "log": run.log,
    }
    return dict((await desk.link.call("tree_state", args)).result)


def _judged(run: Run, state: Mapping[str, Any], reading: run_log.Reading, answer: str | None) -> Run:
    """Return the run as everything says together; a log that cannot be read leaves the word to HTTP."""
    record = {
        "engine": run.engine,
        "port": run.port,
        "argv": list(run.argv),
        "operator": run.operator,
        "started_at": run.started_at,
        "versions": dict(run.versions),
        "loaded": run.loaded,
    }
    told = running.run_with(run, {**state, "record": record}, reading, answers=answer)
    if not reading.watch.ready and answer is not None:
        # The line that says so may lie before what a container or the journal still tells.
        up = {readiness.OK: RunPhase.READY, readiness.TIMEOUT: RunPhase.BUSY}
        told = replace(told, phase=up.get(answer, told.phase), reason="" if answer in up else told.reason)
    return replace(
        told, id="", adopted=False, log=run.log, log_why=run.log_why, process=run.process, members=run.members
    )


async def on_port(desk: Desk, port: int) -> Run | None:
    """Return the server on a port that is no run of ours, as it stands; `None` when no known engine listens there."""
    for each in await servers.found(desk, ask=False):
        if each.role is Role.SERVER and each.port == port and not each.ours:
            run = await look(desk, servers.as_run(each))
            return run if run.phase in LIVING else None
    return None


async def attach(desk: Desk, pid: int) -> Run:
    """Show a server of the host, read-only where it is not ours.

    Raises:
        RefusedError: The process is no server.
    """
    found = await servers.find(desk, pid)
    if found.ours:
        run = await server.find_run(desk, found.run)
    else:
        _must_serve(found)
        run = await look(desk, servers.as_run(found))
        run = replace(run, loaded=await _loaded(desk, found))
    desk.store.update(run=run)
    return run


async def _loaded(desk: Desk, found: HostServer) -> str:
    """Return what the times of its package's files tell of the bytes that a server had loaded."""
    args = {
        "pid": found.process.pid,
        "start_ticks": found.process.start_ticks,
        "package": engine(found.engine).package,
    }
    told = (await desk.link.call("loaded_since", args)).result
    folder, count, touched = clean(told["folder"]), int(told["files"]), int(told["touched"])
    if not folder or not count:
        return UNPROVEN
    if not touched:
        return f"{folder} unchanged since before it started ({count:,} files, as it was looked at)"
    names = ", ".join(clean(name) for name in told["names"])
    more = f" and {touched - len(told['names'])} more" if touched > len(told["names"]) else ""
    return f"{UNPROVEN}, and since then was written or put into {folder}: {names}{more}"


async def adopt(desk: Desk, pid: int) -> Run:
    """Make a run of a server that was started otherwise; its process is not touched, its log goes on.

    Raises:
        AlreadySoError: It is a run of ours.
        RefusedError: It is no server, or another login's.
    """
    desk.must_write("serve adopt")
    found = await servers.find(desk, pid)
    if found.ours:
        raise AlreadySoError(f"pid {pid} is run {found.run} already")
    _must_serve(found)
    if not found.may_signal:
        raise RefusedError(
            f"pid {pid} belongs to {found.user}: this login could neither follow nor stop it",
            hint=f"log in as {found.user} or root",
        )
    record = {
        "profile": "",
        "engine": found.engine,
        "port": found.port or 0,
        "argv": list(found.argv),
        "operator": desk.operator,
        "host": desk.link.host.name,
        "badge": desk.link.host.badge,
        "started_at": found.started_at or time.time(),
        "owner": found.user,
        "log": found.log,
        "output": found.output,
        "loaded": (loaded := await _loaded(desk, found)),
        "versions": dict(servers.as_run(found).versions),
    }
    args = {
        "pid": pid,
        "start_ticks": found.process.start_ticks,
        "record": record,
        "no_log": f"adopted; {found.output_why or 'its output cannot be read'}",
        "kept": await ids_kept(desk),
    }
    async with activities.activity(desk, "adopt", f"adopt pid {pid}") as done:
        try:
            state = (await desk.link.call("adopt", args)).result
        except RemoteError as error:
            if error.kind == "eexist":
                raise AlreadySoError(f"pid {pid} was adopted meanwhile", str(error.facts.get("path", ""))) from error
            if error.kind in ("changed", "eperm"):
                raise RefusedError(error.title) from error
            raise
        run = await server.find_run(desk, str(state["record"]["id"]))
        desk.store.update(run=run)
        done(f"run {run.id}; {loaded}")
    return run


async def stake(desk: Desk, pid: int) -> Stake:
    """Return a server with all that is to be seen before it is ended.

    Raises:
        UsageError: There is no such process.
        RefusedError: It is no server, or a worker of one.
    """
    found = await servers.find(desk, pid)
    run = servers.as_run(found)
    told, count = await servers.connections(desk, found)  # before a question of ours is a connection, too
    flight, took_s = await asyncio.gather(_in_flight(desk, found, run), _start_took(desk, run))
    return Stake(found, told, count, flight, took_s)


async def _in_flight(desk: Desk, found: HostServer, run: Run) -> int | None:
    return await server.requests_in_flight(desk, run) if found.role is Role.SERVER and found.port else None


async def _start_took(desk: Desk, run: Run) -> float | None:
    """Return the seconds from process start to ready that a log tells of."""
    if not run.log:
        return None
    try:
        reading = await run_log.read_through(desk, run)
    except RemoteError:
        return None
    reading.take(reading.parser.settle())
    told = _judged(run, {"alive": True, "folder": "", "log": run.log, "pid": None}, reading, None)
    return None if told.ready_at is None else max(0.0, told.ready_at - run.started_at)


async def stop(desk: Desk, at_stake: Stake, typed: str, *, grace_s: float = 15.0) -> Run:
    """End a server that was not started by us, once its pid was typed; prove that it is gone.

    Raises:
        RefusedError: Another pid was typed, or the login may not end it.
        ConsoleError: Something of it is still there after SIGKILL.
    """
    desk.must_write("serve stop")
    await must_be_free(desk, "serve stop")
    found = at_stake.server if at_stake.server.ours else await _as_known_now(desk, at_stake.server)
    pid = found.process.pid
    if found.ours:
        return await server.stop(desk, await server.find_run(desk, found.run), grace_s=grace_s)
    _may_end(found)
    if typed.strip() != str(pid):
        said = f"{typed.strip()!r} was typed" if typed.strip() else "its pid was not typed"
        raise RefusedError(
            f"pid {pid} was not started by tokwatt and is not stopped: {said}",
            hint=f"type {pid}, or --confirm {pid} in a script",
        )
    run = servers.as_run(found)
    async with activities.activity(desk, "stop", f"stop pid {pid} of {found.user}") as done:
        try:
            await stopping.end_run(desk, run, done.say, grace_s=grace_s)
        except RemoteError as error:
            if error.kind in ("eperm", "eacces"):
                raise RefusedError(f"not allowed to signal pid {pid} of {found.user}") from error
            raise
        ended = replace(run, phase=RunPhase.EXITED, ended_at=time.time() + (desk.link.facts.clock_offset_s or 0.0))
        shown = desk.store.snapshot.run
        if shown is not None and shown.process == run.process:
            desk.store.update(run=ended)
        done(f"pid {pid} and its {len(found.members) - 1} other processes are gone")
    return ended


async def _as_known_now(desk: Desk, found: HostServer) -> HostServer:
    """Return a server with the run that another console may have made of it since it was looked at."""
    now = await servers.found(desk, ask=False)
    return next((each for each in now if each.process == found.process), found)


def _must_serve(found: HostServer) -> None:
    pid = found.process.pid
    if found.role is Role.LEFT_OVER:
        raise RefusedError(
            f"pid {pid} is left over from a {found.engine} server whose launcher is gone: it serves nobody",
            hint=f"tokwatt serve stop --pid {pid} ends it",
        )
    if found.role is Role.EMBEDDED:
        raise RefusedError(f"pid {pid} is an engine inside another program, no server: {found.parent[:120]}")


def _may_end(found: HostServer) -> None:
    pid = found.process.pid
    if found.role is Role.EMBEDDED:
        raise RefusedError(f"pid {pid} is a part of another program, which ends it: {found.parent[:120]}")
    if not found.may_signal:
        raise RefusedError(
            f"not allowed to signal pid {pid}: it belongs to {found.user}", hint="log in as them or as root"
        )


def is_foreign(run: Run | None) -> bool:
    """Whether a run is a living server without a run folder of ours."""
    return run is not None and not run.adopted and run.process is not None and run.phase in LIVING

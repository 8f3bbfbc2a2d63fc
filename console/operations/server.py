"""The server's life: start, stop, restart, status, attach, watch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from console.domain.profile import Profile
from console.domain.run import ProcessId, Run, RunPhase
from console.engines.protocol import Difference
from console.engines.registry import engine
from console.errors import AlreadySoError, ConsoleError, DeadlineError, RefusedError, RemoteError, UsageError
from console.operations import activities, fitness, launching, owners, run_log, running, standing, stopping, units
from console.operations.desk import Desk
from console.operations.holds import must_be_free
from console.operations.running import LIVING
from console.state.store import Mark

INFO_S = 20.0

RUNS_LOOKED_AT = 20


async def start(desk: Desk, *, force: bool = False) -> Run:
    """Launch the profile's server as a new run; it outlives the console.

    Args:
        desk: Host and profile.
        force: Launch although the install would not take its arguments.

    Raises:
        AlreadySoError: A run of this profile lives.
        RefusedError: The port is taken, and its owner is named; or the run of this profile is being stopped.
        UsageError: The profile asks for what the host or its install does not have.
    """
    profile = desk.must_profile()
    desk.must_write("serve start")
    await must_be_free(desk, "serve start")
    states = (await desk.link.call("runs", {"limit": RUNS_LOOKED_AT})).result["runs"]
    living = await _living(desk, profile, states)
    if living is not None and living.phase is RunPhase.STOPPING:
        raise RefusedError(
            f"run {living.id} of {profile.name} is being stopped", _by(living), "start it once that is gone"
        )
    if living is not None:
        raise AlreadySoError(f"run {living.id} of {profile.name} is {living.phase.value} on port {living.port}")
    async with activities.activity(desk, "start", f"start {profile.name}", undo="serve stop") as done:
        found = await fitness.looked(desk, profile, force=force)
        launching.must_be_clean(states)
        launching.must_have_name(desk, found)
        runs = [running.run_of(state) for state in states] if found.listeners else ()
        launching.must_have_port(desk, profile, found, runs)
        _must_be_alone(desk, profile, states)
        run = await _launched(desk, profile, found)
        done(f"run {run.id}, pid {run.process.pid if run.process else '?'}")
    return run


async def stop(desk: Desk, run: Run | None = None, *, grace_s: float = 15.0) -> Run:
    """Stop a run that we started, and prove that it is gone.

    Raises:
        AlreadySoError: Nothing of ours runs, or another console has stopped it meanwhile.
        RefusedError: The server was not started by tokwatt; owner and command are named.
    """
    desk.must_write("serve stop")
    await must_be_free(desk, "serve stop")
    run = run or await status(desk)
    if run is None:
        raise AlreadySoError(f"{desk.link.host.name}: no server runs")
    if not run.adopted:
        who = f"pid {run.process.pid}" if run.process else f"the server on port {run.port}"
        way = f"tokwatt serve stop --pid {run.process.pid} shows what that would end" if run.process else ""
        raise RefusedError(
            f"{who} was not started by tokwatt and is not stopped", f"{run.operator}: {' '.join(run.argv)}", way
        )
    if run.phase not in LIVING and not await _left_over(desk, run):
        raise AlreadySoError(f"run {run.id} has ended already", _how(run))
    async with activities.activity(desk, "stop", f"stop {run.id}") as done:
        desk.store.update(run=replace(run, phase=RunPhase.STOPPING))
        try:
            state = await stopping.end_run(desk, run, done.say, grace_s=grace_s)
        except ConsoleError:
            with contextlib.suppress(ConsoleError):  # the link may be what failed
                desk.store.update(run=await find_run(desk, run.id))
            raise
        reading = await run_log.read_through(desk, run)
        ended = replace(running.run_with(run, state, reading), phase=RunPhase.EXITED, failure=None)
        ended = replace(ended, evidence=run.evidence, resolved=run.resolved)
        desk.store.update(run=ended)
        done(_how(ended))
    return ended


async def restart(desk: Desk, *, grace_s: float = 15.0, force: bool = False, agreed: str | None = None) -> Run:
    """Stop the run of the profile, or ours on its port, and start the profile; what it lacks is found before the stop.

    Args:
        desk: Host and profile.
        grace_s: Between SIGTERM and SIGKILL.
        force: Launch although the install would not take its arguments.
        agreed: Key of the run that was shown, empty for none; left out, whichever is there is stopped.

    Raises:
        RefusedError: The server is not ours, or another one is there by now than was agreed on.
    """
    profile = desk.must_profile()
    desk.must_write("serve restart")
    living = await status(desk)
    await fitness.looked(desk, profile, force=force)
    launching.environment(profile)
    if living is not None and living.phase in LIVING:
        if agreed is not None and living.key != agreed:
            raise RefusedError(
                f"run {living.id} of {living.operator} is there by now, not the one that was shown",
                hint="look at it, then restart",
            )
        with contextlib.suppress(AlreadySoError):  # another console has stopped it meanwhile
            await stop(desk, living, grace_s=grace_s)
    return await start(desk, force=force)


async def status(desk: Desk) -> Run | None:
    """Return the run that matters: a living one of the profile, else the server on its port, else the newest.

    Without a profile any run counts.
    """
    patterns = await running.evidence_patterns(desk)
    states = (await desk.link.call("runs", {"limit": RUNS_LOOKED_AT})).result["runs"]
    wanted = [state for state in states if desk.profile is None or _of(state, desk.profile)]
    chosen = next((state for state in wanted if state["alive"]), None) or _on_port(states, desk.profile)
    left = next((state for state in wanted if units.lives(state)), None)
    run = None
    if chosen is None and left is not None:
        chosen = left  # its launcher is gone; what lives on may even answer, and is no stranger
    elif chosen is None:
        run = await _foreign(desk)
        chosen = wanted[0] if wanted else None
    if run is None and chosen is not None:
        run = _known(desk, chosen) or await standing.told(desk, chosen, patterns)
    desk.store.update(run=run)
    return run


async def attach(desk: Desk) -> Run | None:
    """Return the living server, ours or not, and show it; `None` when there is none."""
    run = await status(desk)
    return run if run is not None and run.phase in LIVING else None


async def find_run(desk: Desk, run_id: str) -> Run:
    """Return a run of this host by its number; raise `UsageError` when there is none."""
    try:
        state = (await desk.link.call("run_state", {"folder": run_id})).result
    except RemoteError as error:
        if error.kind != "enoent":
            raise
        raise UsageError(f"{desk.link.host.name}: no run {run_id}", hint="tokwatt serve status --all") from error
    return await standing.told(desk, state, await running.evidence_patterns(desk))


async def all_runs(desk: Desk) -> tuple[Run, ...]:
    """Return the newest runs of this host by their folders alone, newest first."""
    states = (await desk.link.call("runs", {"limit": RUNS_LOOKED_AT})).result["runs"]
    return tuple(running.run_of(state) for state in states)


async def wait_ready(desk: Desk, run: Run, *, deadline_s: float) -> Run:
    """Return the run when its engine says that it is ready.

    Raises:
        ConsoleError: It died or was stopped; the title has the first cause.
        DeadlineError: It is still starting after `deadline_s`.
    """
    watcher = asyncio.create_task(watch_run(desk), name="wait ready")
    waiter = asyncio.create_task(_phase_told(desk, run), name="ready")
    try:
        done, _ = await asyncio.wait([watcher, waiter], timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            now = desk.store.snapshot.run or run
            where = now.ladder[-1].name if now.ladder else "before its first line"
            raise DeadlineError(
                f"run {run.id} is not ready after {deadline_s:g} s", f"it is at: {where}", f"its log is {run.log}"
            )
        for task in done:
            task.result()
        return waiter.result()
    finally:
        for task in (watcher, waiter):
            task.cancel()
        await asyncio.gather(watcher, waiter, return_exceptions=True)


async def _phase_told(desk: Desk, run: Run) -> Run:
    """Narrate the ladder and return the run when it is ready; raise when it will never be."""
    told: set[str] = set()
    async for snapshot in desk.store.changes():
        now = snapshot.run
        if now is None or now.id != run.id:
            continue
        for rung in now.ladder:
            if rung.name not in told and rung.started_s is not None:
                told.add(rung.name)
                usual = f"  (usually {rung.usual_s:.1f} s)" if rung.usual_s is not None else ""
                desk.say(f"{rung.started_s:7.1f} s  {rung.name}{usual}")
        if now.stall is not None and now.stall.text not in told:
            told.add(now.stall.text)
            for text in (now.stall.text, *now.stall.evidence, *(f"try: {hint}" for hint in now.stall.hints)):
                desk.say(text)
        if now.phase is RunPhase.READY:
            return now
        if now.phase not in (RunPhase.STARTING, RunPhase.BUSY, RunPhase.DEGRADED):
            raise _death(now)
    raise ConsoleError(f"run {run.id}: nobody watches it")


async def blast_radius(desk: Desk) -> str:
    """Return what stopping the server now costs: requests in flight, minutes to be ready again."""
    run = desk.store.snapshot.run or await status(desk)
    if run is None or run.phase not in LIVING:
        return "no server runs"
    count = await requests_in_flight(desk, run)
    flight = "requests in flight unknown" if count is None else f"{count} request{'s'[: count != 1]} in flight"
    if run.unit is not None:
        flight += f" · ends {units.word(run.unit)}"
    if run.ready_at is None:
        unsaid = "it was never ready" if run.phase is RunPhase.STARTING else "how long it took to be ready is not known"
        return f"{flight} · {unsaid}"
    took = max(0.0, run.ready_at - run.started_at)
    again = f"{took:.0f} s" if took < 90 else f"{took / 60:.0f} min"
    return f"{flight} · ready again in about {again}, as last time"


async def requests_in_flight(desk: Desk, run: Run) -> int | None:
    """Return running plus waiting requests as the server says; `None` when it does not."""
    adapter = engine(run.engine)
    for path in adapter.loads_paths:
        count = adapter.in_flight(await running.get_told(desk, run.port, path, of=adapter, run=run))
        if count is not None:
            return count
    return None


async def resolved_arguments(desk: Desk, run: Run) -> Mapping[str, object]:
    """Return the arguments in force: from the server, else from its log; empty when neither tells."""
    adapter = engine(run.engine)
    info = None
    if run.phase in LIVING:  # vLLM looks its whole machine over for the first reply
        info = await running.get_told(desk, run.port, adapter.info_path, of=adapter, timeout_s=INFO_S, run=run)
    if isinstance(info, dict) and (told := adapter.resolved(info)):
        resolved = told
    elif run.log:
        resolved = run.resolved or (await run_log.read_through(desk, run)).resolved
    else:
        resolved = {}
    shown = desk.store.snapshot.run
    if shown is not None and shown.id == run.id:
        desk.store.update(run=replace(shown, resolved=resolved))
    return resolved


def differences(profile: Profile, resolved: Mapping[str, object]) -> Sequence[Difference]:
    """Return the arguments of a profile that are in force otherwise than asked for."""
    return engine(profile.engine.kind).differences(profile, resolved)


async def _launched(desk: Desk, profile: Profile, found: launching.Preflight) -> Run:
    launching.warn(desk, found)
    state = await launching.launch(desk, profile, found)
    run = running.run_of(state)
    mark = Mark(run.started_at, "restart", f"{run.id} {profile.name}")
    desk.store.update(run=run, marks=(*desk.store.snapshot.marks, mark))
    return run


def _must_be_alone(desk: Desk, profile: Profile, states: Sequence[running.State]) -> None:
    """Raise `RefusedError` when a run of ours has the port and does not listen yet: two would fight for it."""
    state = _on_port(states, profile)
    if state is not None:
        run = running.run_of(state)
        raise RefusedError(
            f"{desk.link.host.name}: port {run.port} is taken by run {run.id} of {run.profile} (pid {state['pid']})",
            "it is alive",
            "serve restart stops it first",
        )


async def _living(desk: Desk, profile: Profile, states: Sequence[running.State]) -> Run | None:
    alive = next((state for state in states if state["alive"] and _of(state, profile)), None)
    run = None if alive is None else await standing.told(desk, alive, await running.evidence_patterns(desk))
    return run if run is not None and run.phase in LIVING else None  # it may have ended since it was listed


async def _left_over(desk: Desk, run: Run) -> bool:
    """Whether processes of a run live on although its launcher is gone."""
    return units.lives((await desk.link.call("run_state", {"folder": run.folder})).result)


async def _foreign(desk: Desk) -> Run | None:
    """Return the server on the profile's port that we did not start; read-only."""
    profile = desk.profile
    kind, port = (profile.engine.kind, profile.launch.port) if profile else ("sglang", 0)
    adapter = engine(kind)
    port = port or adapter.default_port
    listeners = (await desk.link.call("ports", {"port": port})).result["listeners"]
    if not listeners:
        return None
    from console.operations import foreign

    if (known := await foreign.on_port(desk, port)) is not None:
        return known
    info = await running.get_told(desk, port, adapter.identity_path, of=adapter)
    if not isinstance(info, dict):
        return None
    owner = listeners[0]
    seen = (await desk.link.call("processes", {"pids": [owner["pid"]] if owner["pid"] else []})).result["processes"]
    process = ProcessId(seen[0]["pid"], seen[0]["start_ticks"], seen[0]["session"]) if seen else None
    return Run(
        id="",
        profile="",
        engine=kind,
        folder="",
        log="",
        port=port,
        started_at=float(seen[0].get("started_at") or 0.0) if seen else 0.0,
        process=process,
        argv=tuple(owners.redacted(str(owner["title"])).split()),
        phase=RunPhase.READY,
        adopted=False,
        operator=str(owner["user"]),
    )


def _known(desk: Desk, state: running.State) -> Run | None:
    """Return the shown run when it is this one and has ended for good: its log needs no second reading."""
    shown, now = desk.store.snapshot.run, running.run_of(state)
    if shown is None or shown.id != now.id or not shown.adopted or state["alive"] or units.lives(state):
        return None
    same = (shown.exit_status, shown.ended_at) == (now.exit_status, now.ended_at)
    return shown if same and shown.phase not in LIVING else None


def _on_port(states: Sequence[running.State], profile: Profile | None) -> running.State | None:
    """Return the living run, of whatever profile, that has the profile's port."""
    port = profile.launch.port if profile else 0
    return next((state for state in states if state["alive"] and (state.get("record") or {}).get("port") == port), None)


def _of(state: running.State, profile: Profile) -> bool:
    record = state.get("record") or {}
    return bool(record.get("profile") == profile.name)


def _death(run: Run) -> ConsoleError:
    if run.failure is not None:
        detail = str(run.failure.lines[-1]) if run.failure.lines else f"it said nothing; its log is {run.log}"
        return ConsoleError(f"run {run.id} failed: {run.failure.cause}", detail, run.failure.hint)
    end = "was stopped" if run.stopped_by else "ended"
    return ConsoleError(f"run {run.id} {end} before it was ready", _how(run), f"its log is {run.log}")


def _how(run: Run) -> str:
    if run.exit_status is None:
        status = "" if run.phase in LIVING else "no exit status was left"
    else:
        status = f"exit status {run.exit_status}{f' ({run.reason})' * bool(run.reason)}"
    return ", ".join(filter(None, (status, _by(run))))


def _by(run: Run) -> str:
    return f"stopped by {run.stopped_by}" if run.stopped_by else ""


async def watch_run(desk: Desk) -> None:
    """Keep the store's run fresh for ever: phases, failure, evidence; survives reconnects."""
    from console.operations.watching import watch_run as watch

    await watch(desk)

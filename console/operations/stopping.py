"""Stopping: abort, SIGTERM, wait, SIGKILL to what is left, then proof by process, port and GPU memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from console.domain.profile import DOCKER_RUN, SYSTEMD_RUN
from console.domain.run import Run, Unit
from console.engines.registry import engine
from console.errors import AlreadySoError, ConsoleError, RefusedError, RemoteError
from console.operations import owners, units
from console.operations.desk import Desk
from console.operations.holds import guarded
from console.operations.keys import auth_of
from console.operations.running import State, left_over
from console.remote.http import http_client

STATUS_S = 3.0
"""How long the status of a server that is gone is waited for: who keeps it writes it after the death."""

POLL_S = 0.4
KILL_WAIT_S = 60.0
"""Teardown of 90 GB contexts takes seconds; newer engines wait so long themselves."""

ORPHANS_GRACE_S = 5.0
UNIT_WAIT_S = 10.0
"""How long a runtime may take to end what it was told to kill."""

OTHERS_S = 5.0
"""How long after its SIGKILL another console is waited for that stops the same run."""

MEMORY_WAIT_S = 30.0
SMALL_MIB = 64.0
"""GPU memory that differs by less has come back."""

_UNDER_WAY: set[str] = set()
"""Notes of the stops that this process is at."""

Say = Callable[[str], None]
Ids = dict[int, int]
"""Start time by pid."""


async def end_run(desk: Desk, run: Run, say: Say, *, grace_s: float) -> State:
    """Take a run down step by step and prove that it is gone.

    Raises:
        AlreadySoError: Nothing of it lives, or another console has ended it; nothing was signalled.
        RefusedError: Its job is another's by now, or this login may not signal it.
        ConsoleError: Something of it is still there after SIGKILL.
    """
    return await _Stop(desk, run, say).end(grace_s)


class _Stop:
    """One run, or one server without a folder, on its way down."""

    def __init__(self, desk: Desk, run: Run, say: Say) -> None:
        self._desk = desk
        self._run = run
        self._say = say
        self._members: Ids = {}
        self._seen: Ids = {}
        """Everything that ever belonged to it, for the proof."""
        self._signalled = False
        self._token = os.urandom(8).hex()

    async def end(self, grace_s: float) -> State:
        """Go down the ladder, unless it is gone or goes down by another's hand."""
        _UNDER_WAY.add(self._token)
        try:
            return await self._ended(grace_s)
        finally:
            _UNDER_WAY.discard(self._token)

    async def _ended(self, grace_s: float) -> State:
        state = await self._claimed(grace_s)
        try:
            return await self._down(state, grace_s)
        except (ConsoleError, asyncio.CancelledError):
            if self._run.folder:
                with contextlib.suppress(ConsoleError):  # whoever tries next need not wait for us
                    await self._noted(-OTHERS_S, take=True)
            raise

    async def _claimed(self, grace_s: float) -> State:
        """Note who stops it; where another console does, wait for that, and go on with what it leaves."""
        run, say = self._run, self._say
        state = await (self._noted(grace_s) if run.folder else self._look())
        self._members = self._seen = _ids(state)
        await self._must_live(state)
        stop = state["stop"] or {}
        if not run.folder or stop.get("token") == self._token:
            return state
        left_s = float(stop.get("at") or 0.0) + float(stop.get("grace_s") or 0.0) + OTHERS_S - float(state["time"])
        if left_s > 0 and not _given_up(self._desk, stop):
            say(f"{stop.get('operator') or 'another console'} stops it already: waiting for {left_s:.0f} s at most")
            state = await self._wait_gone(left_s)
            await self._must_live(state)
            say("it lives on all the same")
        state = await self._noted(grace_s, take=True)
        self._members |= _ids(state)
        return state

    async def _must_live(self, state: State) -> None:
        """Raise `AlreadySoError` when nothing of it lives; say by whom it was stopped, and who has its number now."""
        unit = units.unit_of(state)
        if self._members or state["alive"] or units.lives(state) or not _is_over(unit):
            return
        run, stop = self._run, state["stop"] or {}
        if run.id:
            raise AlreadySoError(f"run {run.id} has ended already", f"stopped by {stop['operator']}" if stop else "")
        seen = (await self._desk.link.call("processes", {"pids": [state["pid"]]})).result["processes"]
        whose = f"{owners.shown_title(seen[0]['title'], 80)} of {seen[0]['user']} has its number now" if seen else ""
        raise AlreadySoError(f"the server of pid {state['pid']} is gone already; nothing was stopped", whose)

    async def _down(self, state: State, grace_s: float) -> State:
        say = self._say
        before = await self._memory()
        held = await self._held()
        if state["pid"] is not None and state["alive"]:
            await self._abort(units.unit_of(state))
            if not await self._signal_unit("SIGTERM"):
                say(f"SIGTERM to pid {state['pid']}")
                await self._terminate(state)
            state = await self._wait_gone(grace_s)
        elif self._members or units.lives(state):
            say(f"the launcher is gone, {_left(self._members, state)}")
            if not await self._signal_unit("SIGTERM"):
                await self._signal(state, "SIGTERM")
            state = await self._wait_gone(min(grace_s, ORPHANS_GRACE_S))
        if (self._members or units.lives(state)) and await self._signal_unit("SIGKILL"):
            state = await self._wait_gone(UNIT_WAIT_S)
        if self._members:
            where = f"session {state['session']}" if state["session"] else f"pid {state['pid']} and what it started"
            say(f"SIGKILL to {where} ({len(self._members)} processes){await self._waits_for()}")
            await self._signal(state, "SIGKILL")
            state = await self._wait_gone(KILL_WAIT_S)
        if self._members:
            left = ", ".join(f"{pid}" for pid in sorted(self._members))
            raise ConsoleError(
                f"{self._run.id or 'the server'}: processes {left} are still there after SIGKILL",
                left_over(len(self._members), await self._held()),
                "a driver may hold them",
            )
        self._must_be_gone(state)
        if not self._signalled:
            await self._must_live(state)
        await self._prove(before, held, state)
        return await self._look() if self._run.folder else state

    async def _noted(self, grace_s: float, *, take: bool = False) -> State:
        args = {
            "folder": self._run.folder,
            "operator": self._desk.operator,
            "token": self._token,
            "grace_s": grace_s,
            "take": take,
            "pid": os.getpid(),
        }
        return (await guarded(self._desk, "note_stop", args, what=f"stop {self._run.id}")).result

    async def _look(self) -> State:
        run = self._run
        if run.folder:
            return (await self._desk.link.call("run_state", {"folder": run.folder})).result
        assert run.process is not None
        others = [[one.pid, one.start_ticks] for one in run.members]
        args = {"pid": run.process.pid, "start_ticks": run.process.start_ticks, "others": others}
        return (await self._desk.link.call("tree_state", args)).result

    async def _abort(self, unit: Unit | None) -> None:
        """End the requests in flight, so that draining does not wait for them."""
        import httpx

        desk, run, say = self._desk, self._run, self._say
        listeners = (await desk.link.call("ports", {"port": run.port})).result["listeners"]
        inside = unit is not None and (unit.kind, unit.state) == (DOCKER_RUN, "running")
        if not any(entry["pid"] in self._members or (inside and _published(entry)) for entry in listeners):
            say(f"no request to abort: {'another server has' if listeners else 'nothing listens on'} port {run.port}")
            return
        path, body = engine(run.engine).abort
        if not path:
            say(f"requests end with the server: {run.engine} has no call that aborts them")
            return
        try:
            async with http_client(desk.link, run.port, timeout_s=2, auth=auth_of(desk, run)) as client:
                reply = await client.post(path, json=dict(body))
            unlocks = engine(run.engine).unlocks if reply.status_code == 404 else ""
            say(f"abort of all requests: HTTP {reply.status_code}" + f", there only with {unlocks}" * bool(unlocks))
        except httpx.HTTPError:
            say("abort of all requests: no answer")

    async def _terminate(self, state: State) -> None:
        args = {"pid": state["pid"], "start_ticks": state["start_ticks"], "signal": "SIGTERM"}
        try:
            self._signalled |= bool((await self._desk.link.call("signal", args)).result["sent"])
        except RemoteError as error:
            if error.kind != "changed":
                raise
            self._say(f"pid {state['pid']} is another process by now, and was left alone")

    async def _signal(self, state: State, name: str) -> None:
        args = {
            "session": state["session"],
            "leader": state["pid"],
            "start_ticks": state["start_ticks"],
            "mark": (state.get("record") or {}).get("mark") or "",
            "signal": name,
            "others": [list(pair) for pair in self._members.items()],
        }
        said = (await self._desk.link.call("signal_session", args)).result
        self._signalled |= bool(said["sent"])
        if said["refused"]:
            raise RefusedError(f"not allowed to signal pid {', '.join(map(str, said['refused']))}")

    async def _signal_unit(self, name: str) -> bool:
        """Signal the container or the job of the run; false where its processes are to be signalled."""
        if not self._run.folder or self._run.unit is None:
            return False
        args = {"folder": self._run.folder, "signal": name}
        try:
            said = (await self._desk.link.call("signal_unit", args, deadline_s=40)).result
        except RemoteError as error:
            if error.kind == "changed":
                raise RefusedError(f"run {self._run.id} is not stopped: {error.title}", error.detail) from error
            raise
        if said["said"]:
            self._say(str(said["said"]) + f": {said['fault']}" * bool(said["fault"]))
        done = bool(said["said"]) and not said["fault"]
        self._signalled |= done
        return done

    def _must_be_gone(self, state: State) -> None:
        """Raise unless the container or the job is known to be gone."""
        unit = units.unit_of(state)
        if unit is None or _is_over(unit):
            return
        if unit.alive:
            raise ConsoleError(f"{self._run.id}: {units.word(unit)} is still there after SIGKILL")
        raise ConsoleError(f"{self._run.id}: nobody tells whether {units.word(unit)} is gone", unit.reason)

    async def _wait_gone(self, limit_s: float) -> State:
        """Wait until every process is gone by pid and start time; what is left stays in the members.

        Processes that left the session are asked for by number, since the folder no longer tells them.
        """
        began = told = time.monotonic()
        gone = 0.0
        while True:
            state = await self._look()
            self._members |= _ids(state)
            self._seen |= self._members
            listed = (await self._desk.link.call("processes", {"pids": sorted(self._members)})).result["processes"]
            here = {(entry["pid"], entry["start_ticks"]) for entry in listed}
            self._members = {pid: ticks for pid, ticks in self._members.items() if (pid, ticks) in here}
            now = time.monotonic()
            lives = bool(self._members) or units.lives(state)
            if not lives and not state["alive"]:
                gone = gone or now
            known = state["exit"] is not None or not self._run.folder or (state.get("record") or {}).get("adopted")
            if not lives and (known or (gone and now - gone >= STATUS_S)):
                return state
            if now - began >= limit_s:
                return state
            if now - told >= 5:
                told = now
                self._say(
                    f"stopping - {_left(self._members, state)} after {now - began:.0f} s{await self._waits_for()}"
                )
            await asyncio.sleep(POLL_S)

    async def _waits_for(self) -> str:
        """Return what the log says that draining waits for, and whether that can ever end."""
        if not self._run.log:
            return ""
        try:
            args = {"path": self._run.log, "offset": -4096, "length": 4096}
            said = await self._desk.link.call("read_log", args)
        except RemoteError:
            return ""
        found = re.findall(rb"Remaining number of requests (\d+)", said.body)
        if not found:
            return ""
        text = f", draining waits for {int(found[-1])} requests"
        leader = self._run.process.pid if self._run.process is not None else 0
        pid = leader if leader in self._members else next(iter(self._members), 0)
        seen = (await self._desk.link.call("connections", {"pid": pid, "ports": [self._run.port]})).result["count"]
        if int(found[-1]) and not seen:
            text += " though no client is connected: refused requests stay counted, and it would never end by itself"
        return text

    async def _memory(self) -> Mapping[str, float] | None:
        said: Mapping[str, float] | None = (await self._desk.link.call("gpu_memory")).result["memory_mib"]
        return said

    async def _held(self) -> float | None:
        """Return the GPU memory that its processes hold; `None` when that cannot be known."""
        holders = (await self._desk.link.call("gpu_processes", deadline_s=30)).result["gpu_processes"]
        if holders is None:
            return None
        mine = [one for one in holders if one["seen"] and one["pid"] in self._seen]
        return sum(float(one["memory_mib"] or 0.0) for one in mine)

    async def _prove(self, before: Mapping[str, float] | None, held: float | None, state: State) -> None:
        run, unit = self._run, units.unit_of(state)
        listeners = (await self._desk.link.call("ports", {"port": run.port})).result["listeners"]
        ours = [entry for entry in listeners if entry["pid"] in self._seen]
        port = "still held" if ours else "free" if not listeners else "taken by another server"
        memory = await self._memory_back(before, held)
        also = f" · {units.word(unit)}" if unit is not None and unit.id else ""
        self._say(f"every process gone{also} · port {run.port} {port} · {memory}")

    async def _memory_back(self, before: Mapping[str, float] | None, held: float | None) -> str:
        """Wait until the GPU memory has come back; return how much, and how long that took."""
        if before is None:
            return "GPU memory not checked (no nvidia-smi)"
        began = time.monotonic()
        while True:
            now = await self._memory() or {}
            freed = sum(before.values()) - sum(now.get(card, 0.0) for card in before)
            left = await self._held() or 0.0
            took = time.monotonic() - began
            if not left and (held is None or freed >= held - SMALL_MIB * len(before)):
                return f"GPU memory given back: {max(0.0, freed):,.0f} MiB within {took:.1f} s"
            if took >= MEMORY_WAIT_S:
                if left:
                    return f"GPU memory still held by its processes: {left:,.0f} MiB"
                return f"GPU memory: {freed:,.0f} of {held or 0:,.0f} MiB came back; others may have taken some"
            await asyncio.sleep(POLL_S)


def _given_up(desk: Desk, stop: Mapping[str, Any]) -> bool:
    """Return whether a stop was noted by a console of this machine that died since, or lost its link and gave up."""
    if stop.get("console") != desk.claim["console"] or not isinstance(pid := stop.get("pid"), int):
        return False
    if pid == os.getpid():
        return stop.get("token") not in _UNDER_WAY
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _is_over(unit: Unit | None) -> bool:
    """Return whether nothing of a container or a job lives, as far as can be known at all."""
    return unit is None or unit.alive is False or (unit.kind == SYSTEMD_RUN and unit.alive is None)


def _published(listener: Mapping[str, Any]) -> bool:
    """Return whether a listener may be a container's: who carries its ports, or root where that cannot be seen."""
    program = str(listener["title"]).partition(" ")[0].rpartition("/")[2]
    if listener["pid"] is None:
        return int(listener["uid"]) == 0  # of the daemon; another login's is another's server
    return program in ("docker-proxy", "rootlessport", "conmon", "pasta", "slirp4netns")


def _left(members: Ids, state: State) -> str:
    """Return what of a run lives on."""
    unit = units.unit_of(state)
    if not members and unit is not None and unit.alive:
        return f"{units.word(unit)} lives on"
    return left_over(len(members), state.get("held_mib"))


def _ids(state: State) -> Ids:
    found: list[Mapping[str, Any]] = list(state["processes"])
    return {int(entry["pid"]): int(entry["start_ticks"]) for entry in found}

"""How a run stands: its folder on the host, its log, its HTTP, put together as a `Run`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from console.domain import readiness
from console.domain import run as words
from console.domain.run import Failure, FileHash, ProcessId, Run, Rung, RunPhase
from console.domain.text import clean
from console.engines.protocol import Engine, Watch
from console.engines.registry import engine
from console.errors import ConsoleError
from console.operations import owners, starting, units
from console.operations.desk import Desk
from console.operations.keys import auth_of
from console.operations.run_log import Reading
from console.operations.server_words import short
from console.remote.http import http_client

if TYPE_CHECKING:
    import httpx

ANSWER_S = 3.0

LIVING = words.LIVING

UNKNOWN_END = "its log says that it was stopped; nobody noted its exit status"

DRAINED = "it drained, and ended itself with SIGKILL as this engine does"
KILLED = "it was killed (SIGKILL) before it had drained"

_YEARLESS = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")

State = Mapping[str, Any]
"""What the host says of a run folder (`run_state`)."""


def run_of(state: State) -> Run:
    """Return what a run folder says, its log unread."""
    record: Mapping[str, Any] = state.get("record") or {}
    phase = _bare_phase(state)
    left = 0 if state.get("alive") else len(state.get("processes") or ())
    process = None
    if state.get("pid") is not None:
        process = ProcessId(int(state["pid"]), int(state["start_ticks"]), int(state["session"]))
    return Run(
        id=str(record.get("id") or str(state["folder"]).rpartition("/")[2]),
        profile=str(record.get("profile", "")),
        engine=str(record.get("engine", "sglang")),
        folder=str(state["folder"]),
        log=str(state["log"]),
        port=int(record.get("port", 0)),
        started_at=float(record.get("started_at", 0.0)),
        process=process,
        argv=tuple(record.get("argv", ())),
        phase=phase,
        reason=left_over(left, state.get("held_mib")) if left and phase is RunPhase.STOPPING else "",
        left=left,
        held_mib=state.get("held_mib"),
        ended_at=state.get("ended_at"),
        exit_status=state.get("exit"),
        hashes=tuple(FileHash(path, digest) for path, digest in dict(record.get("hashes") or {}).items()),
        patches_on=tuple(record.get("patches_on", ())),
        versions=dict(record.get("versions") or {}),
        env={str(name): str(value) for name, value in dict(record.get("env") or {}).items()},
        operator=str(record.get("operator", "")),
        utc_offset_s=record.get("utc_offset_s"),
        machine=dict(record.get("machine") or {}),
        launched=not record.get("adopted"),
        loaded=clean(str(record.get("loaded") or record.get("unproven") or "")),
        stopped_by=clean(str((state.get("stop") or {}).get("operator") or "")),
        unit=units.unit_of(state),
    )


def _bare_phase(state: State) -> RunPhase:
    if state.get("alive"):
        return RunPhase.STOPPING if state.get("stop") else RunPhase.STARTING
    if state.get("launching") or state.get("ending"):
        return RunPhase.STARTING if state.get("launching") else RunPhase.STOPPING
    if units.lives(state) and (state.get("stop") or state.get("exit") == 0):
        return RunPhase.STOPPING  # its launcher has ended, it has not
    if state.get("exit") is None:  # of one that was adopted nobody can know it
        stopped = state.get("stop") and (state.get("record") or {}).get("adopted")
        return RunPhase.EXITED if stopped else RunPhase.LOST
    asked = state["exit"] == 0 or state.get("stop")
    return RunPhase.EXITED if asked else RunPhase.FAILED


def run_with(
    run: Run,
    state: State,
    reading: Reading,
    *,
    answers: str | None = None,
    now: float | None = None,
    quiet_s: float | None = None,
) -> Run:
    """Return the run as folder, process, log and HTTP say together.

    Args:
        run: What is known so far.
        state: The folder.
        reading: The log.
        answers: What HTTP did (`domain.readiness`); `None` when it was not asked.
        now: Host's wall clock; that of the folder's look when it is not given.
        quiet_s: Seconds since the log's last byte; as of that look when it is not given.
    """
    watch, ended = reading.watch, not state.get("alive")
    fresh = run_of(state)
    failure = watch.failure(ended=ended and fresh.phase is not RunPhase.EXITED)
    noted_s = (state.get("ladder") or {}).get("ready_s") if reading.by_http else None
    was_ready = noted_s is not None or (reading.by_http and answers == readiness.OK)
    ready = watch.ready or (was_ready and failure is None)
    now = float(state.get("time") or 0.0) if now is None else now
    quiet_s = max(0.0, now - float(state.get("log_mtime") or now)) if quiet_s is None else quiet_s
    phase, reason = _phase(fresh.phase, watch, failure, ready, answers, quiet_s)
    if phase is RunPhase.STARTING:
        reason = units.obstacle(fresh.unit) or reason
        quiet_s = 0.0 if units.waits(fresh.unit) else quiet_s  # nothing of it runs yet that could hang
    if phase is RunPhase.EXITED and fresh.exit_status == 137:
        reason = DRAINED if watch.ended else KILLED if watch.stopping else ""
    if phase is RunPhase.EXITED and failure is not None and not state.get("stop") and not state.get("alive"):
        phase = RunPhase.FAILED  # vLLM ends with status 0 when its engine has died under it
    if phase is RunPhase.FAILED and failure is None:
        failure = _ended_without_a_word(state, reading)
    if phase in (RunPhase.EXITED, RunPhase.READY, RunPhase.BUSY, RunPhase.DEGRADED):
        failure = None
    ready_at = _ready_at(watch, fresh)
    if ready_at is None and was_ready:
        seen_s = None if reading.adopted else time.time()
        ready_at = run.ready_at or (fresh.started_at + noted_s if noted_s is not None else seen_s)
    known = replace(
        fresh,
        phase=phase,
        reason=reason or fresh.reason,
        ready_at=ready_at if phase not in (RunPhase.FAILED, RunPhase.STARTING) or ready else None,
        ladder=_since_launch(watch, fresh),
        failure=_with_orphans(_held_by_others(failure, state), state),
        evidence=tuple(text for text in reading.patterns if text in reading.evidence),
        resolved=reading.resolved or run.resolved,
    )
    return starting.told(known, state, reading.progress, reading.usual, now, quiet_s)


def _phase(
    bare: RunPhase, watch: Watch, failure: Failure | None, ready: bool, answers: str | None, quiet_s: float
) -> tuple[RunPhase, str]:
    if bare is RunPhase.STARTING:
        if failure is not None:
            return RunPhase.FAILED, ""
        if watch.stopping:
            return RunPhase.STOPPING, ""
        return readiness.judged(ready=ready, answer=answers, quiet_s=quiet_s)
    if bare is RunPhase.FAILED and watch.stopping and failure is None:
        return RunPhase.EXITED, ""  # drained: its own SIGKILL at the end looks like a kernel kill
    if bare is RunPhase.LOST and watch.stopping and failure is None:
        return RunPhase.EXITED, UNKNOWN_END
    return bare, ""


def left_over(count: int, held_mib: float | None) -> str:
    """Return that processes of a run live on although it was stopped."""
    held = f" ({held_mib:.0f} MiB)" if held_mib else ""
    return f"{count} process{'es'[: 2 * (count != 1)]} of this run still alive{held}"


def _ended_without_a_word(state: State, reading: Reading) -> Failure:
    status = int(state.get("exit") or 0)
    via = str(((state.get("record") or {}).get("unit") or {}).get("kind", ""))
    if (told := units.launcher_fault(via, status, reading.last_lines)) is not None:
        return Failure(told[0], tuple(clean(line) for line in reading.last_lines), told[1])
    if status > 128:
        cause = f"killed by signal {status - 128}"
        hint = "look for the out-of-memory killer in the host's kernel log (dmesg)" if status == 137 else ""
    else:
        cause, hint = f"ended with exit status {status}", ""
    return Failure(cause, tuple(clean(line) for line in reading.last_lines), hint)


def _held_by_others(failure: Failure | None, state: State) -> Failure | None:
    """Name who held GPU memory at launch, where memory is what was missing."""
    holders = (state.get("record") or {}).get("gpu_processes") or []
    if failure is None or "memory" not in failure.cause or not holders:
        return failure
    who = ", ".join(
        f"pid {entry['pid']} ({entry.get('user')}, {owners.shown_title(entry.get('title', ''), 60)}"
        + (f", {entry['memory_mib']:,.0f} MiB)" if entry.get("memory_mib") else ")")
        for entry in holders[:4]
    )
    return replace(failure, hint=f"GPU memory was held at launch by {who}; stop it first")


def _with_orphans(failure: Failure | None, state: State) -> Failure | None:
    """Name what is left of a run whose launcher is gone."""
    left, told = state.get("processes") or [], units.unit_of(state)
    if failure is None or state.get("alive") or not units.lives(state):
        return failure
    if not left:
        return replace(failure, hint=f"{units.word(told)} lives on; serve stop ends it") if told else failure
    return replace(failure, hint=f"{orphans(left)}; serve stop ends them")


def orphans(processes: Sequence[Mapping[str, Any]]) -> str:
    """Return what is left of a run as a clause."""
    who = ", ".join(f"{entry['pid']} ({short(owners.shown_title(entry['title']))})" for entry in processes[:4])
    return f"{len(processes)} of its processes live on: {who}"


def _ready_at(watch: Watch, run: Run) -> float | None:
    """Return when the log says that the server became ready, by its stamps or by its own count of seconds."""
    if watch.ready_clock:
        return _epoch(watch.ready_clock, run)
    return run.started_at + watch.ready_s if watch.ready_s is not None else None


def _epoch(clock: str, run: Run) -> float | None:
    """Return the moment of a log stamp, when that can be right; a stamp without a year is of the run's."""
    zone = timezone(timedelta(seconds=run.utc_offset_s or 0))
    year = datetime.fromtimestamp(run.started_at, zone).year
    for text in (f"{year}-{clock}", f"{year + 1}-{clock}") if _YEARLESS.match(clock) else (clock,):
        try:
            moment = datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()
        except ValueError:
            continue
        if -2 < moment - run.started_at < 7 * 86400:
            return moment
    return None


def _since_launch(watch: Watch, run: Run) -> tuple[Rung, ...]:
    """Return the ladder with times after launch: importing comes before the first stamp."""
    first = _epoch(watch.first_clock, run)
    shift = first - run.started_at if first is not None else 0.0
    moved = []
    for rung in watch.ladder():
        began, ended = (None if at is None else max(0.0, at + shift) for at in (rung.started_s, rung.ended_s))
        moved.append(replace(rung, started_s=0.0 if rung.name == "start" else began, ended_s=ended))
    return tuple(moved)


async def answers(desk: Desk, run: Run) -> str:
    """Return what the server's cheap endpoint does (`domain.readiness`); never one that generates tokens."""
    import httpx

    try:
        async with http_client(desk.link, run.port, timeout_s=ANSWER_S, auth=auth_of(desk, run)) as client:
            adapter = engine(run.engine)
            reply = await _asked(client, adapter.ready_path, adapter)
            # one that asks for its --api-key answers well
            return readiness.OK if reply.status_code in (200, 401, 403) else readiness.UNWELL
    except httpx.ConnectError:
        return readiness.REFUSED
    except httpx.HTTPError:
        return readiness.TIMEOUT


async def get_told(
    desk: Desk, port: int, path: str, *, of: Engine, timeout_s: float = ANSWER_S, run: Run | None = None
) -> Any:
    """Return a reply of the server, JSON or the text of metrics; `None` when there is none.

    Args:
        desk: The desk.
        port: Where it listens.
        path: What is asked.
        of: Its engine.
        timeout_s: How long it may take.
        run: Its run, where it may want the key of that.
    """
    import httpx

    try:
        async with http_client(desk.link, port, timeout_s=timeout_s, auth=auth_of(desk, run)) as client:
            reply = await _asked(client, path, of)
            if reply.status_code != 200:
                return None
            return reply.json() if reply.text[:1] in ("{", "[") else reply.text
    except (httpx.HTTPError, ValueError):
        return None


async def _asked(client: httpx.AsyncClient, path: str, of: Engine) -> httpx.Response:
    """Return the reply to a path, or to what older versions call it where it is not known."""
    reply = await client.get(path)
    older = of.older.get(path)
    return await client.get(older) if older and reply.status_code == 404 else reply


async def evidence_patterns(desk: Desk) -> tuple[str, ...]:
    """Return the log texts that prove known patches."""
    from console.operations.patches import known_patches

    try:
        return tuple(dict.fromkeys(patch.evidence_log for patch in known_patches(desk) if patch.evidence_log))
    except ConsoleError as error:
        desk.say(error.one_line())
        return ()

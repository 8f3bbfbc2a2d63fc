"""A run as the shell tells it: JSON fields and lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from console.domain.run import LIVING, Run, RunPhase

SIGNS = {
    RunPhase.READY: "●",
    RunPhase.BUSY: "◐",
    RunPhase.DEGRADED: "◑",
    RunPhase.STARTING: "◌",
    RunPhase.STOPPING: "◌",
    RunPhase.FAILED: "✗",
    RunPhase.LOST: "?",
    RunPhase.EXITED: "○",
    RunPhase.NONE: "·",
}
"""Beside the word, never instead of it."""

ENDS = {RunPhase.FAILED: "died here", RunPhase.LOST: "lost here", RunPhase.EXITED: "ended here"}
"""What is said of the step that a run which is over was at, in place of how long it took."""


def moment(epoch_s: float | None) -> str | None:
    """Return an ISO 8601 time with zone, `None` when unknown."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds") if epoch_s else None


def run_fields(run: Run) -> Mapping[str, Any]:
    """Return a run as JSON."""
    process = run.process
    return {
        "id": run.id or None,
        "profile": run.profile or None,
        "engine": run.engine,
        "phase": run.phase.value,
        "readiness": run.readiness.value,
        "reason": run.reason or None,
        "processes_left": run.left,
        "held_mib": run.held_mib,
        "unit": _unit(run),
        "usual_ready_s": run.usual_ready_s,
        "stall": _stall(run),
        "adopted": run.adopted,
        "launched": run.launched and run.adopted,
        "operator": run.operator,
        "stopped_by": run.stopped_by or None,
        "port": run.port,
        "pid": process.pid if process else None,
        "start_ticks": process.start_ticks if process else None,
        "session": process.session or None if process else None,
        "started_at": moment(run.started_at),
        "ready_at": moment(run.ready_at),
        "ended_at": moment(run.ended_at),
        "exit_status": run.exit_status,
        "argv": list(run.argv),
        "folder": run.folder or None,
        "log": run.log or None,
        "log_why": run.log_why or None,
        "ladder": [
            {
                "name": r.name,
                "started_s": r.started_s,
                "ended_s": r.ended_s,
                "usual_s": r.usual_s,
                "note": r.note,
                "progress": r.progress,
                "done": r.done,
                "total": r.total,
                "eta_s": r.eta_s,
                "ranks_begun": r.ranks_begun,
                "ranks_ended": r.ranks_ended,
            }
            for r in run.ladder
        ],
        "failure": None
        if run.failure is None
        else {"cause": run.failure.cause, "lines": list(run.failure.lines), "hint": run.failure.hint},
        "loaded": run.loaded or None,
        "patches_on": list(run.patches_on),
        "hashes": {entry.path: entry.sha256 for entry in run.hashes},
        "evidence": list(run.evidence),
        "versions": dict(run.versions),
    }


def _unit(run: Run) -> Mapping[str, Any] | None:
    unit = run.unit
    if unit is None:
        return None
    told = {"kind": unit.kind, "id": unit.id or None, "name": unit.name, "state": unit.state}
    return {
        **told,
        "reason": unit.reason or None,
        "node": unit.node or None,
        "alive": unit.alive,
        "elsewhere": unit.elsewhere,
    }


def _stall(run: Run) -> Mapping[str, Any] | None:
    stall = run.stall
    if stall is None:
        return None
    told = {"rung": stall.rung, "text": stall.text, "since": moment(stall.since), "silent_s": stall.silent_s}
    return {**told, "evidence": list(stall.evidence), "hints": list(stall.hints)}


def run_lines(run: Run) -> Iterator[str]:
    """Return a run as lines for people."""
    name = f"run {run.id}" if run.id else "a server that tokwatt did not start"
    port = f"port {run.port}" if run.port else "no port yet" if run.phase in LIVING else "port not known"
    yield f"{SIGNS[run.phase]} {name} · {run.phase.value} · {port}" + (f" · {run.profile}" * bool(run.profile))
    if run.reason:
        yield f"  {run.phase.value} - {run.reason}"
    if run.process:
        yield f"  process   pid {run.process.pid}" + f", session {run.process.session}" * bool(run.process.session)
    if run.unit is not None:
        unit = run.unit
        where, why = f" on {unit.node}" * bool(unit.node), f" ({unit.reason})" * bool(unit.reason)
        yield f"  unit      {unit.kind} {unit.name} · {unit.state}{where}{why}" + f" · {unit.id}" * (
            unit.id not in ("", unit.name)
        )
    if run.started_at:
        how = "by" if run.launched or not run.adopted else "otherwise; adopted by"
        yield f"  started   {moment(run.started_at)} {how} {run.operator}"
    if run.ready_at:
        yield f"  ready     {moment(run.ready_at)} ({max(0.0, run.ready_at - run.started_at):.0f} s after launch)"
    if run.ended_at or run.exit_status is not None or run.phase in (RunPhase.EXITED, RunPhase.FAILED, RunPhase.LOST):
        by = f", stopped by {run.stopped_by}" * bool(run.stopped_by)
        status = "no exit status was left" if run.exit_status is None else f"exit status {run.exit_status}"
        ended = f"{moment(run.ended_at) or 'nobody noted when'}, {status}{by}"
        if run.phase is RunPhase.FAILED and run.ended_at is None and run.exit_status is None:
            ended = f"not noted so far: what has failed may still be ending{by}"
        yield f"  ended     {ended}"
    if run.log:
        yield f"  log       {run.log}"
    if run.loaded:
        yield f"  loaded    {run.loaded}"
    if run.patches_on:
        yield f"  patches   {', '.join(run.patches_on)} (on at launch)"
    for text in run.evidence:
        yield f"  evidence  {text}"
    if run.argv:
        yield f"  command   {shlex.join(run.argv)}"
    for rung in run.ladder:
        took = ENDS.get(run.phase, "") if rung.started_s is not None else ""
        if rung.started_s is not None and rung.ended_s is not None:
            took = f"{rung.ended_s - rung.started_s:7.1f} s"
        bar = "" if rung.progress is None else f"{rung.progress:4.0%}"
        bar += f" {rung.done}/{rung.total}" if rung.total else ""
        bar += f" ETA {rung.eta_s:.0f} s" if rung.eta_s is not None else ""
        usual = f" (usually {rung.usual_s:.1f} s)" if rung.usual_s is not None else ""
        yield f"  {rung.started_s or 0:7.1f} s  {rung.name:<15} {took:>9} {bar} {rung.note}{usual}".rstrip()
    if run.stall is not None:
        yield f"  ! {run.stall.text}"
        yield from (f"    {text}" for text in run.stall.evidence)
        yield from (f"    try: {hint}" for hint in run.stall.hints)
    if run.failure is not None:
        yield f"  failed: {run.failure.cause}"
        for line in run.failure.lines:
            yield f"    {line}"
        if run.failure.hint:
            yield f"  try: {run.failure.hint}"


def table_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Return runs as a table, one a line."""
    for run in runs:
        pid = str(run.process.pid) if run.process else "—"
        status = "—" if run.exit_status is None else str(run.exit_status)
        started = moment(run.started_at) or "—"
        yield f"{run.id:<14} {SIGNS[run.phase]} {run.phase.value:<9} exit {status:<4} pid {pid:<8} {started}  {run.profile}"

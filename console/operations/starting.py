"""A start followed: bars, ranks, what earlier starts took, and the alarm when it stalls."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from console.domain.run import LogKind, LogRecord, Run, Rung, RunPhase
from console.domain.starting import Scene, Usual, stall_of
from console.domain.text import clean
from console.operations.desk import Desk

LOOKED_AT = 5
"""Earlier starts whose median is the usual time."""

_LEFT = re.compile(r"<((?:\d+:)?\d{1,3}:\d{2})")
_NCCL = re.compile(r"ncclCommInitRank\b.*\brank (\d+) nranks (\d+)\b.*Init COMPLETE")


@dataclass(slots=True)
class Progress:
    """What a log tells of a start beside its ladder."""

    begun: dict[str, set[str]] = field(default_factory=dict)
    ended: dict[str, set[str]] = field(default_factory=dict)
    bar: tuple[int, int, float | None] | None = None
    """Done, total and seconds left of the newest bar."""
    last_clock: str = ""
    last_line: str = ""
    complete: set[str] = field(default_factory=set)
    expected: int = 0

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        self.last_clock = record.clock or self.last_clock
        if record.raw.strip():
            self.last_line = record.raw.strip().rpartition("\n")[2].rpartition("\r")[2]
        if record.kind is LogKind.PROGRESS:
            done, total = record.values.get("done"), record.values.get("total")
            if isinstance(done, int) and isinstance(total, int) and total:
                self.bar = (done, total, _left_s(record.raw))
        elif record.kind is LogKind.PHASE:
            self._phase(record)
        elif match := _NCCL.search(record.raw):
            self.complete.add(match[1])
            self.expected = int(match[2])

    def _phase(self, record: LogRecord) -> None:
        name, step = str(record.values.get("phase")), record.values.get("step")
        if name == "arguments":
            self.begun, self.ended, self.complete, self.expected = {}, {}, set(), 0
        self.bar = None
        ranks = record.source.get("ranks")
        if isinstance(ranks, Mapping) and ranks:
            table = self.ended if step == "end" else self.begun
            table.setdefault(name, set()).add(" ".join(f"{key}{ranks[key]}" for key in sorted(ranks)))

    def reported(self) -> str:
        """Return how many ranks of an NCCL communicator have come up, in words."""
        return f"{len(self.complete)} of {self.expected} ranks reported NCCL Init COMPLETE" if self.expected else ""


def _left_s(raw: str) -> float | None:
    found = _LEFT.findall(raw)
    if not found:
        return None
    seconds = 0
    for part in found[-1].split(":"):
        seconds = seconds * 60 + int(part)
    return float(seconds)


def told(run: Run, state: Mapping[str, Any], progress: Progress, usual: Usual, now: float, quiet_s: float) -> Run:
    """Return the run with usual times, counts, ranks and its alarm on the ladder."""
    if run.phase is not RunPhase.STARTING:
        ladder = tuple(replace(rung, usual_s=usual.rungs.get(rung.name)) for rung in run.ladder)
        return replace(run, ladder=ladder, usual_ready_s=usual.ready_s)
    ladder = tuple(_rung(rung, progress, usual) for rung in run.ladder)
    run = replace(run, ladder=ladder, usual_ready_s=usual.ready_s)
    scene = Scene(
        now,
        quiet_s,
        progress.last_clock,
        clean(progress.last_line),
        progress.reported(),
        tuple((state.get("record") or {}).get("env_names") or ()),
        tuple(str(entry["title"]) for entry in state.get("processes") or ()),
    )
    return replace(run, stall=stall_of(run, scene))


def _rung(rung: Rung, progress: Progress, usual: Usual) -> Rung:
    begun, ended = progress.begun.get(rung.name, set()), progress.ended.get(rung.name, set())
    rung = replace(
        rung,
        usual_s=usual.rungs.get(rung.name),
        ranks_begun=len(begun | ended),
        ranks_ended=len(ended),
    )
    if rung.ended_s is None and rung.progress is not None and progress.bar is not None:
        done, total, left = progress.bar
        rung = replace(rung, done=done, total=total, eta_s=left)
    return rung


def ladder_note(run: Run) -> dict[str, Any]:
    """Return what is kept of a start for the starts to come."""
    spans = {
        rung.name: round(rung.ended_s - rung.started_s, 3)
        for rung in run.ladder
        if rung.started_s is not None and rung.ended_s is not None
    }
    return {"ready_s": round((run.ready_at or run.started_at) - run.started_at, 3), "rungs": spans}


def usual_of(states: Sequence[Mapping[str, Any]], run: Run) -> Usual:
    """Return the medians of the newest earlier starts: of the same arguments if there are any, else of the profile."""
    mine = [state for state in states if state.get("ladder") and _told_id(state) != run.id and _of(state, run)]
    same = [state for state in mine if tuple(state["record"].get("argv") or ()) == run.argv]
    chosen = [state["ladder"] for state in (same or mine)[:LOOKED_AT]]
    if not chosen:
        return Usual()
    names = {name for ladder in chosen for name in ladder.get("rungs") or {}}
    rungs = {
        name: statistics.median(ladder["rungs"][name] for ladder in chosen if name in (ladder.get("rungs") or {}))
        for name in names
    }
    ready = [ladder["ready_s"] for ladder in chosen if isinstance(ladder.get("ready_s"), (int, float))]
    return Usual(statistics.median(ready) if ready else None, rungs, len(chosen))


def _told_id(state: Mapping[str, Any]) -> str:
    return str((state.get("record") or {}).get("id", ""))


def _of(state: Mapping[str, Any], run: Run) -> bool:
    record = state.get("record") or {}
    return bool(record.get("profile") == run.profile and record.get("engine", "sglang") == run.engine)


async def usual_times(desk: Desk, run: Run, limit: int = 20) -> Usual:
    """Return what earlier starts of a run's profile took on this host: one round trip."""
    states = (await desk.link.call("runs", {"limit": limit})).result["runs"]
    return usual_of(states, run)


async def keep_ladder(desk: Desk, run: Run) -> None:
    """Keep how long the steps of a start took, beside its log."""
    await desk.link.call("note_ladder", {"folder": run.folder, "ladder": ladder_note(run)})

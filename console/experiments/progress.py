"""Where an experiment stands: folded from what happened, so that a crash loses nothing but the step under way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.domain.experiment import BASE, METRICS, ArmSpec, Metric, Verdict

CONFIRM = "confirm"
"""Stage of the winner's fresh measurement; other stages have the name of the arm that they change."""

Values = Mapping[int, float]
"""Concurrency to the value of the deciding metric."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two arms of a stage, block by block: the values of both, and the launches that they come from."""

    base: tuple[float, ...] = ()
    arm: tuple[float, ...] = ()
    launches: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.base)

    @property
    def logs(self) -> list[float]:
        """Logs of the ratios."""
        return [math.log(arm / base) for base, arm in zip(self.base, self.arm, strict=True)]


@dataclass(frozen=True, slots=True)
class Rules:
    """What of an experiment its next step depends on."""

    arms: tuple[str, ...]
    """The base first."""
    against: Mapping[str, str]
    repeats: int = 5
    confirm: int = 3
    metric: str = "output_tok_s"
    decide_at: int = 0
    concurrency: tuple[int, ...] = ()
    min_gain_pct: float = 0.0
    early_stop: bool = True
    interleave: bool = True

    @property
    def measure_of(self) -> Metric:
        """The deciding metric."""
        return METRICS[self.metric]

    @classmethod
    def of(cls, arms: Iterable[ArmSpec], **fields: Any) -> Rules:
        """Return the rules for arms as a file says them."""
        found = tuple(arms)
        return cls((BASE, *(one.name for one in found)), {one.name: one.extends for one in found}, **fields)


@dataclass(frozen=True, slots=True)
class Settled:
    """What was decided of an arm."""

    verdict: Verdict
    reason: str = ""
    same_as: str = ""


@dataclass(slots=True)
class Progress:
    """What happened so far."""

    visits: dict[tuple[str, int, str], Values] = field(default_factory=dict)
    """(stage, block, arm) to the values measured there; empty values for a visit that was tainted."""
    taints: dict[tuple[str, int, str], str] = field(default_factory=dict)
    launches: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """The run that each visit measured."""
    measured_at: list[float] = field(default_factory=list)
    """When each visit ended, in seconds since the epoch."""
    settled: dict[str, Settled] = field(default_factory=dict)
    entered: set[str] = field(default_factory=set)
    """Arms that were in force at some time."""
    rolled_back: dict[str, float] = field(default_factory=dict)
    relaunched: dict[str, float] = field(default_factory=dict)
    runs: dict[str, list[str]] = field(default_factory=dict)
    in_force: dict[str, str] = field(default_factory=dict)
    """Arm to the hash of what its server said that it uses."""
    notes: list[str] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    """Arms whose arguments in force and answers were looked at."""
    asked: set[str] = field(default_factory=set)
    """Runs whose answers were looked at: kernels that are chosen at a launch may be others the next time."""
    answers: dict[str, Any] = field(default_factory=dict)
    """Arm to what it answered first."""
    refuted: dict[str, str] = field(default_factory=dict)
    """Winners that a fresh measurement did not confirm, and why."""
    current: str = ""
    """Arm that is in force and ready; empty while it is not certain."""
    run: str = ""
    """The run that was launched for it."""
    run_visits: int = 0
    """Visits that this run has had."""
    left_in: str = ""
    finished: bool = False
    error: str = ""

    def measured(self, stage: str, block: int, arm: str) -> bool:
        """Whether a visit was made."""
        return (stage, block, arm) in self.visits

    def pairs(self, stage: str, base: str, arm: str, concurrency: int) -> Pairs:
        """Return the pairs of two arms in a stage, in the order of their blocks."""
        found, launches = [], []
        for block in sorted({at for where, at, _ in self.visits if where == stage}):
            keys = (stage, block, base), (stage, block, arm)
            one, other = (self.visits.get(key, {}).get(concurrency) for key in keys)
            if one and other:
                found.append((one, other))
                launches.append((self.launches.get(keys[0], ""), self.launches.get(keys[1], "")))
        return Pairs(tuple(a for a, _ in found), tuple(b for _, b in found), tuple(launches))

    def same(self, arm: str) -> str:
        """Return the arm that stands for this one: itself, or what it is the same as."""
        seen = set()
        while arm in self.settled and self.settled[arm].verdict is Verdict.SAME_ARM and arm not in seen:
            seen.add(arm)
            arm = self.settled[arm].same_as or BASE
        return arm


def folded(events: Iterable[tuple[str, float, Mapping[str, Any]]]) -> Progress:
    """Return the progress that a list of events (kind, time, data) comes down to."""
    progress = Progress()
    for kind, at, data in events:
        take(progress, kind, at, data)
    return progress


def take(progress: Progress, kind: str, at: float, data: Mapping[str, Any]) -> None:
    """Take one more event."""
    arm = str(data.get("arm", ""))
    if kind == "step":
        progress.current = progress.run = ""
        progress.entered.add(arm)
        progress.error = ""
    elif kind == "ready":
        progress.current, progress.run = arm, str(data["run"])
        progress.run_visits = 0
        progress.runs.setdefault(arm, []).append(progress.run)
        progress.in_force[arm] = str(data.get("in_force", ""))
        progress.notes += [note for note in data.get("notes", ()) if note not in progress.notes]
        back = str(data.get("after", ""))
        if back:
            progress.relaunched[back] = at
    elif kind == "checked":
        progress.checked.add(arm)
        progress.asked.add(str(data.get("run") or ""))
        progress.answers.setdefault(arm, data.get("answers"))
    elif kind == "measured":
        key = (str(data["stage"]), int(data["block"]), arm)
        progress.visits[key] = {int(rung): float(value) for rung, value in data["values"].items()}
        if data.get("tainted"):
            progress.taints[key] = str(data["tainted"])
        progress.launches[key] = str(data.get("run") or progress.run)
        progress.run_visits += 1
        progress.measured_at.append(at)
    elif kind == "verdict":
        progress.settled[arm] = Settled(
            Verdict(data["verdict"]), str(data.get("reason", "")), str(data.get("same_as", ""))
        )
    elif kind == "rolled_back":
        progress.rolled_back[arm] = at
    elif kind == "refuted":
        progress.refuted[arm] = str(data["reason"])
    elif kind == "left":
        progress.left_in = arm
    elif kind == "error":
        progress.error = str(data.get("error", ""))
    elif kind == "finished":
        progress.finished = True

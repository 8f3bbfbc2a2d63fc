"""An activity: a running or finished operation, as the screen tells it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from console.domain.text import SafeText


class Outcome(StrEnum):
    """How an activity stands."""

    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Activity:
    """One operation: what, how it went, and what it did."""

    id: int
    verb: str
    text: SafeText
    outcome: Outcome = Outcome.RUNNING
    detail: SafeText = SafeText("")
    started_at: float = 0.0
    """Wall clock, seconds since the epoch."""
    ms: float | None = None
    undo: str = ""
    """Key or verb that takes it back; empty when nothing does."""

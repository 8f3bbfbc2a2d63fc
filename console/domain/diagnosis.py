"""What binds a server now: a verdict with its signs, what would refute it, and what to try."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Bound(StrEnum):
    """What a server waits for, or why that cannot be said."""

    COMPUTE = "compute"
    HBM = "hbm"
    LINK_LATENCY = "link_latency"
    """The SMs are busy waiting for each other: all-reduces too small to fill the link, yet slow to cross it."""
    LINK_BANDWIDTH = "link_bandwidth"
    HOST = "host"
    STARVED = "starved"
    """The GPUs pause between steps: too little work comes, or the scheduler holds it back."""
    KV = "kv"
    POWER_CAP = "power_cap"
    THERMAL_CAP = "thermal_cap"
    CLOCKS_LOCKED = "clocks_locked"
    STRAGGLER = "straggler"
    OTHER_TENANT = "other_tenant"
    NO_CLEAR_CAUSE = "no_clear_cause"
    IDLE = "idle"
    UNKNOWN = "unknown"
    """What would have to be read is not."""


CAUSELESS = frozenset({Bound.NO_CLEAR_CAUSE, Bound.IDLE, Bound.UNKNOWN})
"""Verdicts that name no cause."""


class Confidence(StrEnum):
    """How far a verdict is to be trusted."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that speaks for or against a verdict."""

    text: str
    """What was seen beside what was looked for: `SM 98 % (90 or more)`."""
    met: bool | None
    """`None`: it could not be read."""
    needed: bool = False
    """Without it the verdict is not given."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A verdict over a window of samples."""

    bound: Bound
    sentence: str
    """Plain words for the operator."""
    signs: tuple[Sign, ...] = ()
    confidence: Confidence = Confidence.LOW
    refuted_by: tuple[str, ...] = ()
    """What would prove it wrong."""
    knobs: tuple[str, ...] = ()
    """What to try, the likeliest first."""
    gpu: int | None = None
    """Index of the GPU it is about, when it is about one."""
    window_s: float = 0.0
    """Length of what was looked at."""
    also: tuple[Diagnosis, ...] = ()
    """Other verdicts whose needed signs are met too."""

    @property
    def met(self) -> int:
        """How many signs were found."""
        return sum(sign.met is True for sign in self.signs)

    @property
    def said(self) -> str:
        """The sentence with how much speaks for it."""
        if not self.signs or self.bound in CAUSELESS:
            return self.sentence
        return f"{self.sentence} ({self.met} of {len(self.signs)} signs)"

"""What the measurements of a run recorded over time, as frames."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from console.journal.book import Journal
from console.journal.records import RunEntry
from console.journal.requests import recorded

GAP_S = 2.0
"""A longer pause between two moments is drawn as this long."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a recorded run."""

    time: float
    """Host's wall clock, seconds since the epoch."""
    power_w: tuple[float | None, ...]
    """By GPU."""
    output_tok_s: float | None
    running: float | None
    concurrency: int
    repeat: int

    @property
    def total_w(self) -> float | None:
        """All GPUs together; `None` when one of them is not known."""
        return None if not self.power_w or None in self.power_w else sum(one or 0.0 for one in self.power_w)


async def frames_of(entry: RunEntry) -> tuple[Frame, ...]:
    """Return the recorded moments of a run; none for runs measured before these were kept."""
    found: list[Frame] = []
    for one in await recorded(Journal(), entry.host, entry.id):
        found += _frames(one)
    return tuple(sorted(found, key=lambda frame: frame.time))


def _frames(one: dict[str, Any]) -> list[Frame]:
    """Return a frame for each sample of power; without any, one for each bin of the load's course."""
    course = one["course"] or {}
    wide, began = float(course.get("bin_s") or 0.0), float(one["started_at"])
    tokens, running = course.get("tokens") or (), course.get("running") or ()

    def at(time: float) -> tuple[float | None, float | None]:
        place = int((time - began) / wide) if wide and time >= began else -1
        return (tokens[place] / wide, running[place]) if 0 <= place < len(tokens) else (None, None)

    rows = one["power"] or [(began + place * wide, ()) for place in range(len(tokens))]
    return [Frame(time, tuple(watts), *at(time), one["concurrency"], one["repeat"]) for time, watts in rows]


def shown_times(frames: Sequence[Frame]) -> list[float]:
    """Return the seconds of each frame on the axis of a picture: pauses between measurements are cut short."""
    told = [0.0] if frames else []
    for earlier, later in itertools.pairwise(frames):
        told.append(told[-1] + min(GAP_S, max(0.0, later.time - earlier.time)))
    return told

"""The whole of a recorded run at a glance: each reading's mean and extremes in equal parts of its time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from console.journal.packing import MAX, MIN, ROWS, Block
from console.operations.tape import Tape

SHOWN = ("power_w", "limit_w", "tok_s")
"""First words of the columns that are summed up."""


@dataclass(slots=True)
class Part:
    """One reading in one part of the time."""

    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    rows: int = 0

    @property
    def mean(self) -> float | None:
        """Mean of what is known."""
        return self.total / self.rows if self.rows else None


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in equal parts."""

    began: float
    ended: float
    columns: dict[str, list[Part | None]]
    """By name; a part in which nothing was known is `None`."""

    @property
    def step_s(self) -> float:
        """Length of a part."""
        return (self.ended - self.began) / max(1, self.count)

    @property
    def count(self) -> int:
        """How many parts there are."""
        return max((len(column) for column in self.columns.values()), default=0)

    def means(self, name: str) -> list[tuple[float, float | None]]:
        """Return the middle of each part with its mean."""
        parts = self.columns.get(name, [None] * self.count)
        step_s = self.step_s
        return [
            (self.began + (place + 0.5) * step_s, part.mean if part is not None else None)
            for place, part in enumerate(parts)
        ]

    def most(self, name: str) -> float | None:
        """Return the highest value."""
        known = [part.high for part in self.columns.get(name, ()) if part is not None]
        return max(known, default=None)

    @property
    def gpus(self) -> list[str]:
        """The columns that hold the power of single GPUs, in their order."""
        names = [name for name in self.columns if name.startswith("power_w.")]
        return sorted(names, key=lambda name: int(name.partition(".")[2]))

    @property
    def limit_w(self) -> float | None:
        """Highest sum of the limits of all GPUs."""
        limits = [self.most(name) for name in self.columns if name.startswith("limit_w.")]
        known = [limit for limit in limits if limit is not None]
        return sum(known) if known and len(known) == len(self.gpus) else None


def overview(tape: Tape, count: int) -> Overview:
    """Return a run in `count` parts; takes about a second for six hours at 10 Hz."""
    found = Overview(tape.began, max(tape.ended, tape.began + 1.0), {})
    step_ms = (found.ended - found.began) * 1000 / count
    for number in range(len(tape.kept)):
        _add(found.columns, tape.part(number, _wanted), found.began * 1000, step_ms, count)
    return found


def _wanted(name: str) -> bool:
    return name.partition(".")[0] in SHOWN or name == ROWS


def _add(columns: dict[str, list[Part | None]], block: Block, began_ms: float, step_ms: float, count: int) -> None:
    places = [min(count - 1, max(0, int((time - began_ms) / step_ms))) for time in block.times]
    weights: Sequence[int | None] = block.columns.get(ROWS) or [1] * len(block)
    for name in block.columns:
        if name == ROWS or name.endswith((MIN, MAX)):
            continue
        parts = columns.setdefault(name, [None] * count)
        lows = name + MIN if name + MIN in block.columns else name
        highs = name + MAX if name + MAX in block.columns else name
        for row, place in enumerate(places):
            value = block.value(name, row)
            if value is None:
                continue
            part = parts[place]
            if part is None:
                part = parts[place] = Part()
            weight = weights[row] or 1
            low, high = block.value(lows, row), block.value(highs, row)
            part.low = min(part.low, value if low is None else low)
            part.high = max(part.high, value if high is None else high)
            part.total += value * weight
            part.rows += weight

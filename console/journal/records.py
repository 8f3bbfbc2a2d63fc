"""What stands in the journal, and its way to JSON and back."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from console.domain.measurement import Measurement, Percentiles

_DISTRIBUTIONS = ("ttft_ms", "itl_ms", "tpot_ms", "e2el_ms")


@dataclass(frozen=True, slots=True)
class Brief:
    """What a list tells of a run's measurements."""

    count: int
    rungs: tuple[int, ...]
    best_tok_s: float | None


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run that something was measured of."""

    id: str
    host: str
    profile: str
    engine: str
    started_at: float
    badge: str = ""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """Arguments in force, patch hashes at launch, versions, GPUs."""
    measurements: tuple[Measurement, ...] = ()
    tags: tuple[str, ...] = ()
    note: str = ""
    brief: Brief | None = None
    """In the place of measurements, in a list."""

    @property
    def measured(self) -> int:
        """How many measurements there are of it."""
        return len(self.measurements) if self.brief is None else self.brief.count

    @property
    def rungs(self) -> tuple[int, ...]:
        """The concurrencies that it was measured at."""
        if self.brief is not None:
            return self.brief.rungs
        return tuple(sorted({one.concurrency_limit for one in self.measurements}))

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from every other run: an id is its host's own."""
        return self.host, self.id

    @property
    def best_tok_s(self) -> float | None:
        """The most output tok/s of its untainted measurements."""
        if self.brief is not None:
            return self.brief.best_tok_s
        fit = [one.output_throughput_tok_s for one in self.measurements if not one.tainted]
        return max((value for value in fit if value is not None), default=None)


def entry_from(row: sqlite3.Row, **more: Any) -> RunEntry:
    """Return a run from its row, with what else is known of it."""
    return RunEntry(row["id"], row["host"], row["profile"], row["engine"], row["started_at"], row["badge"], **more)


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """One write to a host."""

    at: float
    host: str
    operator: str
    badge: str
    receipt: Mapping[str, Any]


def measurement_data(one: Measurement) -> dict[str, Any]:
    """Return a measurement as plain data."""
    return dataclasses.asdict(one)


def measurement_from(data: Mapping[str, Any]) -> Measurement:
    """Return a measurement from plain data; fields of a newer version are passed over."""
    known = {item.name for item in dataclasses.fields(Measurement)}
    values = {name: value for name, value in data.items() if name in known}
    for name in _DISTRIBUTIONS:
        values[name] = Percentiles(**values.get(name, {"count": 0}))
    values["tainted"] = tuple(values.get("tainted", ()))
    return Measurement(**values)

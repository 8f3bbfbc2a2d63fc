"""Equal tracebacks of several ranks: one record with all its ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from console.domain.run import LogRecord
from console.engines.clocks import seconds_between

TRACEBACK = "Traceback (most recent call last)"

HELD = 64
"""Records that wait behind a traceback for the next rank's."""

WINDOW_S = 10.0
"""Ranks that fail of one cause fail within this time."""

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")


@dataclass(slots=True)
class _Fold:
    """One traceback, and who printed it."""

    record: LogRecord
    ranks: list[dict[str, int]]
    offsets: list[int]


@dataclass(slots=True)
class RankFold:
    """Takes records in their order and gives them back in their order, equal tracebacks of further ranks taken out."""

    _open: dict[tuple[object, str], _Fold] = field(default_factory=dict)
    held: list[LogRecord | _Fold] = field(default_factory=list)
    """Records that wait."""
    _quiet: int = 0
    _clock: str = ""

    @property
    def offsets(self) -> list[int]:
        """Where the records begin that wait."""
        return [(item.record if isinstance(item, _Fold) else item).offset for item in self.held]

    def take(self, record: LogRecord, text: str) -> list[LogRecord]:
        """Return what need not wait any longer.

        Args:
            record: The next record.
            text: Its message, the prefixes of all its lines taken off.
        """
        if not self.held and TRACEBACK not in text:
            return [record]
        ranks = _ranks(record)
        if TRACEBACK in text and ranks:
            return self._take_traceback(record, ranks, text)
        self.held.append(record)
        self._quiet += 1
        return self.flush() if self._quiet > HELD or self._late(record.clock) else []

    def flush(self) -> list[LogRecord]:
        """Return everything that waits."""
        held = [_folded(item) if isinstance(item, _Fold) else item for item in self.held]
        self.held, self._open, self._quiet = [], {}, 0
        return held

    def _take_traceback(self, record: LogRecord, ranks: dict[str, int], text: str) -> list[LogRecord]:
        done = self.flush() if self._late(record.clock) else []
        key = (record.source.get("container"), _likeness(text))
        fold = self._open.get(key)
        if fold is None or ranks in fold.ranks:
            fold = self._open[key] = _Fold(record, [], [])
            self.held.append(fold)
        fold.ranks.append(ranks)
        fold.offsets.append(record.offset)
        self._quiet, self._clock = 0, record.clock
        return done

    def _late(self, clock: str) -> bool:
        return bool(self.held) and (seconds_between(self._clock, clock) or 0.0) > WINDOW_S


def _ranks(record: LogRecord) -> dict[str, int]:
    ranks = record.source.get("ranks")
    return dict(ranks) if isinstance(ranks, Mapping) else {}


def _likeness(text: str) -> str:
    """Return a traceback without the numbers of its message: devices, addresses and sizes differ between ranks."""
    lines = text.split("\n")
    return "\n".join(line if line[:1] in (" ", "\t") else _NUMBER.sub("#", line) for line in lines)


def _folded(fold: _Fold) -> LogRecord:
    if len(fold.ranks) == 1:
        return fold.record
    names = sorted({name for ranks in fold.ranks for name in ranks})
    merged = {name: sorted({ranks[name] for ranks in fold.ranks if name in ranks}) for name in names}
    values = {
        **fold.record.values,
        "times": len(fold.ranks),
        "ranks": [" ".join(f"{name}{number}" for name, number in ranks.items()) for ranks in fold.ranks],
        "offsets": fold.offsets,
    }
    return fold.record._replace(source={**fold.record.source, "ranks": merged}, values=values)

"""Speeds from an engine's decode lines: the last source, with the traps of its own division."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from console.domain.run import LogKind, LogRecord
from console.telemetry.throughput import Reading

NAMES = ("gen_throughput_tok_s", "gen throughput (token/s)")
RUNNING = ("running_req", "#running-req")
QUEUED = ("queue_req", "#queue-req")
USAGE = ("kv_usage", "token_usage", "full_token_usage", "token usage")
"""What a record may call a value; the first that is there counts."""


@dataclass(frozen=True, slots=True)
class DecodeSpeed:
    """One decode line's speed."""

    record: LogRecord
    tok_s: float | None
    """`None` for nan and inf."""
    first_after_idle: bool = False
    """The line's time includes a pause: its speed means nothing."""


def decode_speeds(records: Iterable[LogRecord]) -> Iterator[DecodeSpeed]:
    """Yield the speed of each decode line, the first after a pause marked.

    SGLang divides the tokens by the time since the previous decode line, so the first line after
    a prefill into an empty batch has a meaningless speed.
    """
    after_idle: dict[str, bool] = {}
    for record in records:
        rank = _rank(record)
        if record.kind is LogKind.PREFILL:
            after_idle[rank] = _value(record, RUNNING) == 0
        elif record.kind is LogKind.DECODE:
            yield DecodeSpeed(record, _value(record, NAMES), after_idle.pop(rank, False))


def steady_mean(speeds: Iterable[DecodeSpeed]) -> float | None:
    """Return the mean speed without the lines that include a pause."""
    known = [speed.tok_s for speed in speeds if speed.tok_s is not None and not speed.first_after_idle]
    return sum(known) / len(known) if known else None


class LogReadings:
    """Latest decode line of each data-parallel rank, summed to a reading."""

    KEEP_S = 15.0
    """A rank that printed nothing so long is idle."""

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[float, DecodeSpeed]] = {}
        self._idle: dict[str, bool] = {}

    def take(self, records: Iterable[LogRecord], now: float) -> None:
        """Take new records, read at `now`."""
        for record in records:
            rank = _rank(record)
            if record.kind is LogKind.PREFILL:
                self._idle[rank] = _value(record, RUNNING) == 0
            elif record.kind is LogKind.DECODE:
                speed = DecodeSpeed(record, _value(record, NAMES), self._idle.pop(rank, False))
                self._ranks[rank] = (now, speed)

    def reading(self, now: float) -> Reading | None:
        """Return the sum of the ranks, `None` before the first line."""
        if not self._ranks:
            return None
        fresh = [speed for at, speed in self._ranks.values() if now - at <= self.KEEP_S]
        if not fresh:
            return Reading(now, "log", running=0, queued=0)
        known = [speed.tok_s for speed in fresh if speed.tok_s is not None and not speed.first_after_idle]
        usages = [value for speed in fresh if (value := _value(speed.record, USAGE)) is not None]
        return Reading(
            now,
            "log",
            speed=sum(known) if known else None,
            running=_total(fresh, RUNNING),
            queued=_total(fresh, QUEUED),
            kv_usage=max(usages) if usages else None,
        )


def _total(speeds: Iterable[DecodeSpeed], names: tuple[str, ...]) -> float | None:
    known = [value for speed in speeds if (value := _value(speed.record, names)) is not None]
    return sum(known) if known else None


def _rank(record: LogRecord) -> str:
    ranks = record.source.get("ranks")
    found = ranks if isinstance(ranks, Mapping) else record.source
    for name in ("DP", "dp", "dp_rank"):
        if name in found:
            return str(found[name])
    return ""


def _value(record: LogRecord, names: tuple[str, ...]) -> float | None:
    for name in names:
        value = record.values.get(name)
        if isinstance(value, (int, float)) and value == value and abs(value) != float("inf"):
            return float(value)
    return None

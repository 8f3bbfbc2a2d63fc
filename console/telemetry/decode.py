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

WHOLE = "all"
"""Stands for every engine: vLLM's `N Engines Aggregated` line."""


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


@dataclass(slots=True)
class _Rank:
    """One data-parallel rank or engine of its own: its latest line, and the last speed that meant something."""

    at: float
    line: DecodeSpeed
    known: float | None = None
    known_at: float = 0.0
    gap_s: float = 0.0
    """Between its last two lines: a slow server is silent for long, and not idle."""


class LogReadings:
    """Latest decode line of each data-parallel rank and each engine, summed to a reading.

    Tensor-parallel ranks tell the same again: the latest line counts, whichever of them printed it.
    """

    KEEP_S = 15.0
    """A rank that printed nothing so long is idle, unless its lines are known to come more slowly."""

    def __init__(self) -> None:
        self._ranks: dict[str, _Rank] = {}
        self._idle: dict[str, bool] = {}

    def take(self, records: Iterable[LogRecord], now: float) -> None:
        """Take new records, read at `now`."""
        for record in records:
            name = _rank(record)
            if record.kind is LogKind.PREFILL:
                self._idle[name] = _value(record, RUNNING) == 0
            elif record.kind is LogKind.DECODE:
                line = DecodeSpeed(record, _value(record, NAMES), self._idle.pop(name, False))
                self._ranks[name] = _after(self._ranks.get(name), line, now)

    def reading(self, now: float) -> Reading | None:
        """Return the sum of the ranks, `None` before the first line; a sum that lacks one of them is unknown."""
        if not self._ranks:
            return None
        fresh = {name: rank for name, rank in self._ranks.items() if now - rank.at <= self._keep_s(rank)}
        if not fresh:
            return Reading(now, "log", running=0, queued=0)
        if WHOLE in fresh:  # a line over all engines says it all
            fresh = {WHOLE: fresh[WHOLE]}
        speeds = [self._speed(rank, now) for rank in fresh.values()]
        known = [speed for speed in speeds if speed is not None]
        lines = [rank.line for rank in fresh.values()]
        usages = [value for line in lines if (value := _value(line.record, USAGE)) is not None]
        return Reading(
            now,
            "log",
            speed=sum(known) if known and len(known) == len(speeds) else None,
            running=_total(lines, RUNNING),
            queued=_total(lines, QUEUED),
            kv_usage=max(usages) if usages else None,
        )

    def _keep_s(self, rank: _Rank) -> float:
        return max(self.KEEP_S, 2.5 * rank.gap_s)

    def _speed(self, rank: _Rank, now: float) -> float | None:
        """Return a rank's speed; a line whose time includes a pause leaves the one before, while that is young."""
        if rank.line.tok_s is not None and not rank.line.first_after_idle:
            return rank.line.tok_s
        return rank.known if rank.known is not None and now - rank.known_at <= self._keep_s(rank) else None


def _after(before: _Rank | None, line: DecodeSpeed, now: float) -> _Rank:
    means = line.tok_s is not None and not line.first_after_idle
    if before is None:
        return _Rank(now, line, line.tok_s if means else None, now)
    gap_s = before.gap_s if line.first_after_idle or now <= before.at else now - before.at
    if means:
        return _Rank(now, line, line.tok_s, now, gap_s)
    return _Rank(now, line, before.known, before.known_at, gap_s)


def _total(speeds: Iterable[DecodeSpeed], names: tuple[str, ...]) -> float | None:
    known = [value for speed in speeds if (value := _value(speed.record, names)) is not None]
    return sum(known) if known else None


def _rank(record: LogRecord) -> str:
    """Return what a line speaks for: a data-parallel rank, an engine of vLLM's, all engines, or the one that there is."""
    ranks = record.source.get("ranks")
    found = ranks if isinstance(ranks, Mapping) else record.source
    for name in ("DP", "dp", "dp_rank"):
        if name in found:
            return str(found[name])
    if "engines" in record.values:
        return WHOLE
    return f"engine {record.values['engine']}" if "engine" in record.values else ""


def _value(record: LogRecord, names: tuple[str, ...]) -> float | None:
    for name in names:
        value = record.values.get(name)
        if isinstance(value, (int, float)) and value == value and abs(value) != float("inf"):
            return float(value)
    return None

"""The start-up ladder, readiness and failure of such a server, as far as its log tells them."""

from __future__ import annotations

from console.domain.run import Failure, LogKind, LogRecord, Rung
from console.engines.finder import FailureFinder
from console.engines.ladder import Ladder
from console.engines.openai.failures import WAYS
from console.engines.openai.grammar import log_seconds

ORDER = ("start", "arguments", "weights", "kv cache", "warm-up", "http", "ready")
BARS = {"load": "weights", "shard": "weights"}


class OpenAiWatch:
    """Follows one run; llama.cpp counts the seconds since its start itself."""

    def __init__(self) -> None:
        self._ladder = Ladder(ORDER, BARS)
        self._finder = FailureFinder(WAYS)
        self._ready = False
        self.ready_clock = ""
        self.ready_s: float | None = None

    @property
    def first_clock(self) -> str:
        """The first stamp of the log."""
        return self._ladder.first_clock

    @property
    def ready(self) -> bool:
        """Whether it said that it listens with its model loaded, and nothing failed with it."""
        return self._ready and self._finder.record() is None

    @property
    def stopping(self) -> bool:
        """Whether the log shows that an end was asked for."""
        return self._finder.stopping

    @property
    def ended(self) -> bool:
        """Whether the log shows an end."""
        return self._finder.ended

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        self._finder.see(record)
        counted = log_seconds(record.raw)
        at = self._ladder.take_moment(counted) if counted is not None else self._ladder.at(record.clock)
        if record.kind is LogKind.PROGRESS:
            self._ladder.bar(record, at)
        elif record.kind is LogKind.PHASE:
            self._see_phase(record, at, counted)

    def _see_phase(self, record: LogRecord, at: float, counted: float | None) -> None:
        name = str(record.values.get("phase"))
        if name == "arguments" and not self._ladder.rungs():
            self._ladder.restart(at)
        if name == "ready":
            self._ready, self.ready_clock = True, record.clock or self._ladder.last_clock
            self.ready_s = counted
            self._ladder.finish(name, at)
            return
        self._ladder.begin(name, at)
        slots = record.values.get("slots")
        self._ladder.note(name, f"{slots} slots" if slots else "")

    def ladder(self) -> tuple[Rung, ...]:
        """Return the steps that were seen, in order."""
        return self._ladder.rungs()

    def failure_record(self, *, ended: bool = False) -> LogRecord | None:
        """Return the record of the first cause."""
        return self._finder.record(ended=ended)

    def failure(self, *, ended: bool = False) -> Failure | None:
        """Return the first cause."""
        return self._finder.failure(ended=ended)

"""The start-up ladder, readiness and failure of such a server, as far as its log tells them."""

from __future__ import annotations

from console.domain.run import LogKind, LogRecord
from console.engines.ladder import Ladder
from console.engines.openai.failures import WAYS
from console.engines.openai.grammar import log_seconds
from console.engines.watching import LadderWatch

ORDER = ("start", "arguments", "weights", "kv cache", "warm-up", "http", "ready")
BARS = {"load": "weights", "shard": "weights"}


class OpenAiWatch(LadderWatch):
    """Follows one run; llama.cpp counts the seconds since its start itself."""

    def __init__(self) -> None:
        super().__init__(WAYS, Ladder(ORDER, BARS))

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        self._finder.see(record)
        counted = log_seconds(record.raw)
        at = self._ladder.take_moment(counted) if counted is not None else self._ladder.at(record.clock)
        if record.kind is LogKind.PROGRESS:
            self._finder.come_to(self._ladder.bar(record, at))
        elif record.kind is LogKind.PHASE:
            self._see_phase(record, at, counted)

    def _see_phase(self, record: LogRecord, at: float, counted: float | None) -> None:
        name = str(record.values.get("phase"))
        if name == "arguments" and not self._ladder.rungs():
            self._ladder.restart(at)
        if name == "ready":
            self.ready_s = counted
            self._come_ready(record, at)
            return
        self._ladder.begin(name, at)
        slots = record.values.get("slots")
        self._ladder.note(name, f"{slots} slots" if slots else "")

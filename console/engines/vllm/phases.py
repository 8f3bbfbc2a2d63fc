"""The start-up ladder of a vLLM run, its readiness and its failure, from log records."""

from __future__ import annotations

from console.domain.run import Failure, LogKind, LogRecord, Rung
from console.engines.finder import FailureFinder
from console.engines.ladder import Ladder
from console.engines.vllm.failures import WAYS

ORDER = (
    "start",
    "arguments",
    "engine",
    "distributed",
    "weights",
    "profile",
    "compile",
    "kv cache",
    "autotune",
    "cuda graphs",
    "warm-up",
    "http",
    "ready",
)
BARS = {"shards": "weights", "capturing": "cuda graphs", "autotuner": "autotune", "compil": "compile"}


class VllmWatch:
    """Follows one run; times are seconds after the log's first stamp."""

    ready_s: float | None = None

    def __init__(self) -> None:
        self._ladder = Ladder(ORDER, BARS)
        self._finder = FailureFinder(WAYS)
        self._ready = False
        self.ready_clock = ""

    @property
    def first_clock(self) -> str:
        """The first stamp of the log."""
        return self._ladder.first_clock

    @property
    def ready(self) -> bool:
        """Whether uvicorn said that the application is up, and nothing failed with it."""
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
        at = self._ladder.at(record.clock)
        if record.kind is LogKind.PROGRESS:
            self._ladder.bar(record, at)
        elif record.kind is LogKind.PHASE:
            self._see_phase(record, at)

    def _see_phase(self, record: LogRecord, at: float) -> None:
        name, when = str(record.values.get("phase")), record.values.get("step")
        if name == "arguments":
            self._ladder.restart(at)
            self._ready, self.ready_clock = False, ""
        if name == "ready":
            self._ready, self.ready_clock = True, record.clock or self._ladder.last_clock
            self._ladder.finish(name, at)
            return
        if when == "end":
            self._ladder.end(name, at)
        else:
            self._ladder.begin(name, at)
        self._ladder.note(name, _note(record))
        if name == "weights" and when == "end":
            self._ladder.begin("profile", at)  # a first pass with the largest batch, in silence

    def ladder(self) -> tuple[Rung, ...]:
        """Return the steps that were seen, in order."""
        return self._ladder.rungs()

    def failure_record(self, *, ended: bool = False) -> LogRecord | None:
        """Return the record of the first cause."""
        return self._finder.record(ended=ended)

    def failure(self, *, ended: bool = False) -> Failure | None:
        """Return the first cause."""
        return self._finder.failure(ended=ended)


def _note(record: LogRecord) -> str:
    values, name = record.values, record.values.get("phase")
    if name == "weights" and "mem_usage_gib" in values:
        return f"{values['mem_usage_gib']} GiB"
    if name == "kv cache" and isinstance(tokens := values.get("tokens"), int):
        return f"{tokens:,} tokens"
    if name == "engine" and "version" in values:
        return f"vLLM {values['version']}"
    if name == "cuda graphs" and "mem_usage_gib" in values:
        return f"{values['mem_usage_gib']} GiB"
    return ""

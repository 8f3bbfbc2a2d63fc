"""The start-up ladder of a vLLM run, its readiness and its failure, from log records."""

from __future__ import annotations

from console.domain.run import LogKind, LogRecord
from console.engines.ladder import Ladder
from console.engines.vllm.failures import WAYS
from console.engines.watching import LadderWatch

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


class VllmWatch(LadderWatch):
    """Follows one run; times are seconds after the log's first stamp."""

    def __init__(self) -> None:
        super().__init__(WAYS, Ladder(ORDER, BARS))

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        self._finder.see(record)
        at = self._ladder.at(record.clock)
        if record.kind is LogKind.PROGRESS:
            self._finder.come_to(self._ladder.bar(record, at))
        elif record.kind is LogKind.PHASE:
            self._see_phase(record, at)

    def _see_phase(self, record: LogRecord, at: float) -> None:
        name, when = str(record.values.get("phase")), record.values.get("step")
        if name == "arguments":
            self._ladder.restart(at)
            self._ready, self.ready_clock = False, ""
        if name == "ready":
            self._come_ready(record, at)
            return
        if when == "end":
            self._ladder.end(name, at)
        else:
            self._ladder.begin(name, at)
        self._ladder.note(name, _note(record))
        if name == "weights" and when == "end":
            self._ladder.begin("profile", at)  # a first pass with the largest batch, in silence


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

"""The start-up ladder of an SGLang run, its readiness and its failure, from log records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from console.domain.run import LogKind, LogRecord, Rung
from console.domain.text import SafeText, clean
from console.engines.sglang.failures import WAYS
from console.engines.watching import FoundWatch

ORDER = (
    "start",
    "arguments",
    "workers",
    "distributed",
    "weights",
    "kv cache",
    "autotune",
    "cuda graphs",
    "prefill graphs",
    "http",
    "warm-up",
    "ready",
)
BARS = {
    "shards": "weights",
    "capturing batches": "cuda graphs",
    "num tokens": "prefill graphs",
    "autotuner": "autotune",
}


@dataclass(slots=True)
class _Step:
    began: float | None = None
    ended: float | None = None
    note: str = ""
    progress: float | None = None


class SglangWatch(FoundWatch):
    """Follows one run; times are seconds after the log's first stamp."""

    def __init__(self) -> None:
        super().__init__(WAYS)
        self._steps: dict[str, _Step] = {}
        self._base: datetime | None = None
        self._latest = 0.0
        self.first_clock = ""

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        self._finder.see(record)
        at = self._at(record.clock)
        if record.kind is LogKind.PROGRESS:
            self._see_bar(record, at)
        elif record.kind is LogKind.PHASE:
            self._see_phase(record, at)
        elif record.kind is LogKind.ACCESS and self._open("http") and not self._ready:
            path = str(record.values.get("path"))
            if path in ("/model_info", "/get_model_info", "/generate", "/v1/completions"):
                self._begin("warm-up", at)

    def ladder(self) -> tuple[Rung, ...]:
        """Return the steps that were seen, in order."""
        rungs = []
        for name in sorted(self._steps, key=ORDER.index):
            step = self._steps[name]
            rungs.append(Rung(name, step.began, step.ended, SafeText(clean(step.note)), step.progress))
        return tuple(rungs)

    def _see_bar(self, record: LogRecord, at: float) -> None:
        label = str(record.values.get("label", "")).lower()
        name = next((step for word, step in BARS.items() if word in label), "")
        total = record.values.get("total")
        if name and isinstance(total, int) and total:
            step = self._begin(name, at)
            done = record.values.get("done")
            step.progress = min(1.0, done / total) if isinstance(done, int) else None

    def _see_phase(self, record: LogRecord, at: float) -> None:
        name, when = str(record.values.get("phase")), record.values.get("step")
        if name == "stopping":
            return
        if name == "arguments":
            self._steps = {"start": _Step(0.0, at)}
            self._ready, self.ready_clock = False, ""
        if name == "ready":
            self._ready, self.ready_clock = True, record.clock
        if name not in ORDER or (name == "ready" and self._failed()):
            return
        step = self._begin(name, at)
        if when == "end" or name in ("arguments", "ready"):
            step.ended = at
            step.progress = None
        if name == "arguments":
            self._steps["workers"] = _Step(at)  # each imports everything anew before its first line
        if name == "weights" and when == "end":
            self._begin("kv cache", at)  # told of only when it has been filled, which takes a minute of zeros
        step.note = _note(record) or step.note
        if name == "ready":
            for other in self._steps.values():
                other.ended = at if other.ended is None else other.ended

    def _begin(self, name: str, at: float) -> _Step:
        """Begin a step; what came before it has ended by then."""
        step = self._steps.get(name)
        if step is None:
            for before in self._steps.values():
                if before.ended is None:
                    before.ended = at
            step = self._steps[name] = _Step(at)
        return step

    def _open(self, name: str) -> bool:
        return name in self._steps

    def _at(self, clock: str) -> float:
        """Return seconds after the first stamp; lines without one happen when the last one did."""
        try:
            moment = datetime.fromisoformat(clock)
        except ValueError:
            return self._latest
        if self._base is None:
            self._base, self.first_clock = moment, clock
        self._latest = max(0.0, (moment - self._base).total_seconds())
        return self._latest


def _note(record: LogRecord) -> str:
    values, name = record.values, record.values.get("phase")
    if name == "weights" and isinstance(used := values.get("mem_usage_gb"), int | float) and used > 0:
        return f"{used} GB"  # a tiny model on a processor is told with less than nothing
    if name == "kv cache" and "tokens" in values:
        return f"{values['tokens']:,} tokens"
    if name == "cuda graphs" and values.get("step") == "end" and "mem_usage_gb" in values:
        return f"{values['mem_usage_gb']} GB"
    if name == "http" and "max_running_requests" in values:
        return f"max_running_requests {values['max_running_requests']}"
    return ""

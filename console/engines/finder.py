"""The first cause of a run's end among its log records: not the loudest line, and no consequence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from console.domain.run import Failure, LogKind, LogRecord
from console.domain.text import clean
from console.engines.prefixes import peel

WEAK = frozenset({"uncaught", "peer-lost", "child", "native"})
"""Signatures that a real cause may follow: an exception nobody said to be fatal, an end that another process brought."""

MEMORY = frozenset({"gpu-memory", "kv-memory", "graph-capture"})
_KILLED = re.compile(r"^Killed$|^.* exited with code 137$", re.MULTILINE)
SHORT = 300
"""Characters of what only says that something failed before."""

RANKS_NAMED = 8
EMPTY_SHARE = 1.2
"""Others hold a card when what must be its size exceeds so many times what was free before the weights."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How one engine tells of its end, and what to try."""

    hints: Mapping[str, str]
    phase_hints: Mapping[str, str]
    """For want of GPU memory, by the phase in which it was missing."""
    consequence: re.Pattern[str]
    """Messages that say only that something failed before."""
    asked: re.Pattern[str]
    """Raw text of a `stopping` record when an end was asked for."""
    over: re.Pattern[str]
    """Raw text of a `stopping` record that ends a run."""


@dataclass(slots=True)
class _Memory:
    """What a log tells of the GPU's memory before the KV cache."""

    share: float | None = None
    """`mem_fraction_static`."""
    before_gb: float | None = None
    weights_gb: float | None = None
    after_gb: float | None = None
    line: str = ""


@dataclass(slots=True)
class FailureFinder:
    """Finds the first cause among a log's records."""

    ways: Ways
    stopping: bool = False
    """Whether the log shows that an end was asked for."""
    _first: LogRecord | None = None
    _phase: str = ""
    _open_phase: str = ""
    _phase_then: str = ""
    _ranks: list[str] = field(default_factory=list)
    _compiler: LogRecord | None = None
    _ended_by: LogRecord | None = None
    _killed: LogRecord | None = None
    """The shell's word that a signal ended it: a cause only where there is no other."""
    _memory: _Memory = field(default_factory=_Memory)

    @property
    def ended(self) -> bool:
        """Whether the log shows an end."""
        return self._ended_by is not None

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        if record.kind is LogKind.PHASE:
            self._see_phase(record)
        elif record.kind in (LogKind.DECODE, LogKind.PREFILL):
            self._revive(record)
        elif record.kind is LogKind.FAILURE:
            self._see_failure(record)
        elif record.kind is LogKind.ACCESS:
            if self._ended_by is not None and _served(record):
                self._ended_by = None  # who answers has not ended
        elif "compiler" in record.values:
            self._compiler = self._compiler or record
        elif self.ways.consequence.match(message := message_of(record)):
            self._ended_by = record
            if self._killed is None and (shot := _KILLED.search(message)):
                said = "killed (SIGKILL); the log does not tell by whom"
                self._killed = record._replace(
                    kind=LogKind.FAILURE, values={"signature": "killed"}, severity="error", cause=said, lines=(shot[0],)
                )
                if self._first is None:
                    self._phase_then = self._failing_phase()

    def record(self, *, ended: bool = False) -> LogRecord | None:
        """Return the record of the first cause."""
        if self._first is not None and (ended or not _weak(self._first)):
            return self._first
        return self._killed if ended and self._first is None and not self.stopping else None

    def failure(self, *, ended: bool = False) -> Failure | None:
        """Return the first cause as the operator shall read it."""
        first = self.record(ended=ended)
        if first is None:
            return None
        name = str(first.values.get("signature"))
        cause, lines = first.cause, first.lines
        hint = self.ways.hints.get(name, "")
        if (name in MEMORY or first is self._killed) and self._phase_then:
            served = self._phase_then == "ready"
            cause += " (while serving)" if served else f" (during: {self._phase_then})"
            if name == "gpu-memory":
                hint = self.ways.phase_hints.get(self._phase_then, hint)
        if held := first.values.get("held"):
            hint = f"process {first.values.get('pid')} holds {held} of the card: stop it first"
        if name == "kv-memory" and (others := self._others()):
            cause, hint = (
                f"{cause}; {others}",
                "stop the process that holds the card; mem-fraction-static is not the cause",
            )
            lines = (self._memory.line, *lines)
        elif name == "kv-memory" and self._memory.share is not None and self._memory.share < 0.5:
            hint = f"raise mem-fraction-static ({self._memory.share:g})"
        if name == "build" and "what" not in first.values and self._compiler is not None:
            cause += f": {self._compiler.values['compiler']}"
            lines = (*self._compiler.lines, *lines)
        ranks = list(dict.fromkeys(self._ranks))
        if ranks and (len(ranks) > 1 or name in ("watchdog", "exception", "nccl", "peer-lost")):
            more = f" and {len(ranks) - RANKS_NAMED} more" if len(ranks) > RANKS_NAMED else ""
            cause += f" on {', '.join(ranks[:RANKS_NAMED])}{more}"
        if since := _stalled_since(first):
            cause += f", stalled since {since}"
        return Failure(cause, tuple(clean(line) for line in lines), hint)

    def come_to(self, phase: str) -> None:
        """Take the step that a progress bar is of."""
        if phase and phase != self._phase:
            self._phase = self._open_phase = phase

    def _see_phase(self, record: LogRecord) -> None:
        name, step = str(record.values.get("phase")), record.values.get("step")
        if name == "arguments":
            self._first = self._ended_by = self._compiler = self._killed = None  # another launch in the same file
            self._ranks, self.stopping, self._memory = [], False, _Memory(_share(record.raw))
        if name == "stopping":
            if self.ways.over.search(record.raw):
                self._ended_by = record
            elif self.ways.asked.search(record.raw):
                self.stopping = True
            return
        if name == "weights":
            self._see_weights(record, step)
        self._phase, self._open_phase = name, "" if step == "end" else name
        if name == "ready" and _weak(self._first):
            self._first = None

    def _see_weights(self, record: LogRecord, step: object) -> None:
        free = record.values.get("avail_mem_gb")
        memory = self._memory
        if step == "begin" and memory.before_gb is None and isinstance(free, (int, float)):
            memory.before_gb, memory.line = float(free), record.raw
        elif step == "end" and memory.after_gb is None and isinstance(free, (int, float)):
            memory.after_gb = float(free)

    def _others(self) -> str:
        """Return who else must hold the card: its size follows from what the engine left aside of it."""
        memory = self._memory
        if memory.share is None or memory.before_gb is None or memory.after_gb is None or not 0 < memory.share < 1:
            return ""
        least_gb = memory.after_gb / (1 - memory.share)
        if least_gb <= EMPTY_SHARE * memory.before_gb:
            return ""
        held_gb = least_gb - memory.before_gb
        return (
            f"only {memory.before_gb:g} GB of it were free before the weights, "
            f"so others hold at least {held_gb:,.0f} GB of the card"
        )

    def _see_failure(self, record: LogRecord) -> None:
        name = record.values.get("signature")
        if self._first is None or (_weak(self._first) and not _weak(record)):
            if name == "killed" and self.stopping:
                return
            self._first, self._ranks = record, []
            self._phase_then = self._failing_phase()
        if name == self._first.values.get("signature"):
            self._ranks += ranks_of(record)

    def _failing_phase(self) -> str:
        if self._open_phase == "weights" or self._phase == "weights":
            return "weights" if self._open_phase == "weights" else "kv cache"
        return self._open_phase or self._phase

    def _revive(self, record: LogRecord) -> None:
        """A server that goes on working a minute later did not die of it."""
        self._phase = self._open_phase = "ready"
        if self._first is not None and record.clock[:16] > self._first.clock[:16] and self._ended_by is None:
            self._first, self._ranks = None, []


def ranks_of(record: LogRecord) -> list[str]:
    """Return the ranks that printed a record, as words: `DP0 TP3`."""
    told = record.values.get("ranks")
    if isinstance(told, list):
        return [str(rank) for rank in told]
    ranks = record.source.get("ranks")
    if not isinstance(ranks, Mapping):
        return []
    return [" ".join(f"{name}{number}" for name, number in ranks.items())]


def message_of(record: LogRecord) -> str:
    """Return a record's text without what stands in front of it."""
    raw = record.raw
    if raw.startswith("["):
        return raw.partition("] ")[2]
    if record.kind is not LogKind.OTHER or len(raw) > SHORT or not (record.source or record.time):
        return raw
    text = peel(raw).message
    if "container" in record.source:
        text = text.rpartition(" | ")[2]
    return text.partition(": ")[2] if "task" in record.source and text[:6].lstrip()[:1].isdigit() else text


def _served(record: LogRecord) -> bool:
    code, path = record.values.get("code"), str(record.values.get("path"))
    return isinstance(code, int) and code < 300 and path.startswith(("/v1/", "/generate"))


def _weak(record: LogRecord | None) -> bool:
    return record is not None and record.values.get("signature") in WEAK


def _share(arguments: str) -> float | None:
    match = re.search(r"mem_fraction_static['\"]?[=:] ?(\d*\.\d+)", arguments)
    return float(match[1]) if match else None


def _stalled_since(record: LogRecord) -> str:
    seconds = record.values.get("seconds")
    if record.values.get("signature") != "watchdog" or not isinstance(seconds, int):
        return ""
    try:
        return str(datetime.fromisoformat(record.clock) - timedelta(seconds=seconds))
    except ValueError:
        return ""

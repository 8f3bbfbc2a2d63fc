"""The start-up ladder that most engines' logs give: steps begin, end, and have bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.domain.run import LogRecord, Rung
from console.domain.text import SafeText, clean
from console.engines.clocks import seconds_between


@dataclass(slots=True)
class _Step:
    began: float | None = None
    ended: float | None = None
    note: str = ""
    progress: float | None = None


@dataclass(slots=True)
class Ladder:
    """Steps in the order of their beginning; times are seconds after the log's first stamp."""

    order: Sequence[str]
    bars: Mapping[str, str]
    """Word of a bar's label to its step."""
    first_clock: str = ""
    last_clock: str = ""
    _latest: float = 0.0
    _steps: dict[str, _Step] = field(default_factory=dict)

    def at(self, clock: str) -> float:
        """Return seconds after the first stamp; a line without one happens when the last one did."""
        if clock and not self.first_clock:
            self.first_clock = clock
        if clock:
            gone = seconds_between(self.first_clock, clock)
            if gone is not None:
                self._latest, self.last_clock = max(self._latest, gone), clock
        return self._latest

    def take_moment(self, seconds: float) -> float:
        """Take a time that the log itself counts in seconds."""
        self._latest = max(self._latest, seconds)
        return self._latest

    def restart(self, at: float) -> None:
        """Begin anew: another launch in the same file."""
        self._steps = {"start": _Step(0.0, at)}

    def begin(self, name: str, at: float) -> None:
        """Begin a step; what came before it has ended by then."""
        if name in self._steps or name not in self.order:
            return
        for before in self._steps.values():
            if before.ended is None:
                before.ended = at
        self._steps[name] = _Step(at)

    def end(self, name: str, at: float) -> None:
        """End a step."""
        self.begin(name, at)
        if step := self._steps.get(name):
            step.ended, step.progress = at, None

    def note(self, name: str, text: str) -> None:
        """Say something beside a step."""
        if text and (step := self._steps.get(name)):
            step.note = text

    def bar(self, record: LogRecord, at: float) -> str:
        """Take a progress bar; return the step that it is of, empty where it is of none."""
        label = str(record.values.get("label", "")).lower()
        name = next((step for word, step in self.bars.items() if word in label), "")
        total, done = record.values.get("total"), record.values.get("done")
        if not name or not isinstance(total, int) or not total or not isinstance(done, int):
            return ""
        self.begin(name, at)
        if (step := self._steps.get(name)) and step.ended is None:
            step.progress = min(1.0, done / total)
        return name

    def finish(self, name: str, at: float) -> None:
        """Take the last step; everything has ended with it."""
        self.end(name, at)
        for step in self._steps.values():
            step.ended = at if step.ended is None else step.ended

    def rungs(self) -> tuple[Rung, ...]:
        """Return the steps that were seen, in order."""
        return tuple(
            Rung(name, step.began, step.ended, SafeText(clean(step.note)), step.progress)
            for name, step in sorted(self._steps.items(), key=lambda item: self.order.index(item[0]))
        )

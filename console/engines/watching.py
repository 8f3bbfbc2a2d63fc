"""What every follower of a run does alike: readiness that a failure takes back, and the first cause."""

from __future__ import annotations

from console.domain.run import Failure, LogRecord, Rung
from console.engines.finder import FailureFinder, Ways
from console.engines.ladder import Ladder


class FoundWatch:
    """Follows one run with a finder of its first cause; subclasses see what the records say of its start.

    Args:
        ways: How the engine tells of its end.
    """

    def __init__(self, ways: Ways) -> None:
        self._finder = FailureFinder(ways)
        self._ready = False
        self.ready_clock = ""
        self.ready_s: float | None = None

    @property
    def ready(self) -> bool:
        """Whether the engine said that it is ready, and nothing failed with it."""
        return self._ready and self._finder.record() is None

    @property
    def stopping(self) -> bool:
        """Whether the log shows that an end was asked for."""
        return self._finder.stopping

    @property
    def ended(self) -> bool:
        """Whether the log shows an end."""
        return self._finder.ended

    def _failed(self) -> bool:
        """Whether it failed before: SGLang prints its ready line after a port that it could not have, too."""
        return self._finder.record() is not None

    def failure_record(self, *, ended: bool = False) -> LogRecord | None:
        """Return the record of the first cause."""
        return self._finder.record(ended=ended)

    def failure(self, *, ended: bool = False) -> Failure | None:
        """Return the first cause."""
        return self._finder.failure(ended=ended)


class LadderWatch(FoundWatch):
    """A follower whose start-up is a plain ladder.

    Args:
        ways: How the engine tells of its end.
        ladder: Its steps.
    """

    def __init__(self, ways: Ways, ladder: Ladder) -> None:
        super().__init__(ways)
        self._ladder = ladder

    @property
    def first_clock(self) -> str:
        """The first stamp of the log."""
        return self._ladder.first_clock

    def ladder(self) -> tuple[Rung, ...]:
        """Return the steps that were seen, in order."""
        return self._ladder.rungs()

    def _come_ready(self, record: LogRecord, at: float) -> None:
        self._ready, self.ready_clock = True, record.clock or self._ladder.last_clock
        if not self._failed():
            self._ladder.finish("ready", at)

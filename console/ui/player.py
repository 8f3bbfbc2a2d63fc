"""The player: where on a tape a replay is, and how fast it goes; its clock is the tape's own."""

from __future__ import annotations

from console.operations.tape import Tape
from console.ui import clock

SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
GAP_SHOWN_S = 1.5
"""A gap is shown for so long, however long it was."""

STEP_S = 10.0


class Player:
    """Plays one tape.

    Args:
        tape: What is played.
        speed: Times as fast as it was.
    """

    def __init__(self, tape: Tape, speed: float = 10.0) -> None:
        self.tape = tape
        self.now = tape.began
        self.speed = speed
        self.playing = True
        self._at = clock.monotonic()
        self._gap_since: float | None = None

    @property
    def over(self) -> bool:
        """Whether the end is reached."""
        return self.now >= self.tape.ended

    def tick(self) -> None:
        """Go on for as long as has passed."""
        at = clock.monotonic()
        passed, self._at = at - self._at, at
        if not self.playing:
            return
        gap = self._gap()
        if gap is None:
            self._gap_since = None
            self.now += passed * self.speed
        elif self._gap_since is None:
            self._gap_since = at
        elif at - self._gap_since >= GAP_SHOWN_S:
            self.now = gap[1]
        if self.over:
            self.now, self.playing = self.tape.ended, False

    def _gap(self) -> tuple[float, float] | None:
        return next((gap for gap in self.tape.gaps if gap[0] < self.now < gap[1]), None)

    def pause(self) -> None:
        """Stop, or go on; from the end it begins anew."""
        if not self.playing and self.over:
            self.now = self.tape.began
        self.playing = not self.playing
        self._at = clock.monotonic()

    def seek(self, time: float) -> None:
        """Go to a moment."""
        self.now = min(self.tape.ended, max(self.tape.began, time))
        self._gap_since = None

    def step(self, way: int) -> None:
        """Stop, and go to the row before or behind this one."""
        self.playing = False
        self.seek(self.tape.beside(self.now, way))

    def faster(self, way: int) -> None:
        """Take the next speed."""
        place = min(range(len(SPEEDS)), key=lambda one: abs(SPEEDS[one] - self.speed))
        self.speed = SPEEDS[min(len(SPEEDS) - 1, max(0, place + way))]

    def mark(self, way: int) -> bool:
        """Go to the next mark or the one before; false when there is none."""
        times = [mark.time for mark in self.tape.marks if self.tape.began <= mark.time <= self.tape.ended]
        ahead = [time for time in times if (time > self.now + 0.001 if way > 0 else time < self.now - 0.001)]
        if not ahead:
            return False
        self.seek(min(ahead) if way > 0 else max(ahead))
        return True

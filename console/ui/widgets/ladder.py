"""Start-up ladder: each phase with its time, what runs now, and why it died."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.run import Run, Rung, RunPhase
from console.domain.starting import eta_s
from console.domain.text import clean
from console.ui.drawing import Span, bar, clock, width_of
from console.ui.widgets.inks import Painting

SHOWN_AFTER_READY_S = 20.0
"""A ladder that has come true stays for a moment."""


class Ladder(Painting):
    """Rungs of the run that is starting, or that failed."""

    def __init__(self) -> None:
        super().__init__(id="ladder")
        self.run: Run | None = None
        self.now = 0.0

    def show(self, run: Run | None, now: float) -> None:
        """Show the ladder while it matters; `now` is the host's wall clock."""
        self.run, self.now = run, now
        just = run is not None and run.phase is RunPhase.READY and now - (run.ready_at or now) < SHOWN_AFTER_READY_S
        wanted = run is not None and (
            run.phase in (RunPhase.STARTING, RunPhase.FAILED, RunPhase.LOST) or (just and bool(run.ladder))
        )
        self.display = wanted
        if wanted:
            self.styles.height = max(1, len(self.lines(self.size.width or 100, 8)))
            self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return rungs side by side in as many lines as they take, then the failure."""
        run = self.run
        if run is None:
            return []
        rows: list[list[Span]] = [[]]
        for rung in run.ladder:
            piece = self._rung(rung, run)
            if rows[-1] and width_of(rows[-1]) + width_of(piece) > width:
                rows.append([])
            rows[-1] += piece
        if not run.ladder and run.phase is RunPhase.STARTING:
            said = clean(run.reason) or "launched, no phase seen in its log yet"
            rows[-1] = [(f" ◔ {said}  {clock(self.now - run.started_at)}", "info")]
        elif run.phase is RunPhase.STARTING and run.reason:
            rows.append([(f" ◔ {clean(run.reason)}", "info")])
        if run.phase is RunPhase.STARTING and (left := eta_s(run, self.now)) is not None:
            rows.append(
                [(f"   ready in about {clock(left)}", "info"), (f"  (usually {clock(run.usual_ready_s or 0)})", "dim")]
            )
        if run.stall is not None:
            rows.append([(" ⚠ ", "warn"), (clean(run.stall.text), "warn strong")])
            rows.append([("   ", ""), (clean(" · ".join(run.stall.evidence)), "dim")])
            rows += [[("   try: ", "dim"), (clean(hint), "")] for hint in run.stall.hints[:2]]
        if run.failure is not None:
            rows.append([(" ✗ ", "bad"), (clean(run.failure.cause), "bad strong")])
            if run.failure.hint:
                rows.append([("   ", ""), (clean(run.failure.hint), "dim")])
        return [row for row in rows if row][: max(1, height)]

    def _rung(self, rung: Rung, run: Run) -> list[Span]:
        name = clean(rung.name)
        note: list[Span] = [(f" {rung.note}", "dim")] if rung.note else []
        if rung.started_s is None:
            return [(f" · {name} —  ", "dim")]
        if rung.ended_s is not None:
            return [
                (" ✓ ", "good"),
                (name, ""),
                (f" {rung.ended_s - rung.started_s:.1f} s", "strong"),
                *_usual(rung),
                *note,
                ("  ", ""),
            ]
        lasted = self.now - run.started_at - rung.started_s
        if run.phase in (RunPhase.FAILED, RunPhase.LOST):
            return [(" ✗ ", "bad"), (name, "bad"), *note, ("  ", "")]
        done = bar(rung.progress, 8) if rung.progress is not None else []
        percent: list[Span] = [(" ", ""), *done, (f" {rung.progress:.0%}", "")] if rung.progress is not None else []
        percent += [(f" {rung.done}/{rung.total}", "")] if rung.total else []
        percent += [(f" ETA {clock(rung.eta_s)}", "dim")] if rung.eta_s is not None else []
        late = run.stall is not None and run.stall.rung == rung.name
        mark, ink = (" ⚠ ", "warn") if late else (" ◔ ", "info")
        spent: Span = (f" {clock(lasted)}", "strong")
        return [(mark, ink), (name, f"{ink} strong"), spent, *_usual(rung), *percent, *note, ("  ", "")]


def _usual(rung: Rung) -> list[Span]:
    return [(f" (usually {rung.usual_s:.1f} s)", "dim")] if rung.usual_s is not None else []

"""Activity: the receipt of the last operation, a fault that stays until it was read, and the lost link."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from console.domain.activity import Activity, Outcome
from console.domain.host import Link, LinkState
from console.domain.text import clean
from console.errors import ConsoleError, LinkLostError
from console.ui import clock
from console.ui.drawing import Span, age, fit, spread, width_of, wrapped
from console.ui.widgets.inks import Painting

_UNDO_KEYS = {"serve stop": ("x t", "stops it")}
"""What a verb of the command line is here; any other undo is a key already."""

_SIGNS = {
    Outcome.RUNNING: ("◔", "info"),
    Outcome.DONE: ("✓", "good"),
    Outcome.REFUSED: ("✗", "warn"),
    Outcome.FAILED: ("✗", "bad"),
}


class Receipt(Painting):
    """What was done last, and what takes it back."""

    def __init__(self) -> None:
        super().__init__(id="receipt")
        self.activity: Activity | None = None
        self.fault: ConsoleError | None = None

    def show(self, activities: tuple[Activity, ...]) -> None:
        """Show the newest activity, a running one first."""
        running = [each for each in activities if each.outcome is Outcome.RUNNING]
        self.activity = running[-1] if running else activities[-1] if activities else None
        self._fit()

    def show_fault(self, fault: ConsoleError | None) -> None:
        """Show a fault until it is closed."""
        self.fault = fault
        self._fit()

    def forget(self, kind: type[ConsoleError]) -> None:
        """Take away a fault of a kind that stands in the way no more; what a write met stays."""
        if isinstance(self.fault, kind) and not isinstance(self.fault, LinkLostError):
            self.show_fault(None)

    def _fit(self) -> None:
        rows = len(self.lines(self.size.width or 80, 4))
        self.display = rows > 0
        self.styles.height = max(1, rows)
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the fault in full, or the receipt."""
        if self.fault is not None:
            first, *more = wrapped(clean(self.fault.title), width - 18, "bad strong", indent=3)
            title: list[Span] = [(" ✗ ", "bad"), (first[0][0].strip(), "bad strong")]
            rows = [spread(title, [("esc ", "accent"), ("closes this ", "dim")], width), *more]
            for text in (self.fault.detail, self.fault.hint):
                rows += wrapped(clean(text), width - 1, "", indent=3) if text else []
            return rows
        activity = self.activity
        if activity is None:
            return []
        sign, ink = _SIGNS[activity.outcome]
        spans: list[Span] = [(f" {sign} ", ink), (activity.text, "strong")]
        if activity.outcome is Outcome.REFUSED:
            spans.append((" refused", "warn"))
        if activity.outcome is Outcome.FAILED:
            spans.append((" failed", "bad"))
        end: list[Span] = []
        if activity.ms is not None:
            end.append((f"  {activity.ms:,.0f} ms" if activity.ms < 10_000 else f"  {age(activity.ms / 1000)}", "dim"))
        elif activity.outcome is Outcome.RUNNING:
            end.append((f"  {age(clock.wall() - activity.started_at)}", "dim"))
        if activity.undo and activity.outcome is Outcome.DONE:
            key, does = _UNDO_KEYS.get(activity.undo, (activity.undo, "undoes"))
            end += [("  ·  ", "dim"), (key, "accent"), (f" {does}", "dim")]
        room = width - width_of(spans) - width_of(end) - 3
        if activity.detail and room > 8:
            spans.append((f"  {fit(activity.detail, min(cell_len(activity.detail), room))}", ""))
        spans += end
        return [spans]


class Banner(Painting):
    """One line over the cockpit while the link is down."""

    def __init__(self) -> None:
        super().__init__(id="banner")
        self.state = LinkState()
        self.host = ""

    def show(self, host: str, state: LinkState, heard_at: float | None) -> bool:
        """Show the state of a link that was up once; return whether it is down."""
        self.host, self.state = host, state
        down = state.link in (Link.LOST, Link.REFUSED) or (state.link is Link.CONNECTING and heard_at is not None)
        self._heard_at = heard_at
        self.display = down
        if down:
            self.repaint()
        return down

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return when it was heard last and what happens next."""
        now = clock.monotonic()
        state = self.state
        heard = f"last heard {age(now - self._heard_at)} ago" if self._heard_at is not None else "never heard"
        if state.link is Link.REFUSED:
            after = "not trying again"
        elif state.link is Link.CONNECTING:
            after = "trying now"
        else:
            after = f"trying again in {max(0.0, state.retry_at - now):.0f} s" if state.retry_at else "trying again"
        why = f"  {clean(state.error)}" if state.error else ""
        word = "refused" if state.link is Link.REFUSED else "link lost"
        said: list[Span] = [
            (f" ✗ {word}: ", "bad strong"),
            (f"{clean(self.host)}, {heard}, {after}", "strong"),
            (why, "dim"),
        ]
        return [[*said, ("   ctrl+r", "accent"), (" tries now", "dim")]]

"""Log pane: the ladder while a server starts, and its log, followed over reconnects."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from console.domain.run import LogRecord, Run
from console.domain.text import clean
from console.errors import UsageError
from console.operations.catalogue import verbs_of
from console.ui import clock
from console.ui.modals.prompt import PromptModal
from console.ui.panes.source import pattern_of
from console.ui.widgets.frame import Framed
from console.ui.widgets.ladder import Ladder
from console.ui.widgets.log import LogView
from console.ui.worker import launch, owner


class LogPane(Vertical, Framed):
    """What the server says."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(verb.keys), verb.id, verb.title, show=False) for verb in verbs_of("log")
    ]

    def __init__(self) -> None:
        super().__init__(id="log-pane")
        self._run_id = ""
        self._rate = 0.0
        self._counted = (0, 0.0)
        self.entitle("3", "Log")

    def compose(self) -> ComposeResult:
        """Put the ladder above the lines."""
        yield Ladder()
        yield LogView()

    def on_mount(self) -> None:
        """Count lines a minute."""
        self.set_interval(1, self._tick)

    @property
    def view(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def focus(self, scroll_visible: bool = True, **_: object) -> Widget:  # type: ignore[override]
        """Focus the lines."""
        return self.view.focus(scroll_visible)

    def show(self, run: Run | None, now: float) -> None:
        """Show the run's ladder and name."""
        self.query_one(Ladder).show(run, now)
        if run is not None and run.id != self._run_id:
            self._run_id = run.id
            self.view.clear()
        self.view.foreign = "" if run is None or run.adopted else f"the server on port {run.port} was not started by us"
        self.name_it()

    def feed(self, records: tuple[LogRecord, ...]) -> None:
        """Take records of the log."""
        self.view.feed(records)
        self.name_it()

    def _tick(self) -> None:
        fed, at = self._counted
        now = clock.monotonic()
        if at and now > at:
            self._rate = 0.8 * self._rate + 0.2 * (self.view.fed - fed) / (now - at)
        self._counted = (self.view.fed, now)
        self.name_it()

    def name_it(self) -> None:
        """Put run, filter and rate into the top line."""
        view = self.view
        title = f"Log  run {clean(self._run_id)}" if self._run_id else "Log"
        if view.pattern is not None:
            title += f"  filter {clean(view.pattern.pattern)} ({len(view.rows):,} of {len(view.all):,})"
        state = "following" if view.following else "paused, G follows"
        hidden = view.polls and not view.polls_shown and view.pattern is None
        polls = f"{view.polls:,} polls hidden, o shows · " if hidden else ""
        right = f"{polls}{state} · {self._rate * 60:,.0f} lines/min" if len(view.all) else ""
        self.entitle("3", title, right, "$muted" if view.following else "$warning")

    def action_filter_log(self) -> None:
        """Show only lines that match; an empty pattern shows all."""

        async def ask() -> None:
            view = self.view
            old = view.pattern.pattern if view.pattern else ""
            text = await owner(self).push_screen_wait(
                PromptModal("filter ", old, "regular expression; empty shows all")
            )
            if text is not None:
                view.filter(pattern_of(text) if text else None)
                self.name_it()

        launch(owner(self), ask, group="find", exclusive=True)

    def action_pause_log(self) -> None:
        """Stop following, or follow again."""
        if self.view.following:
            self.view.following = False
        else:
            self.view.action_follow()
        self.view.refresh()
        self.name_it()

    def action_toggle_polls(self) -> None:
        """Show the access lines of polls, or hide them."""
        self.view.show_polls(not self.view.polls_shown)
        self.name_it()

    def action_next_error(self) -> None:
        """Go to the next failure or warning."""
        self._step(1)

    def action_previous_error(self) -> None:
        """Go to the failure or warning before."""
        self._step(-1)

    def _step(self, way: int) -> None:
        if not self.view.step(way):
            owner(self).tell(UsageError(f"no {'further' if way > 0 else 'earlier'} failure or warning in the log"))
        self.name_it()

    def action_go_back(self) -> bool:
        """Drop the filter; false when there is none."""
        if self.view.pattern is None:
            return False
        self.view.filter(None)
        self.name_it()
        return True

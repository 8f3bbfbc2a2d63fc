"""Log pane: the ladder while a server starts, and its log, followed over reconnects."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from console.domain.run import LogKind, LogRecord, Run
from console.domain.text import clean, counted
from console.errors import UsageError
from console.operations import log_filter
from console.operations.catalogue import verbs_of
from console.operations.log_parts import LogFile
from console.state.store import Mark
from console.ui import clock
from console.ui.drawing import MARKS, WINDOW_S, age, braille, columns
from console.ui.panes import log_places, log_reading
from console.ui.widgets.frame import Framed
from console.ui.widgets.ladder import Ladder
from console.ui.widgets.lines import Lines
from console.ui.widgets.log import LogView
from console.ui.widgets.log_rows import NO_FILE, Row, mark_row
from console.ui.worker import end_group, launch, owner

SPARK = 20
"""Cells of the history of lines a second: a minute, as in every gauge."""

LATE_S = 2.0
"""A mark is put behind what came so long after it: the log's own times may have no zone."""


class LogPane(Vertical, Framed):
    """What the server says."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(verb.keys), verb.id, verb.title, show=False) for verb in verbs_of("log")
    ]

    def __init__(self) -> None:
        super().__init__(id="log-pane")
        self._run: Run | None = None
        self.past: Run | None = None
        """An earlier run, when its log is shown instead."""
        self.searched = ""
        """How far a search of the whole log has come, when its finds are shown instead."""
        self.seeking = ""
        """How far a look beyond what is at hand has come."""
        self.ended: tuple[int, int] | None = None
        """Way and level of the look that found nothing further: the same again goes on from the other end."""
        self._now = 0.0
        self._rate = 0.0
        self._counted = (0, 0.0)
        self._history: deque[tuple[float, float | None]] = deque(maxlen=int(WINDOW_S))
        self._marks: set[tuple[str, float]] = set()
        """Kind and time of those that are in the rows."""
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

    @property
    def shown_run(self) -> Run | None:
        """The run whose log is shown."""
        return self.past or self._run

    def focus(self, scroll_visible: bool = True, **_: object) -> Widget:  # type: ignore[override]
        """Focus the lines."""
        return self.view.focus(scroll_visible)

    def show(self, run: Run | None, now: float, marks: Sequence[Mark] = ()) -> None:
        """Show the run's ladder and name, and the moments that every history shows."""
        self._now = now
        self.query_one(Ladder).show(run, now)
        if run is not None and (self._run is None or run.key != self._run.key):
            self.past = None
            self.begin(run)
        self._run = run or self._run
        self.view.foreign = "" if run is None or run.adopted else f"the server on port {run.port} was not started by us"
        self._mark(marks)
        self.name_it()

    def begin(self, run: Run) -> None:
        """Forget the lines: another log follows."""
        self.view.clear()
        self.searched = self.seeking = ""
        self.ended = None
        self._marks.clear()
        self._history.clear()
        self._counted = (0, 0.0)
        self.view.following = True

    def feed(self, records: tuple[LogRecord, ...], file: LogFile = NO_FILE, *, anew: bool = False) -> None:
        """Take records of a file of the log, which may have begun anew."""
        if anew and len(self.view.book.all):
            self.view.begun_anew()
        self.view.feed(records, file)
        self.name_it()

    def _mark(self, marks: Sequence[Mark]) -> None:
        """Put new marks where their time is; those before this run are not its own."""
        run = self._run
        if run is None or self.past is not None or self.searched or self.view.stretch is not None:
            return
        for mark in marks:
            if mark.kind == "restart" or self._now - mark.time >= LATE_S or not self.view.count():
                self._mark_once(run, mark)

    def recall(self, run: Run, marks: Sequence[Mark]) -> None:
        """Put marks that earlier sessions kept of the run that is followed where their time is."""
        if self.shown_run is None or run.key != self.shown_run.key or self.searched or self.view.stretch is not None:
            return
        for mark in marks:
            self._mark_once(run, mark)

    def _mark_once(self, run: Run, mark: Mark) -> None:
        key = (mark.kind, round(mark.time, 3))
        if key not in self._marks and mark.time >= run.started_at - 1:
            self._marks.add(key)
            self.view.mark(_row_of(mark))

    def mark_stretch(self, marks: Sequence[Mark]) -> None:
        """Put marks of the run into what is shown of its log's past."""
        run, rows, stretch = self.shown_run, self.view.book.all, self.view.stretch
        moments = [moment for row, _ in rows if (moment := row.moment) is not None]
        if run is None or stretch is None or not moments:
            return
        first = run.started_at - 1 if not stretch.first else moments[0]
        for mark in marks:
            if first <= mark.time <= moments[-1]:
                self.view.mark(_row_of(mark))

    def _tick(self) -> None:
        fed, at = self._counted
        now, lines = clock.monotonic(), self.view.book.fed
        if at and now > at:
            speed = (lines - fed) / (now - at)
            self._rate = 0.8 * self._rate + 0.2 * speed
            self._history.append((self._now, speed))
        self._counted = (lines, now)
        self.name_it()

    def name_it(self) -> None:
        """Put run, filter, state and rate into the top line."""
        view, book, run = self.view, self.view.book, self.shown_run
        title = f"Log  run {clean(run.id)}" if run is not None and run.id else "Log"
        if self.past is not None:
            title += " (earlier, esc comes back)"
        if not book.filter.wants_all:
            title += f"  filter {clean(book.filter.words())} ({len(book.shown):,} of {len(book.all):,})"
        hidden = book.polls and not book.polls_shown and book.filter.wants_all
        polls = f"{counted(book.polls, 'poll')} hidden, o shows · " if hidden else ""
        right = f"{polls}{self._state()} · {self._rate * 60:,.0f} lines/min" if len(book.all) else ""
        if (stretch := view.stretch) is not None:
            place = f"{clean(basename(stretch.name))}: " if stretch.name else ""
            span = f"{stretch.first / 1e6:,.1f}–{stretch.last / 1e6:,.1f} of {stretch.size / 1e6:,.1f} MB"
            right = f"{place}{span} · G follows"
        right = self.seeking or self.searched or right
        self.entitle("3", title, right, "$muted" if view.following else "$warning")

    def _state(self) -> str:
        view = self.view
        if view.following:
            top = max((value for _, value in self._history if value), default=0.0)
            spark = (
                braille(columns(self._history, self._now, SPARK * 2), top)[0] if top and self.size.width > 120 else ""
            )
            return f"{spark} following".lstrip()
        new = f"{view.missed:,} new, " if view.missed else ""
        row = view.here
        moment = row.moment if row is not None else None
        ago = f", {age(self._now - moment)} back" if moment is not None and self._now > moment else ""
        return f"paused{ago}, {new}G follows"

    # filters

    def _refilter(self, **changes: object) -> None:
        self.ended = None
        self.view.filter(replace(self.view.book.filter, **changes))  # type: ignore[arg-type]
        self.name_it()

    def action_filter_log(self) -> None:
        """Show only lines that match; an empty pattern shows all."""

        async def ask() -> None:
            old = self.view.book.filter.pattern
            text = await log_reading.ask(
                self, "filter ", old.pattern if old else "", "regular expression; empty shows all"
            )
            if text is not None:
                self._refilter(pattern=log_filter.compiled(text) if text else None, inverse=False)

        launch(owner(self), ask, group="find", exclusive=True)

    def action_invert_filter(self) -> None:
        """Show what the expression does not match."""
        wanted = self.view.book.filter
        if wanted.pattern is None:
            owner(self).tell(UsageError("there is no filter to invert", hint="/ sets one"))
            return
        self._refilter(inverse=not wanted.inverse)

    def action_filter_rank(self) -> None:
        """Show only a rank's records."""

        async def ask() -> None:
            old = " ".join(f"{name}{number}" for name, number in self.view.book.filter.ranks)
            text = await log_reading.ask(self, "rank ", old, "TP3, DP1 TP0 or 3; empty shows all")
            if text is not None:
                self._refilter(ranks=log_filter.make(rank=text).ranks)

        launch(owner(self), ask, group="find", exclusive=True)

    def action_filter_kind(self) -> None:
        """Show only some kinds."""

        async def ask() -> None:
            old = ",".join(sorted(self.view.book.filter.kinds))
            text = await log_reading.ask(self, "kinds ", old, f"{', '.join(LogKind)}; empty shows all")
            if text is not None:
                self._refilter(kinds=log_filter.make(kinds=text).kinds)

        launch(owner(self), ask, group="find", exclusive=True)

    def action_filter_level(self) -> None:
        """Show everything, warnings and worse, or errors."""
        levels = log_filter.LEVELS
        at = levels.index(self.view.book.filter.level or levels[0])
        level = levels[(at + 1) % len(levels)]
        self._refilter(level=level)

    # moving

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
        self.view.show_polls(not self.view.book.polls_shown)
        self.name_it()

    def action_next_error(self) -> None:
        """Go to the next failure, error or warning."""
        self._step(1, 1)

    def action_previous_error(self) -> None:
        """Go to the failure, error or warning before."""
        self._step(-1, 1)

    def action_next_failure(self) -> None:
        """Go to the next failure or error."""
        self._step(1, 2)

    def action_previous_failure(self) -> None:
        """Go to the failure or error before."""
        self._step(-1, 2)

    def _step(self, way: int, level: int) -> None:
        log_places.step(self, way, level)
        self.name_it()

    def on_log_view_overrun(self, event: LogView.Overrun) -> None:
        """Go on showing what the operator reads, from the host."""
        event.stop()
        log_places.keep_place(self, event.row)

    def on_log_view_beyond(self, event: LogView.Beyond) -> None:
        """Show what comes before or behind what is at hand."""
        event.stop()
        log_places.go_beyond(self, event.way, event.far)

    # reading

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Open the record that was chosen."""
        event.stop()
        self.action_open_record()

    def action_open_record(self) -> None:
        """Unfold a record, or read a long one whole."""
        log_reading.open_record(self)

    def action_fold_all(self) -> None:
        """Unfold everything, or fold it."""
        self.view.toggle_all()
        self.name_it()

    def action_previous_log(self) -> None:
        """Show the log of the run before."""
        launch(owner(self), log_reading.previous_log, self, group="find", exclusive=True)

    def action_search_log(self) -> None:
        """Search the whole log on the host."""
        launch(owner(self), log_reading.search_whole, self, group="find", exclusive=True)

    def action_copy_record(self) -> None:
        """Send the record to the clipboard."""
        launch(owner(self), log_reading.copy_record, self, group="find", exclusive=True)

    def action_copy_log(self) -> None:
        """Send what is shown to the clipboard."""
        log_reading.copy_shown(self)

    def action_go_back(self) -> bool:
        """Drop the filter, or come back from an earlier run or place; false when there is nothing to leave."""
        if self.seeking:
            end_group(owner(self), "find")
        elif self.searched or self.view.stretch is not None:
            log_reading.come_back(self)
        elif not self.view.book.filter.wants_all:
            self.view.filter(None)
        elif self.past is not None:
            log_reading.present_log(self)
        else:
            return False
        self.name_it()
        return True


def _row_of(mark: Mark) -> Row:
    text = f"{mark.kind} {clean(mark.text)}".strip()
    return mark_row(mark.time, MARKS.get(mark.kind, "◆"), text, clock.of_day(mark.time))

"""Runs: what was launched and measured before, from the journal, also without a host."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input

from console.errors import UsageError
from console.ui import run_keeping
from console.ui.widgets.comparison import ComparisonLines
from console.ui.widgets.key_line import KeyLine
from console.ui.widgets.lines import Lines
from console.ui.widgets.plot_pane import PlotPane
from console.ui.widgets.run_details import RunDetails
from console.ui.widgets.runs import RunLines
from console.ui.worker import is_open, launch, owner

if TYPE_CHECKING:
    from console.journal.records import RunEntry
    from console.ui.app import TokwattApp

LIST_KEYS = (
    ("space", "mark two"), ("c", "compare"), ("v", "plots"), ("e", "experiment"), ("/", "filter"), ("s", "sort"),
    ("t", "tag"), ("n", "note"), ("x", "export"), ("r", "replay"), ("o", "identity"), ("esc", "back"),
)  # fmt: skip
COMPARE_KEYS = (
    ("space", "mark"), ("a", "all"), ("enter", "experiment of the marked"), ("v", "plots"), ("tab", "list"),
    ("esc", "close"),
)  # fmt: skip
VIEWS = ("", "throughput", "pareto", "power")
"""What stands below the list: the comparison, or a plot."""

FIRST = 200
"""Runs that are shown before all others are read."""

REST_S = 0.12
"""For so long the cursor stays on a run before that is read whole."""


class RunsScreen(Screen[None]):
    """The journal."""

    CSS = """
    RunsScreen {
        #runs { height: 1fr; }
        #comparison, #plot-pane { height: 2fr; display: none; }
        #filter { height: 1; display: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "go_back", show=False),
        Binding("q,6", "dismiss", show=False),
        Binding("c", "compare", show=False),
        Binding("e", "experiment", show=False),
        Binding("r", "replay", show=False),
        Binding("v", "next_view", show=False),
        Binding("slash", "filter", show=False),
        Binding("s", "sort", show=False),
        Binding("t", "tag", show=False),
        Binding("n", "note", show=False),
        Binding("x", "export", show=False),
        Binding("o", "identity", show=False),
        Binding("tab", "app.focus_next", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._view = ""
        self._of: tuple[RunEntry, ...] = ()
        """The runs that are compared or plotted."""
        self._resting: Timer | None = None

    def compose(self) -> ComposeResult:
        """Show the list, and room for a comparison and plots."""
        yield RunLines()
        yield RunDetails()
        yield ComparisonLines()
        yield PlotPane()
        words = Input(
            placeholder="words that id, host, engine, profile, note, tags or patches hold", id="filter", compact=True
        )
        words.cursor_blink = False
        yield words
        yield KeyLine(*LIST_KEYS)

    def on_mount(self) -> None:
        """Read the journal."""
        self._runs.focus()
        self._work("runs", self._read)

    async def _read(self) -> None:
        from console.operations import compare

        for limit in (FIRST, None):
            entries = await compare.listed(limit=limit)
            if not is_open(self):
                return
            whole = limit is None or len(entries) < limit
            self._runs.fill(entries, whole=whole)
            if whole:
                return

    async def _whole(self, entries: Sequence[RunEntry]) -> tuple[RunEntry, ...]:
        """Return runs with what was measured of them."""
        from console.operations import compare

        return await compare.whole(entries)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Read the run whole that the cursor comes to rest on."""
        if event.lines is self._runs:
            if self._resting is not None:
                self._resting.stop()
            self._resting = self.set_timer(REST_S, self._rest)

    def _rest(self) -> None:
        self._work("run details", self._detail)

    async def _detail(self) -> None:
        runs, details = self._runs, self.query_one(RunDetails)
        entry = runs.chosen
        if entry is None:
            details.display = False
            return
        whole = runs.known(entry)
        if whole is None:
            found = await self._whole([entry])
            if not found or not is_open(self):
                return
            whole = found[0]
            runs.learn(whole)
        if not self._of and details.entry is not whole:
            details.show(whole)

    def _work(self, group: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        launch(owner(self), work, group=group, exclusive=True)

    @property
    def _runs(self) -> RunLines:
        return self.query_one(RunLines)

    # below the list

    def action_go_back(self) -> None:
        """Close the filter, what is below the list, then the screen."""
        runs, line = self._runs, self.query_one("#filter", Input)
        if self._of and not line.has_focus:
            self._close()
        elif line.display or runs.wanted:
            line.value = ""
            line.display = False
            runs.narrow("")
            runs.focus()
        else:
            self.dismiss()

    def _close(self) -> None:
        self._of = ()
        self.query_one(ComparisonLines).display = self.query_one(PlotPane).display = False
        self.query_one(KeyLine).show(*LIST_KEYS)
        self._runs.focus()
        self.query_one(RunDetails).entry = None
        self._rest()

    def action_compare(self) -> None:
        """Compare the two marked runs; why their numbers are not set against each other is said."""
        self._work("compare", self._compare)

    async def _compare(self, mark_all: bool = False) -> None:
        from console.operations import compare
        from console.operations.experiments_new import changes_of_runs

        marked = self._runs.marked
        if len(marked) != 2:
            raise UsageError("two runs are compared: space marks A, then B", hint="then c")
        a, b = await self._whole(marked)
        below = self.query_one(ComparisonLines)
        below.fill(compare.side_by_side(a, b), changes_of_runs(a, b))
        if mark_all:
            below.action_mark_all()
        self._of, self._view = (a, b), ""
        self.query_one(PlotPane).display = self.query_one(RunDetails).display = False
        below.display = True
        below.focus()
        self.query_one(KeyLine).show(*COMPARE_KEYS)

    def action_next_view(self) -> None:
        """Show the next plot of what is compared, of the marked runs, or of the run under the cursor."""
        self._work("plot", self._next_view)

    async def _next_view(self) -> None:
        from console.operations import plots

        chosen = self._runs.chosen
        entries = self._of or tuple(self._runs.marked) or ((chosen,) if chosen else ())
        if not entries:
            raise UsageError("there is no run to draw", hint="b in the cockpit measures one")
        views = VIEWS if len(entries) == 2 else VIEWS[1:]
        self._view = views[(views.index(self._view) + 1) % len(views)] if self._of else VIEWS[1]
        if not self._view:
            await self._compare()
            return
        entries = self._of or await self._whole(entries)
        plot = await plots.drawn(entries, self._view)
        self._of = entries
        pane = self.query_one(PlotPane)
        pane.show(plot, "AB" if len(entries) == 2 else ())
        self.query_one(ComparisonLines).display = self.query_one(RunDetails).display = False
        pane.display = True
        self._runs.focus()
        self.query_one(KeyLine).show(("v", "next view"), ("esc", "close"))

    def action_experiment(self) -> None:
        """Mark what differs between the two marked runs for an experiment; with none marked, show them all."""
        from console.ui.screens.experiment import ExperimentScreen

        if self._of and self.query_one(ComparisonLines).display:
            self._work("experiment file", self._build)
        elif self._runs.marked:
            self._work("compare", lambda: self._compare(mark_all=True))
        else:
            self.app.push_screen(ExperimentScreen())

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Make an experiment of the marked differences, or read the run that was opened."""
        if isinstance(event.lines, ComparisonLines):
            self._work("experiment file", self._build)
        elif event.lines is self._runs:
            self._rest()

    async def _build(self) -> None:
        from console.operations import experiments_new
        from console.ui.building import build

        app = owner(self)
        a, b = self._of
        profile = app.desk.profile if app.desk is not None else None
        await build(
            app,
            self.query_one(ComparisonLines).picked,
            base=experiments_new.base_of_run(a, profile),
            title=f"What makes {b.id} another than {a.id}",
            name=f"{a.id}-{b.id}",
            concurrency=experiments_new.common_ladder(a, b),
        )

    # the list

    def action_filter(self) -> None:
        """Type what runs must hold; the list follows."""
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Follow the filter."""
        self._runs.narrow(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the list, filtered."""
        self.query_one("#filter").display = False
        self._runs.focus()

    def action_sort(self) -> None:
        """Sort by the next thing."""
        self._runs.sort_next()

    def _chosen(self) -> RunEntry:
        chosen = self._runs.chosen
        if chosen is None:
            raise UsageError("no run is under the cursor")
        return chosen

    def action_tag(self) -> None:
        """Add and take tags."""
        self._work("remark", lambda: self._remark(run_keeping.tag))

    def action_note(self) -> None:
        """Write a note; an empty one takes it away."""
        self._work("remark", lambda: self._remark(run_keeping.note))

    async def _remark(self, ask: Callable[[TokwattApp, RunEntry], Coroutine[Any, Any, dict[str, Any] | None]]) -> None:
        entry = self._chosen()
        said = await ask(owner(self), entry)
        if said is not None and is_open(self):
            self._runs.remark(entry, said["tags"], said["note"])

    def action_export(self) -> None:
        """Write the marked runs, else all that are shown, into a file."""
        runs = self._runs
        entries, which = (runs.marked, "marked") if runs.marked else (runs.shown, "shown")
        self._work("export", lambda: run_keeping.export(owner(self), entries, which))

    def action_replay(self) -> None:
        """Play the run under the cursor again, as it was recorded."""
        self._work("replay", self._replay)

    async def _replay(self) -> None:
        from console.operations import tape
        from console.ui.screens.replay import ReplayScreen

        (entry,) = await self._whole([self._chosen()])
        found = await tape.load(entry)
        if not found.kept:
            hint = "a run is recorded while a console watches it"
            raise UsageError(f"run {entry.id}: nothing was recorded over time", hint=hint)
        await self.app.push_screen(ReplayScreen(found))

    def action_identity(self) -> None:
        """Show under what a run was measured."""
        self._work("identity", self._identity)

    async def _identity(self) -> None:
        from console.ui.modals.text import TextModal

        (entry,) = await self._whole([self._chosen()])
        text = json.dumps(entry.identity, indent=2, ensure_ascii=False, default=str)
        await owner(self).push_screen_wait(TextModal(f"run {entry.id} was measured under", text))

"""Measuring: the ladder filling in, and a plot of what it found."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.worker import Worker

from console.domain.measurement import Measurement, SweepProgress
from console.domain.text import clean
from console.state.store import Snapshot
from console.ui.widgets.activity import Receipt
from console.ui.widgets.bench_ladder import BenchHead, LadderTable
from console.ui.widgets.bench_notes import BenchNotes
from console.ui.widgets.compact import CompactGauges
from console.ui.widgets.frame import Framed
from console.ui.widgets.key_line import KeyLine
from console.ui.widgets.plot_pane import PlotPane
from console.ui.widgets.status import Status
from console.ui.worker import is_open, launch, owner

KEYS = (
    ("t", "stop measuring"), ("ctrl+s", "save winner"), ("b", "again"), ("v", "the next plot"),
    ("esc", "back, measuring goes on"),
)  # fmt: skip
VIEWS = ("throughput", "pareto", "power")


class BenchScreen(Screen[None]):
    """The measuring screen; leaving it does not stop the measuring."""

    CSS = """
    BenchScreen {
        #status { height: 1; background: $panel; }
        #bench-head { height: 2; }
        #compact { height: 3; }
        #ladder-box { height: auto; max-height: 50%; }
        #ladder-table { height: 5; }
        #plot-pane { height: 1fr; }
        #receipt { height: 1; display: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", show=False),
        Binding("ctrl+s", "app.act('save_winner')", show=False),
        Binding("b", "measure", show=False),
        Binding("t", "stop_measuring", show=False),
        Binding("v", "next_view", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._drawn: tuple[Measurement, ...] | None = None
        self._view = VIEWS[0]

    def compose(self) -> ComposeResult:
        """Put the ladder above the plot."""
        yield Status()
        yield CompactGauges()
        yield BenchHead()
        with Box("b", "Ladder", id="ladder-box"):
            yield LadderTable()
        yield BenchNotes()
        yield PlotPane()
        yield Receipt()
        yield KeyLine(*KEYS)

    def on_mount(self) -> None:
        """Begin to measure, unless a ladder is being measured already."""
        self.watch(self.app, "shown", self.show_snapshot)
        if self._worker() is None:
            self.action_measure()

    def _worker(self) -> Worker[object] | None:
        return next((w for w in self.app.workers if w.group == "measure" and w.is_running), None)

    def action_measure(self) -> None:
        """Measure the profile's ladder."""
        app = owner(self)
        if self._worker() is not None:
            app.say("a ladder is being measured: t stops it")
            return

        async def measure() -> None:
            from console.operations import measure as measuring

            async for _ in measuring.sweep(app.need_desk()):
                pass
            app.bell()

        launch(app, measure, group="measure", lasting=True)

    def action_stop_measuring(self) -> None:
        """End the load on the host."""
        worker = self._worker()
        if worker is not None:
            worker.cancel()
            owner(self).say("measuring was stopped; what was measured stays in the journal")

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show how far the ladder is."""
        self.query_one(Status).show(snapshot)
        self.query_one(CompactGauges).show(snapshot)
        self.query_one(BenchHead).show(snapshot)
        sweep = snapshot.sweep
        table = self.query_one(LadderTable)
        table.show(sweep, snapshot.gpus.power_w if snapshot.gpus else None)
        table.styles.height = max(3, table.count())
        receipt = self.query_one(Receipt)
        receipt.show_fault(owner(self).cockpit.receipt.fault)
        if sweep is not None and sweep.done is not self._drawn:
            self._drawn = sweep.done
            self.query_one(BenchNotes).show(sweep.done)
            launch(owner(self), self._plot, sweep, group="plot", exclusive=True)

    def action_next_view(self) -> None:
        """Draw the next thing of what was measured."""
        self._view = VIEWS[(VIEWS.index(self._view) + 1) % len(VIEWS)]
        sweep = owner(self).snapshot.sweep
        if sweep is not None:
            launch(owner(self), self._plot, sweep, group="plot", exclusive=True)

    async def _plot(self, sweep: SweepProgress) -> None:
        from console.operations import compare, plots

        app = owner(self)
        gpus = app.snapshot.gpus
        told = [plots.Measured(clean(sweep.run_id), sweep.done, len(gpus.gpus) if gpus else 0)]
        if self._view == "power":
            host = app.snapshot.host
            plot = await plots.power([await compare.find_run(f"{host.name}:{sweep.run_id}" if host else sweep.run_id)])
        else:
            plot = plots.pareto(told) if self._view == "pareto" else plots.throughput(told)
        if is_open(self):
            self.query_one(PlotPane).show(plot)


class Box(Vertical, Framed):
    """A frame around one widget."""

    def __init__(self, key: str, title: str, *, id: str) -> None:
        super().__init__(id=id)
        self.entitle(key, title)

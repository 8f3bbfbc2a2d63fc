"""Measuring: the ladder filling in, and a plot of what it found."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.worker import Worker

from console.domain.measurement import Measurement, Percentiles, SweepProgress
from console.domain.text import clean, dash
from console.state.store import Snapshot
from console.ui.drawing import Span, bar, fit, width_of
from console.ui.widgets.activity import Receipt
from console.ui.widgets.bench_notes import BenchNotes, mode_words
from console.ui.widgets.compact import CompactGauges
from console.ui.widgets.frame import Framed
from console.ui.widgets.inks import Painting
from console.ui.widgets.key_line import KeyLine
from console.ui.widgets.lines import Lines
from console.ui.widgets.plot_pane import PlotPane
from console.ui.widgets.status import Status
from console.ui.worker import is_open, launch, owner

QUIET_S = 5.0
"""A silence of the server that is worth a word: a prefill alone is shorter, mostly."""

Columns = tuple[tuple[str, int], ...]

NARROW: Columns = (
    ("conc.", 6),
    ("tok/s", 13),
    ("TTFT p50/p99 s", 14),
    ("ITL p50/p99", 11),
    ("W", 6),
    ("J/tok", 6),
    ("failed", 6),
)
HEAD: Columns = (
    ("concurrency", 11),
    ("output tok/s", 15),
    ("TTFT p50/p99 s", 16),
    ("ITL p50/p99 ms", 16),
    ("W", 7),
    ("J/token", 9),
    ("failed", 8),
)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is known."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def spread(values: Sequence[float | None]) -> str:
    """Return mean and standard deviation; one value has none."""
    known = [value for value in values if value is not None]
    said = dash(mean(known))
    return f"{said} ± {dash(stdev(known))}" if len(known) > 1 else said


def pair(of: Sequence[Percentiles], scale: float, digits: int) -> str:
    """Return the means of median and 99th percentile."""
    middle, high = mean([p.p50_ms for p in of]), mean([p.p99_ms for p in of])
    return " / ".join(dash(None if value is None else value / scale, digits) for value in (middle, high))


def cells(done: Sequence[Measurement]) -> list[str]:
    """Return the columns after the concurrency for the repeats of one rung."""
    return [
        spread([one.output_throughput_tok_s for one in done]),
        pair([one.ttft_ms for one in done], 1000, 2),
        pair([one.itl_ms for one in done], 1, 0),
        dash(mean([one.power_mean_w for one in done])),
        dash(mean([one.energy_j_per_token for one in done]), 2),
        str(sum(one.failed for one in done)),
    ]


def troubles(sweep: SweepProgress) -> list[str]:
    """Return what is wrong with the load under way."""
    found = [f"{sweep.failed:,} failed"] if sweep.failed else []
    return [*found, f"nothing has come for {sweep.silent_s:.0f} s"] if sweep.silent_s >= QUIET_S else found


class LadderTable(Lines):
    """One row a concurrency, filling in."""

    def __init__(self) -> None:
        super().__init__(id="ladder-table")
        self.sweep: SweepProgress | None = None
        self.live_power: float | None = None

    def show(self, sweep: SweepProgress | None, power: float | None) -> None:
        """Show how far the ladder is."""
        self.sweep, self.live_power = sweep, power
        self.changed()

    def count(self) -> int:
        """Return heading and rungs."""
        return 1 + len(self.sweep.planned) if self.sweep else 0

    def under(self, index: int) -> str:
        """Leave the rows plain: nothing is chosen here."""
        return ""

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return the heading or a rung."""
        sweep = self.sweep
        assert sweep is not None
        head, gap = (HEAD, "  ") if width >= 100 else (NARROW, " ")
        if index == 0:
            return [(" " + "".join(f"{word:>{size}}{gap}" for word, size in head), "dim")]
        rung = sweep.planned[index - 1]
        done = [one for one in sweep.done if one.concurrency_limit == rung]
        tainted = sorted({reason for one in done for reason in one.tainted})
        current = sweep.current == rung
        spans: list[Span] = [(f" {rung:>{head[0][1]},}{gap}", "accent strong" if current else "strong")]
        if done:
            for text, (_, size) in zip(cells(done), head[1:], strict=True):
                spans.append((f"{text:>{size}}{gap}", "warn" if tainted else ""))
        elif current:
            spans.append((f"{dash(sweep.live_tok_s):>{head[1][1]}}{gap}", "info"))
        else:
            spans += [(f"{'—':>{size}}{gap}", "dim") for _, size in head[1:]]
        if current:
            spans += [(" ", ""), *bar(sweep.fraction, 8, "info"), (f" {clean(sweep.step)}", "info")]
            spans += [(f" {text}", "warn") for text in troubles(sweep)]
            spans.append((f" {sweep.repeat + 1} of {sweep.repeats}" if sweep.repeats > 1 else "", "dim"))
        elif tainted:
            spans.append((f"! {clean('; '.join(tainted))}", "warn"))
        return spans

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what is about to come."""
        return [[], [("  the profile's concurrencies, one row each: waiting for the first", "dim")]]


class BenchHead(Painting):
    """What is measured, and how."""

    def __init__(self) -> None:
        super().__init__(id="bench-head")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.snapshot = snapshot
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return run, model, lengths and protocol."""
        profile, sweep = self.snapshot.profile, self.snapshot.sweep
        spans: list[Span] = [(" Measuring ", "accent strong")]
        if sweep is not None:
            spans.append((f"run {clean(sweep.run_id)}", "strong"))
        if profile is not None:
            spans.append(
                (
                    f" · {clean(profile.title or profile.name)} · {profile.bench.input_tokens:,} in {profile.bench.output_tokens:,} out",
                    "",
                )
            )
        if sweep is not None and sweep.done:
            protocol = sweep.done[-1].protocol
            words = [word for word, key in (("flushed", "flushed"), ("warmed", "warmed_up")) if protocol.get(key)]
            spans.append((f" · {', '.join(words)}" if words else "", "dim"))
            spans.append((f" · {clean(mode_words(protocol))}, load from the {clean(sweep.done[-1].vantage)}", "dim"))
        if sweep is not None and sweep.error:
            spans.append((f" · ✗ {clean(sweep.error)}", "bad"))
        elif sweep is not None and sweep.current is None and sweep.done:
            spans.append((" · ✓ done", "good"))
        return [spans if width_of(spans) <= width else [(fit("".join(text for text, _ in spans), width), "")]]


KEYS = (
    ("t", "stop measuring"), ("ctrl+s", "save winner"), ("b", "again"), ("v", "the next plot"),
    ("esc", "back, measuring goes on"),
)  # fmt: skip
VIEWS = ("throughput", "pareto", "power")


class BenchScreen(Screen[None]):
    """The measuring screen; leaving it does not stop the measuring."""

    CSS = """
    BenchScreen {
        #status, #bench-head { height: 1; }
        #status { background: $panel; }
        #compact { height: 3; }
        #ladder-box { height: auto; max-height: 50%; }
        #ladder-table { height: 5; }
        #plot-pane { height: 1fr; min-height: 6; }
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

"""Measuring: the ladder filling in, and a plot of what it found."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Vertical
from textual.screen import Screen
from textual.worker import Worker

from console.domain.measurement import Measurement, Percentiles, SweepProgress
from console.domain.text import clean, dash
from console.state.store import Snapshot
from console.ui.drawing import Span, bar, fit, nice, width_of
from console.ui.widgets.activity import Receipt
from console.ui.widgets.compact import CompactGauges
from console.ui.widgets.frame import Framed
from console.ui.widgets.inks import Painting
from console.ui.widgets.lines import Lines
from console.ui.widgets.status import Status
from console.ui.worker import launch, owner

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
            spans.append((f" {sweep.repeat} of {sweep.repeats}" if sweep.repeats > 1 else "", "dim"))
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
            spans.append((f" · load from the {clean(sweep.done[-1].vantage)}", "dim"))
        if sweep is not None and sweep.error:
            spans.append((f" · ✗ {clean(sweep.error)}", "bad"))
        elif sweep is not None and sweep.current is None and sweep.done:
            spans.append((" · ✓ done", "good"))
        return [spans if width_of(spans) <= width else [(fit("".join(text for text, _ in spans), width), "")]]


class BenchKeys(Painting):
    """The keys of this screen."""

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the keys."""
        pairs = (("ctrl+s", "save winner"), ("b", "again"), ("t", "stop measuring"), ("esc", "back, measuring goes on"))
        spans: list[Span] = [(" ", "")]
        for key, word in pairs:
            spans += [(key, "accent strong"), (f" {word}  ", "dim")]
        return [spans]


class BenchScreen(Screen[None]):
    """The measuring screen; leaving it does not stop the measuring."""

    CSS = """
    BenchScreen {
        #status, #bench-head, BenchKeys { height: 1; }
        #status { background: $panel; }
        #compact { height: 3; }
        #ladder-box { height: auto; max-height: 50%; }
        #ladder-table { height: 5; }
        #plot-box { height: 1fr; min-height: 6; }
        #plot { width: 1fr; height: 1fr; background: $surface; }
        #receipt { height: 1; display: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", show=False),
        Binding("ctrl+s", "app.act('save_winner')", show=False),
        Binding("b", "measure", show=False),
        Binding("t", "stop_measuring", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Put the ladder above the plot."""
        from textual_plotext import PlotextPlot

        yield Status()
        yield CompactGauges()
        yield BenchHead()
        with Box("b", "Ladder", id="ladder-box"):
            yield LadderTable()
        with Box("", "Output tok/s and watts by concurrency", id="plot-box"):
            yield PlotextPlot(id="plot")
        yield Receipt()
        yield BenchKeys()

    def on_mount(self) -> None:
        """Begin to measure, unless a ladder is being measured already."""
        self.watch(self.app, "shown", self.show_snapshot)
        self.watch(self.app, "theme", self._draw_again, init=False)
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
        if sweep is not None and sweep.done is not (self._drawn[0] if self._drawn else None):
            self._drawn = (sweep.done,)
            self._plot(sweep)

    def _draw_again(self) -> None:
        sweep = owner(self).snapshot.sweep
        if sweep is not None:
            self._plot(sweep)

    def _plot(self, sweep: SweepProgress) -> None:
        from textual_plotext import PlotextPlot

        rungs = sorted({one.concurrency_limit for one in sweep.done})
        speeds = [
            mean([o.output_throughput_tok_s for o in sweep.done if o.concurrency_limit == rung]) for rung in rungs
        ]
        watts = [mean([o.power_mean_w for o in sweep.done if o.concurrency_limit == rung]) for rung in rungs]
        known = [(rung, speed) for rung, speed in zip(rungs, speeds, strict=True) if speed is not None]
        plot = self.query_one("#plot", PlotextPlot)
        draw = plot.plt
        draw.clear_data()
        colour = Color.parse(self.app.theme_variables["accent"]).rgb
        places, heights = [rung for rung, _ in known], [speed for _, speed in known]
        if known:
            draw.plot(places, heights, marker="braille", color=colour)
            draw.scatter(places, heights, marker="●", color=colour)
        top = max([*heights, 1.0]) * 1.15
        draw.xlim(0, max([*sweep.planned, 1]) * 1.05)
        draw.ylim(0, top)
        draw.xticks(list(sweep.planned), [f"{rung:,}" for rung in sweep.planned])
        step = nice(top / 4)
        draw.yticks([step * part for part in range(5)], [dash(step * part) for part in range(5)])
        powers = ", ".join(f"{dash(w)} W at {rung:,}" for rung, w in zip(rungs, watts, strict=True) if w is not None)
        self.query_one("#plot-box", Box).entitle("", "Output tok/s by concurrency", powers)
        plot.refresh()


class Box(Vertical, Framed):
    """A frame around one widget."""

    def __init__(self, key: str, title: str, *, id: str) -> None:
        super().__init__(id=id)
        self.entitle(key, title)

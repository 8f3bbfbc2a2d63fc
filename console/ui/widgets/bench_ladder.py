"""A ladder filling in: a row a concurrency, and above it how the load stands."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from console.domain.measurement import Measurement, Percentiles, SweepProgress
from console.domain.text import clean, dash
from console.state.store import Snapshot
from console.ui.drawing import Span, bar, fit, width_of
from console.ui.widgets.bench_notes import mode_words
from console.ui.widgets.inks import Painting
from console.ui.widgets.lines import Lines

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


def cut(spans: Sequence[Span], width: int) -> list[Span]:
    """Return a line that ends in an ellipsis where it is too long, each part in its own ink."""
    kept: list[Span] = []
    left = width
    for text, ink in spans:
        if width_of([(text, ink)]) > left:
            return [*kept, (fit(text, left), ink)] if left > 1 else kept
        kept.append((text, ink))
        left -= width_of([(text, ink)])
    return kept


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
            spans += [(" ", ""), *bar(sweep.fraction, 8, "info")]
        elif tainted:
            spans.append((f"! {clean('; '.join(tainted))}" if width >= 100 else "!", "warn"))
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
        """Return how the load stands, then run, model, lengths and protocol."""
        return [cut(self._now(), width), cut(self._what(), width)]

    def _now(self) -> list[Span]:
        sweep = self.snapshot.sweep
        spans: list[Span] = [(" Measuring ", "accent strong")]
        if sweep is None:
            return spans
        if sweep.error:
            return [*spans, (f"✗ {clean(sweep.error)}", "bad")]
        if sweep.current is None:
            return [*spans, ("✓ done", "good")] if sweep.done else spans
        spans.append((f"{sweep.current:,}: {clean(sweep.step)}", "info"))
        if sweep.fraction is not None:
            spans.append((f" {100 * sweep.fraction:.0f} %", "info"))
        spans += [(f" · {text}", "warn") for text in troubles(sweep)]
        if sweep.live_tok_s is not None:
            spans.append((f" · {dash(sweep.live_tok_s)} tok/s now", ""))
        if sweep.repeats > 1:
            spans.append((f" · repeat {sweep.repeat + 1} of {sweep.repeats}", ""))
        return spans

    def _what(self) -> list[Span]:
        profile, sweep = self.snapshot.profile, self.snapshot.sweep
        spans: list[Span] = [(f" run {clean(sweep.run_id)}", "strong")] if sweep is not None else []
        if profile is not None:
            lengths = f"{profile.bench.input_tokens:,} in {profile.bench.output_tokens:,} out"
            spans.append((f" · {clean(profile.title or profile.name)} · {lengths}", ""))
        if sweep is not None and sweep.done:
            protocol = sweep.done[-1].protocol
            words = [word for word, key in (("flushed", "flushed"), ("warmed", "warmup_requests")) if protocol.get(key)]
            spans.append((f" · {', '.join(words)}" if words else "", "dim"))
            spans.append((f" · {clean(mode_words(protocol))}, load from the {clean(sweep.done[-1].vantage)}", "dim"))
        return spans

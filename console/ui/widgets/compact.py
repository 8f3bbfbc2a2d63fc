"""Compact gauges: power, speed and every GPU in a few lines, for small terminals and a zoomed pane."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.text import dash
from console.state.store import Snapshot
from console.ui.drawing import Span, bar, braille, columns, marked
from console.ui.widgets.gpus import power_ink, readings_age, total
from console.ui.widgets.inks import Painting
from console.ui.widgets.throughput import is_stale, joules_per_token, queues, why_lines


class CompactGauges(Painting):
    """Four lines instead of two panes."""

    def __init__(self) -> None:
        super().__init__(id="compact")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.snapshot = snapshot
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return totals first, then as many GPUs as fit."""
        snapshot = self.snapshot
        sample = snapshot.gpus
        now = max(sample.time if sample else 0.0, snapshot.throughput.time if snapshot.throughput else 0.0)
        marks = [(mark.time, mark.kind) for mark in snapshot.marks]
        cells = 8 if width < 120 else 16
        watts = [(time, sum(w for w in each if w is not None)) for time, each in snapshot.gpu_history]
        limit = (sample.limit_w if sample else None) or 1.0
        speed = snapshot.throughput.output_tok_s if snapshot.throughput else None
        target = snapshot.profile.target.output_tok_s if snapshot.profile else None
        top = max(filter(None, (target, snapshot.best_tok_s, speed)), default=1.0)
        old = readings_age(sample)
        dim = " dim" if old is not None and old > 3 else ""
        first: list[Span] = [(f" {total(sample).replace(' of ', '/') or '— W'} ", "strong" + dim)]
        first += marked(braille(columns(watts, now, cells * 2), limit)[0], marks, now, "info")
        first += [("  ", ""), (f"{dash(speed)} tok/s ", "dim" if is_stale(snapshot) else "accent strong")]
        first += marked(braille(columns(snapshot.tok_s_history, now, cells * 2), top)[0], marks, now, "info")
        second: list[Span] = [
            (" ", ""),
            *queues(snapshot, short=True),
            (dash(joules_per_token(snapshot), 2), "strong"),
            (" J/token", "dim"),
        ]
        return [first, second, *self._gpus(width), *why_lines(snapshot, width, 1)][:height]

    def _gpus(self, width: int) -> list[list[Span]]:
        sample = self.snapshot.gpus
        if sample is None or not sample.gpus:
            return [[(" no GPU readings", "dim")]]
        each = 20 if width < 120 else 24
        fit_in = max(1, (width - 1) // each)
        spans: list[Span] = [(" ", "")]
        if len(sample.gpus) > fit_in and len(sample.gpus) * 9 < width:
            for reading in sample.gpus:
                draw, cap = reading.power_draw_w, reading.power_limit_w
                level = "?" if draw is None or not cap else "▁▂▃▄▅▆▇█"[min(7, int(draw / cap * 8))]
                spans += [
                    (f"{reading.index} ", "number"),
                    (level, power_ink(reading)),
                    (f" {dash(draw):>3}  ", "strong"),
                ]
            return [[*spans[:-1], (spans[-1][0].rstrip(), "strong"), (" W", "dim")]]
        shown = sample.gpus if len(sample.gpus) <= fit_in else sample.gpus[: fit_in - 1]
        for reading in shown:
            draw, cap = reading.power_draw_w, reading.power_limit_w
            spans += [
                (f"{reading.index} ", "number"),
                (f"{dash(draw):>4} W ", "strong"),
                *bar(draw / cap if draw is not None and cap else None, each - 16, power_ink(reading)),
            ]
            spans += [(f" {dash(reading.gpu_util_pct):>3} % ", "dim")]
        if len(shown) < len(sample.gpus):
            spans.append((f"… {len(sample.gpus) - len(shown)} more", "dim"))
        return [spans]

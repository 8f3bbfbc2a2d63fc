"""Throughput gauge: tokens per second with their history, queues, and what a token costs."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.diagnosis import CAUSELESS, Confidence
from console.domain.run import UP, RunPhase
from console.domain.text import clean, dash
from console.domain.throughput import ThroughputSample
from console.state.store import Snapshot
from console.ui import clock
from console.ui.drawing import Span, age, braille, columns, fit, marked, spread, width_of, wrapped
from console.ui.widgets.frame import Framed
from console.ui.widgets.inks import Painting

STALE_S = 5.0


def joules_per_token(snapshot: Snapshot) -> float | None:
    """Return energy per output token: by counters where they are told, else watts over tok/s."""
    if snapshot.energy_j_per_token is not None and snapshot.throughput and snapshot.throughput.output_tok_s:
        return snapshot.energy_j_per_token
    speed = snapshot.throughput.output_tok_s if snapshot.throughput else None
    power = snapshot.gpus.power_w if snapshot.gpus else None
    return power / speed if power is not None and speed else None


def source_and_age(snapshot: Snapshot) -> str:
    """Return where the speed comes from and how old it is."""
    sample = snapshot.throughput
    if sample is None or not sample.source:
        return ""
    old = f", {age(clock.monotonic() - sample.received)}" if sample.received else ""
    word = " stale" if sample.stale else ""
    return f"{clean(sample.source)}{old}{word}"


def is_stale(snapshot: Snapshot) -> bool:
    """Return whether the speed is too old to be believed."""
    sample = snapshot.throughput
    return sample is not None and (
        sample.stale or (sample.received > 0 and clock.monotonic() - sample.received > STALE_S)
    )


def queues(snapshot: Snapshot, *, short: bool = False) -> list[Span]:
    """Return running, queued, KV usage, cache hits and retractions."""
    sample = snapshot.throughput
    running, queued, kv, hit, out = (
        (sample.running, sample.queued, sample.kv_usage, sample.cache_hit, sample.retracted) if sample else (None,) * 5
    )

    def percent(value: float | None) -> str:
        return dash(None if value is None else value * 100) + (" %" if value is not None else "")

    pairs = [
        ("run" if short else "running", dash(running)),
        ("queue" if short else "queued", dash(queued)),
        ("KV", percent(kv)),
    ]
    if not short:
        pairs += [("cache hit", percent(hit)), ("retracted", dash(out))]
    spans: list[Span] = []
    for word, value in pairs:
        bad = word == "retracted" and bool(out)
        spans += [(f"{word} ", "dim"), (value, "warn" if bad else "strong"), ("   " if not short else "  ", "")]
    return spans


def why_lines(snapshot: Snapshot, width: int, most: int) -> list[list[Span]]:
    """Return the verdict in plain words, in as many lines as there are; the last one names the key for more."""
    found = snapshot.diagnosis
    if found is None:
        return []
    ink = "dim" if found.bound in CAUSELESS else "warn" if found.confidence is not Confidence.LOW else "strong"
    more = "  7 why"
    lines = wrapped(clean(found.said), width - len(more), ink, 1)
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = [(fit(lines[-1][0][0], width - len(more) - 2).rstrip() + "…", ink)]
    lines[-1] = [*lines[-1], (more, "dim")]
    return lines


def _waits(sample: ThroughputSample) -> list[list[Span]]:
    """Return what requests waited in the last half minute, as the engine's histograms tell, and the accept length."""
    told = []
    for word, name in (("TTFT", "ttft"), ("ITL", "itl")):
        found = sample.latencies.get(name)
        if found is not None and found.p50_ms is not None:
            told.append([(f"   {word} p50 ", "dim"), (f"{dash(found.p50_ms)} ms", "strong")])
    if sample.accept_length is not None:
        told.append([("   accepts ", "dim"), (dash(sample.accept_length, 2), "strong"), (" a step", "dim")])
    return told


class Throughput(Painting, Framed, can_focus=True):
    """How fast the server is now."""

    def __init__(self) -> None:
        super().__init__(id="throughput")
        self.snapshot = Snapshot()
        self.reason = ""
        self.entitle("5", "Throughput")

    def show(self, snapshot: Snapshot, reason: str = "") -> None:
        """Show a snapshot; `reason` says why there is no speed."""
        self.snapshot, self.reason = snapshot, reason
        self.entitle("5", "Throughput", source_and_age(snapshot), "$warning" if is_stale(snapshot) else "$muted")
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return speed, history, lines to compare with, queues and cost."""
        snapshot = self.snapshot
        sample = snapshot.throughput
        if sample is None or not sample.source:
            run = snapshot.run
            up = run is not None and run.phase in UP
            why = self.reason or (sample.reason if sample else "") if up else ""
            if up and run is not None and run.phase is RunPhase.STARTING:
                why = "the server is starting"
            return [
                [("", "")],
                [(" tokens per second, queues and joules per token", "dim")],
                *wrapped(
                    f"none yet: {clean(why)}"
                    if why
                    else "waiting for the server"
                    if up
                    else "no server runs: x s starts one",
                    width,
                    "dim",
                    1,
                ),
            ]
        speed = sample.output_tok_s
        ink = "dim" if is_stale(snapshot) or sample.idle else "accent strong"
        said = "idle" if sample.idle else f"{dash(speed)} tok/s"
        now = snapshot.gpus.time if snapshot.gpus else sample.time
        told = why_lines(snapshot, width, max(1, min(3, height - 5)))
        room = max(1, min(6, height - 3 - len(told)))
        rows = self._chart(width, room, max(now, sample.time))
        head: list[Span] = [(f" {said}", ink), ("   best ", "dim"), (dash(snapshot.best_tok_s), "strong")]
        joules = joules_per_token(snapshot)
        power = snapshot.gpus.power_w if snapshot.gpus else None
        per_watt = speed / power if speed is not None and power else None
        cost: list[Span] = [
            (" ", ""),
            (dash(joules, 2), "strong"),
            (" J/token   ", "dim"),
            (dash(per_watt, 2), "strong"),
            (" tok/s per W", "dim"),
        ]
        for piece in _waits(sample):
            if width_of(cost) + width_of(piece) <= width:
                cost += piece
        return [
            spread(head, self._target(width - width_of(head) - 2), width),
            *rows,
            [(" ", ""), *queues(snapshot)],
            cost,
            *told,
        ]

    def _target(self, width: int) -> list[Span]:
        target = self.snapshot.profile.target if self.snapshot.profile else None
        if target is None or target.output_tok_s is None:
            return []
        spans: list[Span] = [("target ", "dim"), (dash(target.output_tok_s), "strong")]
        for origin in (f", {clean(target.origin)} (other model)", " (other model)"):
            if target.origin and width_of(spans) + len(origin) <= width:
                return [*spans, (origin, "dim"), (" ", "")]
        return [*spans, (" ", "")]

    def _chart(self, width: int, height: int, now: float) -> list[list[Span]]:
        snapshot = self.snapshot
        target = snapshot.profile.target.output_tok_s if snapshot.profile else None
        top = max(
            filter(
                None, (target, snapshot.best_tok_s, snapshot.throughput.output_tok_s if snapshot.throughput else None)
            ),
            default=1.0,
        )
        label = len(dash(top)) + 1
        cells = max(4, width - label - 2)
        rows = braille(columns(snapshot.tok_s_history, now, cells * 2), top, height)
        marks = [(mark.time, mark.kind) for mark in snapshot.marks]
        drawn: list[list[Span]] = []
        for place, row in enumerate(rows):
            edge = dash(top) if place == 0 else "0" if place == height - 1 and height > 1 else ""
            line: list[Span] = [(f" {edge:>{label - 1}}", "dim"), ("┤" if edge else "│", "track")]
            if place == 0:
                line += [(cell, "info") if cell.strip() else ("┄", "track") for cell in row]
            else:
                line += marked(row, marks if place == height - 1 else (), now, "info")
            drawn.append(line)
        return drawn

"""Replaying a run: what its measurements recorded, in the order of time, as frames, a table or a picture."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from console.journal.book import Journal
from console.journal.records import RunEntry
from console.journal.requests import recorded

WIDE, HIGH, LEFT, TOP = 960, 360, 70, 30

GAP_S = 2.0
"""A longer pause between two moments is drawn as this long."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a recorded run."""

    time: float
    """Host's wall clock, seconds since the epoch."""
    power_w: tuple[float | None, ...]
    """By GPU."""
    output_tok_s: float | None
    running: float | None
    concurrency: int
    repeat: int

    @property
    def total_w(self) -> float | None:
        """All GPUs together; `None` when one of them is not known."""
        return None if not self.power_w or None in self.power_w else sum(one or 0.0 for one in self.power_w)


async def frames_of(entry: RunEntry) -> tuple[Frame, ...]:
    """Return the recorded moments of a run; none for runs measured before these were kept."""
    found: list[Frame] = []
    for one in await recorded(Journal(), entry.host, entry.id):
        found += _frames(one)
    return tuple(sorted(found, key=lambda frame: frame.time))


def _frames(one: dict[str, Any]) -> list[Frame]:
    """Return a frame for each sample of power; without any, one for each bin of the load's course."""
    course = one["course"] or {}
    wide, began = float(course.get("bin_s") or 0.0), float(one["started_at"])
    tokens, running = course.get("tokens") or (), course.get("running") or ()

    def at(time: float) -> tuple[float | None, float | None]:
        place = int((time - began) / wide) if wide and time >= began else -1
        return (tokens[place] / wide, running[place]) if 0 <= place < len(tokens) else (None, None)

    rows = one["power"] or [(began + place * wide, ()) for place in range(len(tokens))]
    return [Frame(time, tuple(watts), *at(time), one["concurrency"], one["repeat"]) for time, watts in rows]


async def replayed(frames: Sequence[Frame], speed: float) -> AsyncIterator[Frame]:
    """Yield frames with their own pauses between them, `speed` times as fast; a gap lasts a second at most."""
    last: Frame | None = None
    for frame in frames:
        if last is not None and speed > 0:
            await asyncio.sleep(min(1.0, max(0.0, frame.time - last.time) / speed))
        yield frame
        last = frame


def shown_times(frames: Sequence[Frame]) -> list[float]:
    """Return the seconds of each frame on the axis of a picture: pauses between measurements are cut short."""
    told = [0.0] if frames else []
    for earlier, later in itertools.pairwise(frames):
        told.append(told[-1] + min(GAP_S, max(0.0, later.time - earlier.time)))
    return told


def picture(entry: RunEntry, frames: Sequence[Frame]) -> str:
    """Return an SVG of power and output tok/s over time, with a mark and the concurrency for each measurement."""
    times = shown_times(frames)
    lasted = max(times[-1], 1.0)
    watts, speeds = [frame.total_w for frame in frames], [frame.output_tok_s for frame in frames]
    most_w = max((value for value in watts if value is not None), default=0.0)
    most_tok = max((value for value in speeds if value is not None), default=0.0)

    def x(time: float) -> float:
        return LEFT + time / lasted * (WIDE - 2 * LEFT)

    def line(values: Sequence[float | None], most: float, ink: str) -> str:
        pieces: list[list[str]] = [[]]
        for place, (time, value) in enumerate(zip(times, values, strict=True)):
            if value is None or (place and frames[place].time - frames[place - 1].time > GAP_S):
                pieces.append([])
            if value is not None and most:
                pieces[-1].append(f"{x(time):.1f},{TOP + (1 - value / most) * (HIGH - 2 * TOP):.1f}")
        style = f'fill="none" stroke="{ink}" stroke-width="1.5"'
        return "".join(f'<polyline {style} points="{" ".join(piece)}"/>' for piece in pieces if len(piece) > 1)

    marks, last = [], None
    for time, frame in zip(times, frames, strict=True):
        if (frame.concurrency, frame.repeat) != last:
            last = (frame.concurrency, frame.repeat)
            place = x(time)
            marks.append(
                f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{HIGH - TOP}" stroke="#999" stroke-dasharray="3"/>'
                f'<text x="{place + 3:.1f}" y="{TOP + 10}" fill="#666">{frame.concurrency}</text>'
            )
    badge = f" [{entry.badge}]" if entry.badge else ""
    title = escape(f"run {entry.id} on {entry.host}{badge} · {entry.profile}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" font-family="sans-serif" font-size="11">',
            f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>',
            f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
            *marks,
            line(watts, most_w, "#d9822b"),
            line(speeds, most_tok, "#2b6cb0"),
            f'<text x="4" y="{TOP + 4}" fill="#d9822b">{most_w:,.0f} W</text>' if most_w else "",
            f'<text x="{WIDE - LEFT + 4}" y="{TOP + 4}" fill="#2b6cb0">{most_tok:,.0f} tok/s</text>'
            if most_tok
            else "",
            f'<text x="{LEFT - 12}" y="{HIGH - TOP}" fill="#666">0</text>',
            f'<text x="{LEFT}" y="{HIGH - 8}" fill="#666">0 s</text>',
            f'<text x="{WIDE - LEFT - 30}" y="{HIGH - 8}" fill="#666">{lasted:,.0f} s</text>',
            "</svg>\n",
        ]
    )

"""Drawing without a screen: spans of text with the name of their ink, bars and histories."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from console.domain.text import dash

Span = tuple[str, str]
"""Text and the names of its inks, separated by spaces; an empty name is plain."""

MARKS = {"patch": "◆", "restart": "▲", "measurement": "▬"}

WINDOW_S = 60.0
"""Every history shows this much, so that they share one time axis."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)


def width_of(spans: Iterable[Span]) -> int:
    """Return how many cells a line of spans takes."""
    return sum(cell_len(text) for text, _ in spans)


def fit(text: str, width: int, *, left: bool = True) -> str:
    """Return text in exactly `width` cells, clipped with an ellipsis, padded on the other side."""
    if width <= 0:
        return ""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def ending(text: str, width: int) -> str:
    """Return the end of a text, a path's say, that fits in `width` cells, clipped before it with an ellipsis."""
    if cell_len(text) <= width:
        return text
    kept = text[-max(0, width - 1) :] if width > 1 else ""
    while cell_len(kept) > width - 1 and kept:
        kept = kept[1:]
    return f"…{kept}"


def wrapped(text: str, width: int, ink: str = "dim", indent: int = 2) -> list[list[Span]]:
    """Return text broken into lines that fit."""
    space = " " * indent
    return [[(space + line, ink)] for line in textwrap.wrap(text, max(10, width - indent - 1))]


def spread(left: Sequence[Span], right: Sequence[Span], width: int) -> list[Span]:
    """Return one line with spans at both ends; the right end gives way first."""
    space = width - width_of(left) - width_of(right)
    if space < 1:
        return list(left)
    return [*left, (" " * space, ""), *right]


def bar(fraction: float | None, width: int, ink: str = "bar") -> list[Span]:
    """Return a bar in eighths of a cell on a visible track; unknown is an empty track."""
    if width <= 0:
        return []
    if fraction is None or fraction != fraction:
        return [("╌" * width, "track")]
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    full, part = divmod(eighths, 8)
    spans: list[Span] = [("█" * full, ink)] if full else []
    if part:
        spans.append((_EIGHTHS[part], f"{ink} ontrack"))
    rest = width - full - (1 if part else 0)
    if rest:
        spans.append(("░" * rest, "track"))
    return spans


def columns(
    history: Sequence[tuple[float, float | None]], now: float, count: int, window_s: float = WINDOW_S
) -> list[float | None]:
    """Return the mean of a history in each of `count` equal slices of the window that ends now."""
    sums, hits = [0.0] * count, [0] * count
    for time, value in history:
        place = math.floor((time - (now - window_s)) / window_s * count - 1e-9)
        if value is not None and 0 <= place < count:
            sums[place] += value
            hits[place] += 1
    means = [total / number if number else None for total, number in zip(sums, hits, strict=True)]
    step = window_s / count
    if step < 1.0:  # samples come once a second: a finer slice between two of them takes the one before
        reach = math.ceil(1.5 / step)
        known = -reach - 1
        for i, value in enumerate(means):
            if value is not None:
                known = i
            elif i - known <= reach:
                means[i] = means[known]
    return means


def braille(values: Sequence[float | None], top: float, height: int = 1) -> list[str]:
    """Return `height` rows of braille, two values a cell, filled from the bottom; unknown leaves a gap."""
    rows = []
    dots = [None if v is None or top <= 0 else max(1, round(min(1.0, v / top) * height * 4)) for v in values]
    for row in range(height):
        base = (height - 1 - row) * 4
        cells = []
        for i in range(0, len(dots), 2):
            code = 0
            for dot, bits in zip((dots[i], dots[i + 1] if i + 1 < len(dots) else None), (_LEFT, _RIGHT), strict=True):
                if dot is not None:
                    for bit in bits[: max(0, min(4, dot - base))]:
                        code |= bit
            cells.append(chr(0x2800 + code) if code else " ")
        rows.append("".join(cells))
    return rows


def marked(text: str, marks: Iterable[tuple[float, str]], now: float, ink: str) -> list[Span]:
    """Return a history row with marks laid over it at their time."""
    width = len(text)
    places: dict[int, str] = {}
    for time, kind in marks:
        place = math.floor((time - (now - WINDOW_S)) / WINDOW_S * width)
        if 0 <= place < width:
            places[place] = MARKS.get(kind, "◆")
    spans: list[Span] = []
    last = 0
    for place in sorted(places):
        spans += [(text[last:place], ink), (places[place], "mark")]
        last = place + 1
    spans.append((text[last:], ink))
    return [span for span in spans if span[0]]


def age(seconds: float | None) -> str:
    """Return how long something has lasted, in the largest unit that says enough."""
    if seconds is None:
        return "—"
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} days"


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds."""
    whole = int(max(0.0, seconds))
    return f"{whole // 60}:{whole % 60:02}"


def per(value: float | None, unit: str, digits: int = 0) -> str:
    """Return a number with its unit, or a dash."""
    return f"{dash(value, digits)} {unit}"


def nice(least: float) -> float:
    """Return a round step for an axis, not above the one asked for."""
    least = max(least, 1e-6)
    size = 10.0 ** math.floor(math.log10(least))
    return max(size * part for part in (1, 2, 2.5, 5) if size * part <= least)

"""Spans of one line of code: inks joined, rows cut out, blanks made visible."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.text import clean
from console.ui.drawing import Span


def inked(text: str, inks: Sequence[str]) -> list[Span]:
    """Return text as spans, neighbours of one ink joined."""
    spans: list[Span] = []
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or inks[place] != inks[start]:
            spans.append((text[start:place], inks[start]))
            start = place
    return spans


def sliced(spans: Sequence[Span], start: int, length: int) -> list[Span]:
    """Return the part of a line from one character on."""
    found: list[Span] = []
    at = 0
    for text, ink in spans:
        part = text[max(0, start - at) : max(0, start + length - at)]
        if part:
            found.append((part, ink))
        at += len(text)
    return found


def with_space_marks(raw: bytes, spans: Sequence[Span]) -> list[Span]:
    """Return spans with tabs as arrows, and leading and trailing blanks as dots."""
    text = "".join(part for part, _ in spans)
    inks = [ink for part, ink in spans for _ in part]
    signs = list(text)
    at = raw.find(b"\t")
    while at >= 0:
        first, last = len(clean(raw[:at])), len(clean(raw[: at + 1]))
        if last > len(signs):
            break
        signs[first:last] = ["→", *" " * (last - first - 1)]
        inks[first:last] = ["dim"] * (last - first)
        at = raw.find(b"\t", at + 1)
    lead = len(text) - len(text.lstrip(" "))
    tail = len(text.rstrip(" "))
    for place in [*range(lead), *range(max(lead, tail), len(text))]:
        if signs[place] == " " and inks[place] != "dim":
            signs[place], inks[place] = "·", "dim"
    return inked("".join(signs), inks)

"""What the log viewer says of a record that is not drawn whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from console.domain.text import SafeText, clean
from console.ui.drawing import Span, fit

SHOWN = 2000
"""Characters of a line that are drawn; enter opens the rest."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
"""Colours of the log's own say nothing here; any other sequence is shown as signs."""


def safe(text: str) -> SafeText:
    """Return one line of a log as it may be drawn."""
    return clean(_COLOUR.sub("", text), SHOWN * 4)


def amount(size: int) -> str:
    """Return how much of a line is not drawn."""
    if size < 10 << 10:
        return f"(+{size:,} B)"
    return f"(+{size / (1 << 10):,.0f} kB)" if size < 1 << 20 else f"(+{size / (1 << 20):,.1f} MB)"


def cut(spans: Sequence[Span], width: int) -> list[Span]:
    """Return spans in at most so many cells, with an ellipsis where something is missing."""
    kept: list[Span] = []
    for text, ink in spans:
        size = cell_len(text)
        if size >= width:
            return [*kept, (fit(text, width), ink)]
        kept.append((text, ink))
        width -= size
    return kept


def last_words(lines: Sequence[str]) -> str:
    """Return the last line that says something: of a traceback, what was thrown."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def ranks_of(source: Mapping[str, object]) -> str:
    """Return the ranks of a record that several printed: `TP 0-7`; empty when one did."""
    ranks = source.get("ranks")
    if not isinstance(ranks, Mapping) or not any(isinstance(numbers, list) for numbers in ranks.values()):
        return ""
    told = []
    for name, numbers in ranks.items():
        many = [int(number) for number in (numbers if isinstance(numbers, list) else [numbers])]
        whole = len(many) > 2 and many == list(range(many[0], many[0] + len(many)))
        told.append(f"{name} {many[0]}-{many[-1]}" if whole else f"{name} {','.join(map(str, many))}")
    return " ".join(told)

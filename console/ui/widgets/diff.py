"""Unified diff: signs carry the meaning, colours repeat it, changed words stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from console.domain.text import SafeText, clean
from console.ui.drawing import Span
from console.ui.widgets.lines import Lines


def counts(lines: Sequence[str]) -> tuple[int, int]:
    """Return how many lines a diff adds and removes."""
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return added, removed


class DiffView(Lines):
    """One diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "hunk(-1)", show=False),
        Binding("right_square_bracket", "hunk(1)", show=False),
    ]

    def __init__(self, id: str, nothing: str = "no difference") -> None:
        super().__init__(id=id)
        self.text: tuple[SafeText, ...] = ()
        self.nothing = nothing
        self._other: dict[int, int] = {}

    def show(self, text: tuple[SafeText, ...], nothing: str = "") -> None:
        """Show a diff; `nothing` is said when it is empty."""
        again = text == self.text
        self.text, self.nothing = text, nothing or self.nothing
        self._other = _pairs(text)
        self.changed(keep=again)

    def count(self) -> int:
        """Return how many lines there are."""
        return len(self.text)

    def widest(self) -> int:
        """Return the width of the longest line."""
        return max(map(len, self.text), default=0) + 1

    def under(self, index: int) -> str:
        """Return the colour below a whole line."""
        text = self.text[index]
        sign = "added" if text.startswith("+") and not text.startswith("+++ ") else ""
        sign = "removed" if text.startswith("-") and not text.startswith("--- ") else sign
        return f"{super().under(index)} {sign}".strip()

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one line; in a changed one, the part that differs is marked."""
        text = self.text[index]
        if text.startswith("@@"):
            return [(" " + text, "hunk")]
        if text.startswith(("+++ ", "--- ", "diff ", "index ", "\\")):
            return [(" " + text, "dim")]
        other = self._other.get(index)
        if other is None:
            return [(" " + text, "")]
        first, last = _differing(text, self.text[other])
        return [(" " + text[:first], ""), (text[first:last], "word"), (text[last:], "")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that there is no difference."""
        return [[(f" {line}", "dim")] for line in clean(self.nothing).split("␊")]

    def action_hunk(self, way: int) -> None:
        """Go to the next or previous hunk."""
        starts = [i for i, text in enumerate(self.text) if text.startswith("@@")]
        after = [i for i in starts if i > self.cursor] if way > 0 else [i for i in reversed(starts) if i < self.cursor]
        if after:
            self.place(after[0], at=0.1)


def _pairs(text: Sequence[str]) -> dict[int, int]:
    """Pair lines of equally long runs of removed and added lines."""
    pairs: dict[int, int] = {}
    place = 0
    while place < len(text):
        start = place
        while place < len(text) and text[place].startswith("-") and not text[place].startswith("--- "):
            place += 1
        removed = place - start
        middle = place
        while place < len(text) and text[place].startswith("+") and not text[place].startswith("+++ "):
            place += 1
        if removed and removed == place - middle:
            for offset in range(removed):
                pairs[start + offset], pairs[middle + offset] = middle + offset, start + offset
        place = max(place, start + 1)
    return pairs


def _differing(text: str, other: str) -> tuple[int, int]:
    """Return where a line differs from its pair, signs left out."""
    first = 1
    while first < min(len(text), len(other)) and text[first] == other[first]:
        first += 1
    tail = 0
    while tail < min(len(text), len(other)) - first and text[-1 - tail] == other[-1 - tail]:
        tail += 1
    return first, len(text) - tail

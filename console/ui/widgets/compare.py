"""Compare view: unified or side by side, changed words marked, hunks to walk through and to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual.binding import Binding, BindingType

from console.domain.comparison import Comparison, DiffRow
from console.domain.comparison import Span as Part
from console.domain.text import clean
from console.ui.drawing import Span
from console.ui.widgets.lines import Lines

CONTEXTS = (0, 1, 3, 8, 20, 100_000)
SIDE_LEAST = 100
"""Columns from which two sides have room; below, the unified view is shown."""


class CompareView(Lines):
    """One comparison."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "hunk(-1)", show=False),
        Binding("right_square_bracket", "hunk(1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="compare")
        self.comparison: Comparison | None = None
        self.beside = False
        self.ignore_space = False
        self.context = 3
        self.rows: tuple[DiffRow, ...] = ()
        self._words: dict[int, tuple[tuple[Part, ...], tuple[Part, ...]]] = {}

    def show(self, comparison: Comparison) -> None:
        """Show what differs."""
        self.comparison = comparison
        self.build(keep=False)

    def build(self, *, keep: bool = True) -> None:
        """Make the rows again, after what is shown or how has changed."""
        from console.operations import comparing

        if self.comparison is None:
            return
        here = self.rows[self.cursor] if keep and self.cursor < len(self.rows) else None
        paired = comparing.rows(self.comparison, context=self.context, ignore_space=self.ignore_space)
        self.rows = paired if self.beside else comparing.flat(paired)
        self._words = {}
        self.changed(keep=keep)
        if here is not None:
            same = [at for at, row in enumerate(self.rows) if row.file == here.file and _before(row, here)]
            if same:
                self.place(same[-1])

    def widen(self, way: int) -> None:
        """Show more or less of what is around the changes."""
        at = min(range(len(CONTEXTS)), key=lambda number: abs(CONTEXTS[number] - self.context))
        self.context = CONTEXTS[max(0, min(len(CONTEXTS) - 1, at + way))]
        self.build()

    @property
    def here(self) -> DiffRow | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def widest(self) -> int:
        """Return the width of the longest line; two sides do not scroll."""
        if self.two_sides:
            return 0
        return max((max(len(row.before), len(row.after)) for row in self.rows), default=0) + 14

    @property
    def two_sides(self) -> bool:
        """Whether both sides are shown: they are wanted, and there is room."""
        return self.beside and self.size.width >= SIDE_LEAST

    def under(self, index: int) -> str:
        """Return the colour below a whole line of the unified view."""
        kind = self.rows[index].kind
        ink = kind if kind in ("added", "removed") and not self.two_sides else ""
        return f"{super().under(index)} {ink}".strip()

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row."""
        row = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if row.kind == "file":
            return [mark, (row.before, "function strong"), (f"  {row.after}", "dim")]
        if row.kind == "hunk":
            return [mark, (row.before, "hunk")]
        if row.kind == "note":
            return [mark, (f"  {row.before}", "warn")]
        if self.two_sides:
            return [mark, *self._sides(index, row, width - 1)]
        left = row.left if row.kind != "added" else 0
        right = row.right if row.kind != "removed" else 0
        numbers = f"{left or '':>5} {right or '':>5} "
        sign = {"removed": "-", "added": "+", "changed": "~"}.get(row.kind, " ")
        after = row.kind == "added"
        text = row.after if after else row.before
        return [mark, (numbers, "number"), (f"{sign} ", "strong"), *_marked(text, self._parts(index, after))]

    def _sides(self, index: int, row: DiffRow, width: int) -> list[Span]:
        half = (width - 1) // 2
        left = self._side(
            row.left, row.before, row.kind in ("changed", "removed"), "removed", self._parts(index, False)
        )
        right = self._side(row.right, row.after, row.kind in ("changed", "added"), "added", self._parts(index, True))
        sign = {"removed": "<", "added": ">", "changed": "┃"}.get(row.kind, "│")
        return [*_fitted(left, half), (sign, "dim"), *_fitted(right, width - half - 1)]

    def _side(self, number: int, text: str, changed: bool, ink: str, parts: Sequence[Part]) -> list[Span]:
        if not number:
            return []
        under = ink if changed else ""
        spans: list[Span] = [(f"{number:>5} ", f"number {under}".strip())]
        return spans + [(part, f"{under} {name}".strip()) for part, name in _marked(text, parts)]

    def _parts(self, index: int, after: bool) -> tuple[Part, ...]:
        """Return which parts of a changed line differ from its partner."""
        found = self._words.get(index)
        if found is None:
            from console.operations import comparing

            pair = self._pair(index)
            found = comparing.words(*pair) if pair else ((), ())
            if len(self._words) > 2000:
                self._words.clear()
            self._words[index] = found
        return found[1 if after else 0]

    def _pair(self, index: int) -> tuple[str, str] | None:
        row = self.rows[index]
        if self.beside:
            return (row.before, row.after) if row.kind == "changed" else None
        if row.kind not in ("added", "removed"):
            return None
        start = index
        while start > 0 and self.rows[start - 1].kind in ("added", "removed"):
            start -= 1
        middle = start
        while middle < len(self.rows) and self.rows[middle].kind == "removed":
            middle += 1
        offset = index - (start if row.kind == "removed" else middle)
        one, other = start + offset, middle + offset
        if one >= middle or other >= len(self.rows) or self.rows[other].kind != "added":
            return None
        return self.rows[one].before, self.rows[other].after

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that there is no difference."""
        if self.comparison is None:
            return [[("  nothing is compared yet", "dim")]]
        said = clean(f"  no difference between {self.comparison.left} and {self.comparison.right}")
        return [[(said, "dim")], *([(clean(f"  {note}"), "dim")] for note in self.comparison.notes)]

    def action_hunk(self, way: int) -> None:
        """Go to the next or previous hunk."""
        starts = [at for at, row in enumerate(self.rows) if row.kind in ("hunk", "note")]
        after = (
            [at for at in starts if at > self.cursor] if way > 0 else [at for at in starts[::-1] if at < self.cursor]
        )
        if after:
            self.place(after[0], at=0.1)


def _before(row: DiffRow, here: DiffRow) -> bool:
    if here.right and row.right:
        return row.right <= here.right
    return bool(here.left and row.left and row.left <= here.left) or (not here.left and row.hunk <= here.hunk)


def _marked(text: str, parts: Sequence[Part]) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for first, last in parts:
        spans += [(text[at:first], ""), (text[first:last], "word")]
        at = last
    return [*spans, (text[at:], "")]


def _fitted(spans: Sequence[Span], width: int) -> list[Span]:
    """Return spans in exactly so many cells."""
    found: list[Span] = []
    room = width
    for text, ink in spans:
        wide = cell_len(text)
        if wide > room:
            found.append((set_cell_size(text, max(0, room - 1)) + ("…" if room else ""), ink))
            return found
        found.append((text, ink))
        room -= wide
    return [*found, (" " * room, found[-1][1] if found else "")]

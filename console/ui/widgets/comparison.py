"""Comparison of two runs: what each reached, what was asked for otherwise (to be marked), and what else is not alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from console.domain.text import clean, dash
from console.ui.drawing import Span, fit, wrapped
from console.ui.widgets.frame import Framed
from console.ui.widgets.marking import Marking

if TYPE_CHECKING:
    from console.operations.compare import Comparison, Rung
    from console.operations.experiments_new import Change

Row = list[Span]


class ComparisonLines(Marking, Framed):
    """Two runs side by side."""

    def __init__(self) -> None:
        super().__init__(id="comparison")
        self.found: Comparison | None = None
        self._rows: tuple[int, list[tuple[Row, Change | None]]] = (0, [])

    def fill(self, found: Comparison, changes: Sequence[Change]) -> None:
        """Show a comparison, nothing marked."""
        self.found, self.changes, self.marked = found, tuple(changes), set()
        a, b = found.a, found.b
        title = f"A {clean(a.id)} {clean(a.profile)}  B {clean(b.id)} {clean(b.profile)}"
        self.entitle("c", title, "v plots · esc closes")
        self._rows = (0, [])
        self.changed(keep=False)
        first = next((at for at, (_, change) in enumerate(self.rows) if change is not None), 0)
        self.cursor = first

    def on_resize(self) -> None:
        """Lay the rows out anew."""
        super().on_resize()
        self._rows = (0, [])
        self.changed()

    @property
    def rows(self) -> list[tuple[Row, Change | None]]:
        """The lines at this width, with the change that a line is about."""
        width = max(40, self.scrollable_content_region.width or self.size.width - 2)
        if self._rows[0] != width and self.found is not None:
            self._rows = (width, list(_rows(self.found, self.changes, width)))
        return self._rows[1]

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row, with its mark when it can have one."""
        row, change = self.rows[index]
        lead: Span = ("▌" if index == self.cursor else " ", "accent")
        return [lead, *row] if change is None else [lead, self.box(change), *row]

    def change_at(self, index: int) -> Change | None:
        """Return the change that a row is about."""
        return self.rows[index][1]

    def tell_barred(self, change: Change) -> None:
        """Say why a change cannot be marked: its row has no room for a long reason."""
        self.app.notify(clean(f"{change.key}: {change.barred}"), markup=False)


def _rows(found: Comparison, changes: Sequence[Change], width: int) -> Iterator[tuple[Row, Change | None]]:
    from console.operations.run_words import side

    if found.refused:
        for row in wrapped(clean(f"✗ not compared: {found.refused}"), width, "bad", 1):
            yield row, None
        yield [(" numbers of unlike runs say nothing about what changed: measure both alike", "dim")], None
    else:
        yield [(HEAD, "dim")], None
        for rung in found.rungs:
            for line in _measured(rung):
                yield line, None
        if found.note:
            for row in wrapped(clean(f"! {found.note}"), width, "warn", 1):
                yield row, None
    yield [], None
    size = max(14, min(34, width // 3))
    if changes:
        yield [(" asked for otherwise", "strong"), ("  space marks, a all, enter makes an experiment", "dim")], None
        for change in changes:
            sides: tuple[object, object] = (change.before, change.after)
            if change.key.startswith("patch "):
                sides = ("on" if change.before else "off", "on" if change.after else "off")
            yield _pair(change.key, *sides, size, width - 5, change.barred), change
        yield [], None
    covered = ("argument ", "environment ", "patches_on")
    rest = [one for one in found.differences if not one.what.startswith(covered)]
    word = "also not the same: in force, installed, machine" if rest else "the same in force, versions and GPUs"
    yield [(f" {word}", "dim")], None
    for each in rest:
        a, b = side(found.a, each.what, each.a), side(found.b, each.what, each.b)
        yield [(" ", ""), *_pair(each.what, a, b, size, width - 2)], None


HEAD = f" {'conc.':>7}  {'':<12}  {'A':>9}  {'B':>9}  B to A, 95 % interval"


def _measured(rung: Rung) -> Iterator[Row]:
    """Yield a row a metric; the concurrency stands before the first."""
    for number, row in enumerate(rung.rows):
        said, told = "—" if row.change_pct is None else f"{row.change_pct:+.1f} %", row.interval
        if told is not None:
            said += f" [{told.low_pct:+.1f}, {told.high_pct:+.1f}]" + (" noise?" if row.better is None else "")
        ink = {True: "good", False: "bad", None: "dim"}[row.better]
        first = not number
        yield [
            (f" {f'{rung.concurrency:,}' if first else '':>7}  {row.what:<12}", "strong" if first else ""),
            (f"  {dash(row.a, row.digits):>9}  {dash(row.b, row.digits):>9}  ", "strong" if first else ""),
            (said, ink),
            (f"  {clean(rung.note)}" if rung.note and first else "", "warn"),
        ]


def _pair(what: str, a: object, b: object, size: int, width: int, note: str = "") -> Row:
    half = max(8, (width - size - 4) // 2)
    left, right = (fit(clean(_short(value)), half) for value in (a, b))
    row: Row = [(f"{fit(clean(what), size)}  ", ""), (left, "removed"), ("  ", ""), (right.rstrip(), "added")]
    return [*row, (f"  {clean(note)}", "dim")] if note else row


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as profiles say it
    return "—" if value is None else ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

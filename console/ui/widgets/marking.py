"""Marking: a list of differences of which some are picked with space; what no arm can be made of is barred."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from console.ui.drawing import Span
from console.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from console.operations.experiments_new import Change


class Marking(Lines):
    """Differences with a box before each that an arm can be made of."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", show=False),
        Binding("a", "mark_all", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.changes: tuple[Change, ...] = ()
        self.marked: set[str] = set()
        """Keys of the changes that an experiment will be made of."""

    def change_at(self, index: int) -> Change | None:
        """Return the change that a line is about."""
        raise NotImplementedError

    def tell_barred(self, change: Change) -> None:
        """Say why a change cannot be marked, where its line does not."""

    def box(self, change: Change) -> Span:
        """Return what stands before a change."""
        if change.barred:
            return " –  ", "dim"
        return "[x] " if change.key in self.marked else "[ ] ", "accent strong"

    def action_mark(self) -> None:
        """Mark the change under the cursor, or take its mark back."""
        change = self.change_at(self.cursor) if self.count() else None
        if change is None:
            return
        if change.barred:
            self.tell_barred(change)
            return
        self.marked ^= {change.key}
        self.action_move(1)
        self.refresh()

    def action_mark_all(self) -> None:
        """Mark every change that an arm can be made of, or none."""
        able = {one.key for one in self.changes if not one.barred}
        self.marked = set() if self.marked >= able else able
        self.refresh()

    @property
    def picked(self) -> tuple[Change, ...]:
        """The marked changes, in their order."""
        return tuple(one for one in self.changes if one.key in self.marked)

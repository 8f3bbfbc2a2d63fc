"""Mark: some of many differences, picked with space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from console.domain.text import clean
from console.ui.drawing import Span, fit
from console.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from console.operations.experiments_new import Change


class ChangeLines(Lines):
    """Differences with a box before each that an arm can be made of."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", show=False),
        Binding("a", "mark_all", show=False),
    ]

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__(id="change-lines")
        self.changes = tuple(changes)
        self.marked: set[str] = set()

    def count(self) -> int:
        """Return how many there are."""
        return len(self.changes)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one difference."""
        one = self.changes[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if one.barred:
            return [mark, (" –  ", "dim"), (clean(one.words), "dim"), (f"  {clean(one.barred)}", "dim")]
        box = "[x] " if one.key in self.marked else "[ ] "
        words = clean(one.words)
        before = "" if one.before in (None, True) else f"  now {clean(str(one.before))}"
        return [mark, (box, "accent strong"), (fit(words, min(len(words), width - 8)), "strong"), (before, "dim")]

    def action_mark(self) -> None:
        """Mark what is under the cursor, or take its mark back."""
        if self.changes and not self.changes[self.cursor].barred:
            self.marked ^= {self.changes[self.cursor].key}
            self.action_move(1)
            self.refresh()

    def action_mark_all(self) -> None:
        """Mark every one, or none."""
        able = {one.key for one in self.changes if not one.barred}
        self.marked = set() if self.marked >= able else able
        self.refresh()


class MarkModal(ModalScreen["tuple[Change, ...] | None"]):
    """Answers with the marked differences."""

    CSS = "#change-lines { height: 1fr; background: $panel; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", show=False)]

    def __init__(self, title: str, changes: Sequence[Change]) -> None:
        super().__init__()
        self._title, self._changes = clean(title), changes

    def compose(self) -> ComposeResult:
        """Put the list into a box."""
        with Vertical(classes="sheet text-sheet") as box:
            box.border_title = Content(self._title)
            box.border_subtitle = Content("space marks · a all · enter makes an experiment · esc leaves")
            yield ChangeLines(self._changes)

    def on_mount(self) -> None:
        """Let the keys mark."""
        self.query_one(ChangeLines).focus()

    def on_lines_chosen(self) -> None:
        """Answer."""
        lines = self.query_one(ChangeLines)
        self.dismiss(tuple(one for one in lines.changes if one.key in lines.marked))

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

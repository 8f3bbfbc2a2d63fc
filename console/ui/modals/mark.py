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
from console.ui.widgets.marking import Marking

if TYPE_CHECKING:
    from console.operations.experiments_new import Change


class ChangeLines(Marking):
    """Differences, one a line."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__(id="change-lines")
        self.changes = tuple(changes)

    def count(self) -> int:
        """Return how many there are."""
        return len(self.changes)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one difference."""
        one = self.changes[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if one.barred:
            return [mark, self.box(one), (clean(one.words), "dim"), (f"  {clean(one.barred)}", "dim")]
        words = clean(one.words)
        before = "" if one.before in (None, True) else f"  now {clean(str(one.before))}"
        return [mark, self.box(one), (fit(words, min(len(words), width - 8)), "strong"), (before, "dim")]

    def change_at(self, index: int) -> Change | None:
        """Return the change of a line."""
        return self.changes[index]


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
        self.dismiss(self.query_one(ChangeLines).picked)

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

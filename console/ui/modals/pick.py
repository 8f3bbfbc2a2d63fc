"""Pick: one of many by typing some of its letters; the best match is under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from console.domain.text import SafeText, clean
from console.ui.drawing import Span, fit
from console.ui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to pick."""

    answer: str
    title: SafeText
    right: SafeText = SafeText("")
    depth: int = 0


def score(wanted: str, text: str) -> tuple[int, int, int] | None:
    """Return how well letters match a text, smaller is better; `None` when they are not all there in order.

    Whole parts come first, then beginnings, then letters close together.
    """
    low, text = wanted.lower(), text.lower()
    if not low:
        return 0, 0, 0
    at = text.find(low)
    if at >= 0:
        begins = at == 0 or not text[at - 1].isalnum()
        return (0 if begins else 1), at, len(text)
    place, gaps, last = -1, 0, -1
    for letter in low:
        place = text.find(letter, place + 1)
        if place < 0:
            return None
        gaps += place - last - 1 if last >= 0 else 0
        last = place
    return 2, gaps, len(text)


def matching(items: Sequence[Item], wanted: str) -> list[Item]:
    """Return the items that match, best first; all in their order for nothing typed."""
    if not wanted:
        return list(items)
    found = []
    for number, item in enumerate(items):
        rank = score(wanted, item.title)
        if rank is not None:
            found.append((rank, number, item))
    return [item for _, _, item in sorted(found, key=lambda one: one[:2])]


class PickList(Lines):
    """What matches now."""

    def __init__(self) -> None:
        super().__init__(id="pick-list")
        self.can_focus = False
        self.rows: list[Item] = []
        self.flat = False

    def under(self, index: int) -> str:
        """Show the choice although the line of text has the focus."""
        return "cursor" if index == self.cursor else ""

    def count(self) -> int:
        """Return how many match."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one item."""
        item = self.rows[index]
        indent = "" if self.flat else "  " * item.depth
        room = max(10, width - len(item.right) - 3)
        return [(" " + fit(indent + item.title, room), ""), (f" {item.right} ", "dim")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that nothing matches."""
        return [[("  nothing matches; enter takes what is typed", "dim")]]


class PickModal(ModalScreen[str | None]):
    """Answers with an item, or with `typed TEXT` where free text is allowed and nothing matches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
    ]

    def __init__(self, hint: str, items: Sequence[Item], *, at: int = 0, free: bool = False) -> None:
        super().__init__()
        self._hint, self._items, self._at, self._free = clean(hint), list(items), at, free

    def compose(self) -> ComposeResult:
        """Put the line above the list."""
        with Vertical(classes="palette"):
            line = Input(placeholder=self._hint, compact=True)
            line.cursor_blink = False
            yield line
            yield PickList()

    def on_mount(self) -> None:
        """Offer everything, the present one under the cursor."""
        self._offer("")
        self.call_after_refresh(self.query_one(PickList).place, self._at)

    def _offer(self, text: str) -> None:
        rows = self.query_one(PickList)
        rows.rows, rows.flat = matching(self._items, text.strip()), bool(text.strip())
        rows.changed(keep=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Offer what matches."""
        self._offer(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the item under the cursor."""
        rows = self.query_one(PickList)
        typed = event.value.strip()
        free = f"typed {typed}" if self._free and typed else None
        self.dismiss(rows.rows[rows.cursor].answer if rows.rows else free)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Answer with the item that was clicked."""
        self.dismiss(self.query_one(PickList).rows[event.index].answer)

    def action_move(self, by: int) -> None:
        """Move through the items."""
        self.query_one(PickList).action_move(by)

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

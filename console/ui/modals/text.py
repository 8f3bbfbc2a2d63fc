"""Text: one record of a log, whole and wrapped, as long as it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from console.domain.text import clean
from console.ui.clipboard import copy
from console.ui.drawing import Span
from console.ui.widgets.lines import Lines
from console.ui.worker import owner


class TextLines(Lines):
    """Long lines cut at the window's width, drawn only where they are looked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._lines = text.split("\n")
        self._cuts: list[tuple[int, int]] = []
        self._width = 0

    def on_resize(self) -> None:
        """Cut the lines for the new width."""
        width = max(20, self.size.width - 2)  # the scroll bar is not there yet
        if width != self._width:
            self._width = width
            self._cuts = [
                (number, start)
                for number, line in enumerate(self._lines)
                for start in range(0, max(1, len(line)), width)
            ]
            self.changed()

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._cuts)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row."""
        number, start = self._cuts[index]
        return [(clean(self._lines[number][start : start + self._width]), "")]


class Reading(ModalScreen[None]):
    """Lines to read; they scroll where they are longer than the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "close", show=False)]

    def __init__(self, title: str, foot: str, rows: Lines) -> None:
        super().__init__()
        self._title, self._foot, self._rows = clean(title), foot, rows

    def compose(self) -> ComposeResult:
        """Put the lines into a box that is as big as the screen."""
        with Vertical(classes="sheet text-sheet") as box:
            box.border_title = Content(self._title)
            box.border_subtitle = Content(self._foot)
            yield self._rows

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self._rows.focus()

    def on_lines_chosen(self) -> None:
        """Close on enter."""
        self.dismiss(None)

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)


class TextModal(Reading):
    """A record to read; `y` sends it to the clipboard."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "copy", show=False)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title, f"{len(text):,} characters · y copies · esc closes", TextLines(text))
        self._text = text

    def action_copy(self) -> None:
        """Send the text to the terminal's clipboard."""
        copy(owner(self), self._text, "record")

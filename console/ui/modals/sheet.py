"""Sheet: the base of questions, a bordered box of safe text in the middle of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

Answer = TypeVar("Answer")

Part = tuple[str, str]
"""Text, already safe, and a Textual style."""


class Sheet(ModalScreen[Answer]):
    """A question; escape means no."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", show=False)]

    def __init__(self, title: str, body: Sequence[Sequence[Part]], foot: Sequence[Part]) -> None:
        super().__init__()
        self._title, self._body, self._foot = title, body, foot

    def compose(self) -> ComposeResult:
        """Put title, body and keys into the box."""
        with Vertical(classes="sheet") as box:
            box.border_title = Content(self._title)
            for line in self._body:
                yield Static(Content.assemble(*line) if line else Content(" "), classes="sheet-line")
            yield from self.extra()
            yield Static(Content.assemble(*self._foot), classes="sheet-foot")

    def extra(self) -> ComposeResult:
        """Add what else the question needs."""
        yield from ()

    def action_refuse(self) -> None:
        """Answer no."""
        self.dismiss(None)


def keys(*pairs: tuple[str, str]) -> list[Part]:
    """Return a line of keys and what they do."""
    parts: list[Part] = []
    for key, word in pairs:
        parts += [(f" {key} ", "bold $accent"), (f"{word}   ", "$muted")]
    return parts

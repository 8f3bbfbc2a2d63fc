"""Prompt: one line of text, at the foot of the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from console.domain.text import clean


class PromptModal(ModalScreen[str | None]):
    """Ask for a line; escape answers nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", show=False)]

    def __init__(self, label: str, value: str = "", hint: str = "", *, secret: bool = False) -> None:
        super().__init__()
        self._label, self._value, self._hint, self._secret = clean(label), value, clean(hint), secret

    def compose(self) -> ComposeResult:
        """Put label and line side by side."""
        with Horizontal(classes="prompt"):
            yield Static(Content.assemble((self._label, "bold $accent")), classes="prompt-label")
            line = Input(self._value, placeholder=self._hint, password=self._secret, compact=True)
            line.cursor_blink = False
            yield line

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the line."""
        self.dismiss(event.value)

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

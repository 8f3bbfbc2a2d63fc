"""Help: every key and what it does, from the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from console.operations.catalogue import MOVING, VERBS, shown_key
from console.ui.drawing import Span, fit
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines


class HelpLines(Lines, Framed):
    """The keys, by subject."""

    def __init__(self) -> None:
        super().__init__(id="help")
        self.rows: list[list[Span]] = []
        for group in dict.fromkeys(verb.group for verb in VERBS):
            self.rows += [[], [(f"  {group}", "accent strong")]]
            for verb in (verb for verb in VERBS if verb.group == group):
                key = " ".join(map(shown_key, verb.keys))
                shell = f"tokwatt {verb.cli[0]}" if verb.cli else ""
                self.rows.append([(f"  {key:>9}  ", "strong"), (fit(verb.help, 64), ""), (f"  {shell}", "dim")])
        self.rows += [[], [("  Moving", "accent strong")]]
        self.rows += [[(f"  {key:>14}  ", "strong"), (help, "")] for key, help in MOVING]
        self.rows += [
            [],
            [
                ("  Marks on histories: ", "dim"),
                ("◆", "mark"),
                (" patch  ", "dim"),
                ("▲", "mark"),
                (" restart  ", "dim"),
                ("▬", "mark"),
                (" measurement", "dim"),
            ],
        ]
        self.entitle("?", "Help", "esc closes")

    def on_mount(self) -> None:
        """Lay the lines out."""
        self.changed()

    def count(self) -> int:
        """Return how many lines there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one line."""
        return self.rows[index]


class HelpScreen(ModalScreen[None]):
    """All keys."""

    CSS = "HelpScreen { align: center middle; background: $background 60%; } #help { width: 110; max-width: 100%; height: 90%; background: $surface; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        """Show the lines."""
        yield HelpLines()

"""Keys: the footer with the keys of the focused pane, and the tabs of a small terminal."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from console.operations.catalogue import VERBS, shown_key
from console.ui.drawing import Span, width_of
from console.ui.widgets.inks import Painting

TABS = (
    ("source", "1 Source"),
    ("patches", "2 Patches"),
    ("log-pane", "3 Log"),
    ("gpus", "4 GPUs"),
    ("throughput", "5 Throughput"),
)

PANES = {"source": "source", "patches": "patches", "log-pane": "log"}
"""Pane ids and their names in the catalogue."""


class Keys(Painting):
    """The last line."""

    def __init__(self) -> None:
        super().__init__(id="keys")
        self.pane = ""

    def show(self, pane: str) -> None:
        """Show the keys of a pane."""
        if pane != self.pane:
            self.pane = pane
            self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the keys of the pane, then those of everywhere."""
        own = [verb for verb in VERBS if verb.footer and self.pane and verb.where == self.pane]
        common = [verb for verb in VERBS if verb.footer and not verb.where]
        spans: list[Span] = [(" ", "")]
        last = next((verb for verb in common if verb.id == "show_help"), None)
        for verb in [*own, *(v for v in common if v is not last)]:
            piece: list[Span] = [(shown_key(verb.keys[0]), "accent strong"), (f" {verb.footer}  ", "dim")]
            if width_of(spans) + width_of(piece) + 8 <= width:
                spans += piece
        return [[*spans, ("?", "accent strong"), (" help", "dim")]]


class Tabs(Painting):
    """Names of the panes, where only one has room."""

    class Picked(Message):
        """A name was clicked."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self) -> None:
        super().__init__(id="tabs")
        self.shown = "source"

    def show(self, pane: str) -> None:
        """Mark the pane that is shown."""
        self.shown = pane
        self.repaint()

    def _pieces(self) -> list[tuple[str, str]]:
        return [*TABS, ("runs", "6 Runs")]

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the names."""
        spans: list[Span] = [(" ", "")]
        for pane, name in self._pieces():
            spans += [(f" {name} ", "cursor accent strong" if pane == self.shown else "dim"), (" ", "")]
        return [spans]

    def on_click(self, event: events.Click) -> None:
        """Go to the pane whose name was clicked."""
        left = 1
        for pane, name in self._pieces():
            if left <= event.x < left + len(name) + 2:
                self.post_message(self.Picked(pane))
            left += len(name) + 3

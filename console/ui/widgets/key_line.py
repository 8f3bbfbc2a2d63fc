"""Key line: the keys of a screen in its last line, as many as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from console.ui.drawing import Span, width_of
from console.ui.widgets.inks import Painting


class KeyLine(Painting):
    """Keys and what they do; the last pair always stays."""

    DEFAULT_CSS = "KeyLine { dock: bottom; height: 1; }"

    def __init__(self, *pairs: tuple[str, str]) -> None:
        super().__init__(id="key-line")
        self.pairs = pairs

    def show(self, *pairs: tuple[str, str]) -> None:
        """Show other keys."""
        if pairs != self.pairs:
            self.pairs = pairs
            self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the keys that fit."""
        pieces = [[(key, "accent strong"), (f" {word}  ", "dim")] for key, word in self.pairs]
        room = width - 1 - (width_of(pieces[-1]) if pieces else 0)
        spans: list[Span] = [(" ", "")]
        for piece in pieces[:-1]:
            if width_of(piece) <= room:
                spans += piece
                room -= width_of(piece)
        return [[*spans, *(pieces[-1] if pieces else ())]]

"""Inks: the names of colours that drawn text may have, resolved by the theme in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from console.ui.drawing import Span

INKS = [
    "dim",
    "accent",
    "strong",
    "good",
    "warn",
    "bad",
    "info",
    "bar",
    "track",
    "mark",
    "cursor",
    "match",
    "added",
    "removed",
    "hunk",
    "number",
    "word",
    "keyword",
    "string",
    "comment",
    "function",
    "constant",
]

BACKED = {"cursor", "match", "added", "removed", "word"}
"""Inks whose background is painted too."""


class Inked(Widget):
    """A widget that draws spans of inked text, line by line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"ink--{name}" for name in INKS}

    def on_mount(self) -> None:
        """Forget mixed inks when the theme changes."""
        self._mixed: dict[tuple[str, Style], Style] = {}

    def notify_style_update(self) -> None:
        """Forget mixed inks: the theme or a class has changed."""
        super().notify_style_update()
        self._mixed = {}

    def ink(self, names: str, base: Style) -> Style:
        """Return the style of inks mixed in order over a base."""
        if not names:
            return base
        mixed = self.__dict__.setdefault("_mixed", {})
        style: Style | None = mixed.get((names, base))
        if style is None:
            style = base
            for name in names.split():
                if name not in INKS:
                    continue
                full = self.get_component_rich_style(f"ink--{name}")
                own = self.get_component_rich_style(f"ink--{name}", partial=True)
                style += Style(
                    color=full.color if own.color else None,
                    bgcolor=full.bgcolor if name in BACKED else None,
                    bold=own.bold,
                    italic=own.italic,
                )
            if "cursor" in names:
                style += Style(bgcolor=self.get_component_rich_style("ink--cursor").bgcolor)
            mixed[names, base] = style
        return style

    def strip(self, spans: Sequence[Span], width: int, under: str = "", start: int = 0) -> Strip:
        """Return spans as a strip of exactly `width` cells, from column `start` on."""
        base = self.ink(under, self.rich_style)
        segments = [
            Segment(text, self.ink(f"{names} {under}" if under else names, base)) for text, names in spans if text
        ]
        length = sum(cell_len(segment.text) for segment in segments)
        return Strip(segments, length).crop_extend(start, start + width, base)


class Painting(Inked):
    """An inked widget of fixed lines: subclasses return all of them at once."""

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the lines to draw."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw again with what is known now."""
        self._drawn: Sequence[Sequence[Span]] | None = None
        self.refresh()

    def notify_style_update(self) -> None:
        """Draw again in the new colours."""
        super().notify_style_update()
        self._drawn = None

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        size = self.size
        drawn = self.__dict__.get("_drawn")
        if drawn is None or self.__dict__.get("_drawn_at") != size:
            drawn = self._drawn = self.lines(size.width, size.height)
            self._drawn_at = size
        return self.strip(drawn[y] if y < len(drawn) else (), size.width)

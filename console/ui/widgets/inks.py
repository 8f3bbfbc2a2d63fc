"""Inks: the names of colours that drawn text may have, resolved by the theme in one place."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from console.ui.drawing import Span
from console.ui.theme import INKS


def styles_of(colours: dict[str, str]) -> dict[str, Style]:
    """Return the style of every ink in the colours of a theme.

    Component classes of the stylesheet would say the same, at 20 rules for each of 25 widgets before the first frame.
    """
    made: dict[str, Style] = {}
    for name, (front, back, extra) in INKS.items():
        style = Style.parse(extra) if extra else Style()
        if front in colours:
            style += Style(color=Color.parse(colours[front]))
        if back in colours:
            style += Style(bgcolor=Color.parse(colours[back]))
        made[name] = style
    return made


class Inked(Widget):
    """A widget that draws spans of inked text, line by line."""

    _mixed: dict[tuple[str, Style], Style]
    _inks: dict[str, Style]
    _inks_of: str = ""
    _base: Style | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines over one base: Textual works it out from all ancestors each time that it is asked for."""
        self._base = self.rich_style
        return super().render_lines(crop)

    def notify_style_update(self) -> None:
        """Mix the inks again: the theme or a class has changed."""
        super().notify_style_update()
        self._inks_of = ""
        self._base = None

    def ink(self, names: str, base: Style) -> Style:
        """Return the style of inks mixed in order over a base."""
        if not names:
            return base
        if self._inks_of != self.app.theme:
            self._inks_of = self.app.theme
            self._inks = styles_of(self.app.theme_variables)
            self._mixed = {}
        mixed = self._mixed.get((names, base))
        if mixed is None:
            mixed = base
            for name in names.split():
                mixed += self._inks.get(name, base)
            self._mixed[names, base] = mixed
        return mixed

    def strip(self, spans: Sequence[Span], width: int, under: str = "", start: int = 0) -> Strip:
        """Return spans as a strip of exactly `width` cells, from column `start` on."""
        base = self.ink(under, self._base or self.rich_style)
        segments = [
            Segment(text, self.ink(f"{under} {names}" if under else names, base)) for text, names in spans if text
        ]
        length = sum(cell_len(segment.text) for segment in segments)
        return Strip(segments, length).crop_extend(start, start + width, base)


class Painting(Inked):
    """An inked widget of fixed lines: subclasses return all of them at once."""

    _drawn: Sequence[Sequence[Span]] | None = None
    _drawn_at = Size(0, 0)

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the lines to draw."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw again what differs from what is drawn."""
        old, size = self._drawn, self.size
        if old is None or self._drawn_at != size or not size:
            self._drawn = None
            self.refresh()
            return
        self._drawn = new = self.lines(size.width, size.height)
        changed = [Region(0, y, size.width, 1) for y in range(size.height) if old[y : y + 1] != new[y : y + 1]]
        if changed:
            self.refresh(*changed)

    def notify_style_update(self) -> None:
        """Draw again in the new colours."""
        super().notify_style_update()
        self._drawn = None

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        size = self.size
        drawn = self._drawn
        if drawn is None or self._drawn_at != size:
            drawn = self._drawn = self.lines(size.width, size.height)
            self._drawn_at = size
        return self.strip(drawn[y] if y < len(drawn) else (), size.width)

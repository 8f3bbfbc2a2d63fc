"""Frame: a border whose top line carries a title at the left and a fact at the right."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from console.ui.drawing import fit


class Framed(Widget):
    """A widget with a round border and both ends of its top line in use."""

    DEFAULT_CLASSES = "pane"

    _title: tuple[str, str, str, str] = ("", "", "", "$muted")

    def entitle(self, key: str, title: str, right: str = "", style: str = "$muted") -> None:
        """Set the top line: the key that leads here, the title, and what stands at the right."""
        if (key, title, right, style) != self._title:
            self._title = (key, title, right, style)
            self._redraw_title()

    def on_resize(self) -> None:
        """Fit the top line into the new width."""
        self._redraw_title()

    def _redraw_title(self) -> None:
        key, title, right, style = self._title
        corners = self.styles.border_left[0] not in ("", "none", "hidden")
        space = self.outer_size.width - (6 if corners else 2) - cell_len(key) - (1 if key else 0)
        if space < 4:
            return
        shown = fit(title, min(cell_len(title), space))
        rest = space - cell_len(shown) - 3
        right = fit(right, min(cell_len(right), rest)) if rest >= 8 else ""
        fill = rest + 1 - cell_len(right)
        parts: list[tuple[str, str]] = [(f"{key} ", "bold $accent")] if key else []
        parts.append((shown, "bold $foreground"))
        if right:
            parts += [(" " + "─" * fill + " ", ""), (right, style)]
        self.border_title = Content.assemble(*parts)

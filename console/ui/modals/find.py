"""Find file: any file below a folder by some of its letters; names may still be arriving."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from console.domain.text import clean
from console.ui.drawing import Span
from console.ui.widgets.code_spans import inked, sliced
from console.ui.widgets.lines import Lines
from console.ui.worker import is_open

if TYPE_CHECKING:
    from console.operations.source import Finder, Names

MOST = 200
"""Names that are offered at once."""


class FoundList(Lines):
    """The best names now: the file's own name first, its folder behind it."""

    def __init__(self) -> None:
        super().__init__(id="found-list")
        self.can_focus = False
        self.rows: Sequence[tuple[str, Sequence[int]]] = ()
        self.said = ""
        """What there is when nothing is."""

    def under(self, index: int) -> str:
        """Show the choice although the line of text has the focus."""
        return "cursor" if index == self.cursor else ""

    def count(self) -> int:
        """Return how many are offered."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one name, the letters that were asked for marked."""
        name, spots = self.rows[index]
        base = name.rfind("/") + 1
        spans = _with_letters(name, base, len(name), spots, "strong")
        room = width - 3 - sum(cell_len(text) for text, _ in spans)
        folder = _with_letters(name, 0, max(0, base - 1), spots, "dim")
        long = sum(len(text) for text, _ in folder) - room
        if room < 4:
            return [(" ", ""), *spans]
        if long > 0:
            folder = [("…", "dim"), *sliced(folder, long + 1, room)]
        return [(" ", ""), *spans, ("  ", ""), *folder]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that nothing matches, or not yet."""
        return [[(f"  {self.said}", "dim")]]


def _with_letters(name: str, first: int, last: int, spots: Sequence[int], ink: str) -> list[Span]:
    text = name[first:last]
    shown = clean(text)
    if shown != text or not text:  # signs stand for what cannot be shown: their places are others
        return [(shown, ink)] if text else []
    marked = {spot - first for spot in spots}
    return inked(text, ["match" if at in marked else ink for at in range(len(text))])


class FindModal(ModalScreen[str | None]):
    """Answers with an absolute path and perhaps `:LINE`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
    ]

    def __init__(self, recent: Sequence[str] = ()) -> None:
        super().__init__()
        self._recent = recent
        self.ready = asyncio.Event()
        """Set when names can be taken."""
        self.names: Names | None = None
        self._reason = ""
        self._finder: Finder | None = None

    def compose(self) -> ComposeResult:
        """Put the line above the list."""
        with Vertical(classes="palette"):
            line = Input(placeholder="some letters of a file's name, a blank, more; :LINE goes there", compact=True)
            line.cursor_blink = False
            yield line
            yield FoundList()

    def on_mount(self) -> None:
        """Say what is awaited."""
        self._offer()
        self.ready.set()

    def know(self, names: Names) -> None:
        """Take the names that are here by now, and offer what matches among them."""
        from console.operations.source import Finder

        if not is_open(self):
            return
        self.names, self._finder = names, Finder(names.names)
        self._offer(keep=True)

    def fail(self, reason: str) -> None:
        """Say why there are no names."""
        self._reason = reason
        if is_open(self):
            self._offer()

    def _offer(self, *, keep: bool = False) -> None:
        from console.operations.source import place_wanted

        rows = self.query_one(FoundList)
        names, text = self.names, self.query_one(Input).value
        wanted, _ = place_wanted(text.strip())
        if names is None or self._finder is None:
            rows.said = clean(self._reason) or "reading the names…"
        else:
            rows.rows = self._finder.find(wanted, MOST)
            if not wanted:
                below = [path.removeprefix(f"{names.root}/") for path in self._recent]
                first = [(name, ()) for name in below if not name.startswith("/")]
                rows.rows = [*first, *rows.rows][:MOST]
            rows.said = "no file's name has these letters in order" if names.complete else "not found yet…"
            count = f"{len(names.names):,} files{'' if names.complete else ' …'}{', not all' if names.limited else ''}"
            self.query_one(".palette").border_subtitle = Content(clean(f"{count} below {names.root}"))
        rows.changed(keep=keep)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Offer what matches."""
        self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the name under the cursor."""
        rows = self.query_one(FoundList)
        if rows.rows:
            self._answer(rows.cursor)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Answer with the name that was clicked."""
        self._answer(event.index)

    def _answer(self, index: int) -> None:
        from console.operations.source import place_wanted

        assert self.names is not None
        _, line = place_wanted(self.query_one(Input).value.strip())
        path = self.names.path(self.query_one(FoundList).rows[index][0])
        self.dismiss(f"{path}:{line}" if line else path)

    def action_move(self, by: int) -> None:
        """Move through the names."""
        self.query_one(FoundList).action_move(by)

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

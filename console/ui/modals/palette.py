"""Palette: every verb by name; `file:line` goes there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from console.domain.text import clean
from console.operations.catalogue import VERBS, Verb, shown_key
from console.ui.drawing import Span, fit
from console.ui.widgets.lines import Lines

_PLACE = re.compile(r"^(?P<file>[^:\s]*?)(?::?(?P<first>\d+)(?:-(?P<last>\d+))?)?$")


def place_of(text: str) -> tuple[str, int | None, int | None] | None:
    """Return file, first and last line that a text names; an empty file means the open one."""
    found = _PLACE.match(text.strip())
    if found is None or not text.strip():
        return None
    file, first, last = found["file"], found["first"], found["last"]
    if first is None and "/" not in file and "." not in file:
        return None
    return file, int(first) if first else None, int(last) if last else None


def matching(text: str) -> list[Verb]:
    """Return the verbs whose words hold all words of a text, best first."""
    wanted = text.lower().split()
    found = []
    for verb in VERBS:
        if verb.id in ("go_back", "open_palette"):
            continue
        title = verb.title.lower()
        whole = f"{title} {verb.help.lower()} {' '.join(verb.cli)} {verb.id}"
        if all(word in whole for word in wanted):
            found.append((0 if title.startswith(text.lower()) else 1 if text.lower() in title else 2, verb))
    return [verb for _, verb in sorted(found, key=lambda pair: pair[0])]


class Choices(Lines):
    """What the palette offers now."""

    def __init__(self) -> None:
        super().__init__(id="choices")
        self.can_focus = False
        self.rows: list[tuple[str, str, str, str]] = []
        """Answer, title, help, key."""

    def under(self, index: int) -> str:
        """Show the choice although the line of text has the focus."""
        return "cursor" if index == self.cursor else ""

    def count(self) -> int:
        """Return how many choices there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one choice."""
        _, title, help, key = self.rows[index]
        return [(f" {fit(title, 18)} ", "strong"), (fit(help, max(10, width - 32)), "dim"), (f" {key:>10} ", "accent")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that nothing matches."""
        return [[("  nothing is called like that", "dim")]]


class PaletteModal(ModalScreen[str | None]):
    """Answers with the id of a verb, or `goto FILE:LINE`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
    ]

    def compose(self) -> ComposeResult:
        """Put the line above its choices."""
        with Vertical(classes="palette"):
            line = Input(placeholder="a verb, or file:line", compact=True)
            line.cursor_blink = False
            yield line
            yield Choices()

    def on_mount(self) -> None:
        """Offer everything."""
        self._offer("")

    def _offer(self, text: str) -> None:
        rows: list[tuple[str, str, str, str]] = []
        if (place := place_of(text)) is not None:
            file, first, _ = place
            rows.append(
                (
                    f"goto {text.strip()}",
                    "Go to",
                    clean(f"{file or 'this file'}{f', line {first}' if first else ''}"),
                    "enter",
                )
            )
        rows += [(v.id, v.title, v.help, " ".join(map(shown_key, v.keys[:1]))) for v in matching(text.strip())]
        choices = self.query_one(Choices)
        choices.rows = rows
        choices.changed(keep=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Offer what matches."""
        self._offer(event.value)

    def on_input_submitted(self) -> None:
        """Answer with the choice under the cursor."""
        choices = self.query_one(Choices)
        self.dismiss(choices.rows[choices.cursor][0] if choices.rows else None)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Answer with the choice that was clicked."""
        self.dismiss(self.query_one(Choices).rows[event.index][0])

    def action_move(self, by: int) -> None:
        """Move through the choices."""
        self.query_one(Choices).action_move(by)

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

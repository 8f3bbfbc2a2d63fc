"""Topology: how the host's GPUs are joined, what they are set to, and what changed of it since the base run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from console.domain.machine import MachineState
from console.domain.text import clean
from console.operations.machine_words import Line, machine_lines
from console.ui.drawing import Span
from console.ui.modals.text import Reading
from console.ui.widgets.lines import Lines

INKS = {"head": "dim", "row": "", "note": "dim", "warn": "warn"}


class MachineLines(Lines):
    """A machine's state, laid out anew for each width."""

    def __init__(self, state: MachineState, changes: Sequence[str], base: str) -> None:
        super().__init__()
        self._state, self._changes, self._base_run = state, changes, base
        self._lines: list[Line] = []

    def on_resize(self) -> None:
        """Lay the matrix out for the new width."""
        self._lines = [*self._since(), *machine_lines(self._state, max(40, self.size.width - 2))]
        self.changed()

    def _since(self) -> list[Line]:
        if not self._base_run:
            return []
        if not self._changes:
            return [(f"as it was for base run {self._base_run}", "note"), ("", "row")]
        said: list[Line] = [(f"since base run {self._base_run}: {text}", "warn") for text in self._changes]
        return [*said, ("", "row")]

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._lines)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row; what is marked by colour has a sign before it, too."""
        text, kind = self._lines[index]
        mark = {"note": "  ", "warn": "! "}.get(kind, "")
        return [(clean(mark + text), INKS[kind])]


class TopologyModal(Reading):
    """The machine to read; the key that opened it closes it, too."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("8", "close", show=False)]

    def __init__(self, state: MachineState, changes: Sequence[str] = (), base: str = "") -> None:
        super().__init__("Topology", "ctrl+d ctrl+u scroll · esc closes", MachineLines(state, changes, base))

"""Command log: every remote command with its exit code and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from console.domain.host import CommandRecord
from console.ui import clock
from console.ui.drawing import Span, fit
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines
from console.ui.worker import owner


class CommandLines(Lines, Framed):
    """Remote commands, newest last."""

    def __init__(self) -> None:
        super().__init__(id="commands")
        self.rows: tuple[CommandRecord, ...] = ()
        self.entitle("@", "Remote commands", "esc closes")

    def count(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one command."""
        row = self.rows[index]
        failed = row.exit != 0
        code = "—" if row.exit is None else str(row.exit)
        spans: list[Span] = [
            (f" {clock.of_day(row.at)} ", "dim"),
            (f"{'✗' if failed else '✓'} {code:>3} ", "bad" if failed else "good"),
        ]
        spans += [(f"{row.ms:>8,.1f} ms  ", "strong"), (fit(row.text, min(len(row.text) + 1, max(20, width - 28))), "")]
        return [*spans, (f"  {row.error}", "bad")] if row.error else spans

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that nothing was sent yet."""
        return [[], [("  every operation and program on the host, with exit code and time: none yet", "dim")]]


class CommandsScreen(Screen[None]):
    """The command log."""

    CSS = "#commands { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,at,q", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        """Show the lines."""
        yield CommandLines()

    def on_mount(self) -> None:
        """Read the log now and every second."""
        self._read(first=True)
        self.set_interval(1, self._read)

    def _read(self, *, first: bool = False) -> None:
        desk = owner(self).desk
        lines = self.query_one(CommandLines)
        if desk is None:
            return
        at_end = first or lines.cursor >= lines.count() - 1
        lines.rows = tuple(desk.commands)
        lines.changed()
        if at_end:
            lines.action_move_to(-1)

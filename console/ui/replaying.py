"""The replay as a program of its own: a screen without any host behind it."""

from __future__ import annotations

from pathlib import PurePath
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from console.operations.tape import Tape
from console.ui.glyphs import must_be_plain, plain_driver
from console.ui.screens.replay import ReplayScreen
from console.ui.theme import DARK, LIGHT


class ReplayApp(App[int]):
    """Plays one recorded run."""

    TITLE = "tokwatt replay"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss"]
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q,ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+t", "switch_theme", show=False, priority=True),
    ]

    def __init__(self, tape: Tape, speed: float = 10.0) -> None:
        super().__init__(driver_class=plain_driver() if must_be_plain() else None)
        self.tape, self.speed = tape, speed
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name

    def on_mount(self) -> None:
        """Show the run."""
        self.push_screen(ReplayScreen(self.tape, self.speed, alone=True))

    def action_switch_theme(self) -> None:
        """Switch between dark and light."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_leave(self) -> None:
        """Leave."""
        self.exit(0)


def run_replay(tape: Tape, speed: float) -> int:
    """Play a recorded run until the operator leaves; return the exit code."""
    from console.ui.leaving import terminal_fault

    if fault := terminal_fault():
        raise fault
    app = ReplayApp(tape, speed)
    code = app.run()
    return code if code is not None else (app.return_code or 0)

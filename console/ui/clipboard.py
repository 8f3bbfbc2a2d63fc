"""The terminal's clipboard: what the operator picked, sent by us as OSC 52, within what terminals take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.ui.app import TokwattApp

LIMIT_BYTES = 48 * 1024
"""Terminals and tmux cut longer ones off, silently."""


def copy(app: TokwattApp, text: str, what: str) -> None:
    """Send text to the terminal's clipboard, or keep it in a file when it is too long for that.

    Whether the terminal took it cannot be known, so nothing claims that it is copied.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > LIMIT_BYTES:
        from console.operations.keeping import keep_copy

        app.say(f"{what}: {size / 1024:,.0f} kB are too much for a terminal's clipboard; kept in {keep_copy(text)}")
        return
    app.copy_to_clipboard(text)
    app.say(f"{what} sent to the terminal's clipboard (OSC 52)")

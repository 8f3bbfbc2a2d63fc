"""A launch command becomes a profile, on screen: from a file, or pasted into the operator's editor."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from console.errors import UsageError
from console.ui.modals.confirm import ConfirmModal
from console.ui.modals.prompt import PromptModal

if TYPE_CHECKING:
    from console.operations.profile_import import ProfileImport
    from console.ui.app import TokwattApp


WIDTH, LINES = 66, 16
"""Columns and lines of the question, for a small terminal."""


def given_away(app: TokwattApp, argv: Sequence[str]) -> int:
    """Give the terminal to a program, and return its exit status."""
    from textual.app import SuspendNotSupported

    try:
        with app.suspend():
            return subprocess.run(argv, check=False).returncode
    except SuspendNotSupported:
        hint = "tokwatt profile import FILE, or an editor elsewhere, does the same"
        raise UsageError("this terminal cannot be handed over", hint=hint) from None


async def import_profile(app: TokwattApp, done: Callable[[], Awaitable[None]] | None = None) -> None:
    """Ask for a command, show what of it is doubtful, and keep it under a name.

    Args:
        app: Whose screen.
        done: Called when a profile was made.
    """
    from console.operations import profile_files, profile_import

    place = await app.push_screen_wait(PromptModal("import: ", hint="file with the command; empty to paste it"))
    if place is None:
        return
    if place.strip():
        text, place = profile_import.read_command(place.strip()), place.strip()
    else:
        text, place = profile_files.pasted(lambda argv: given_away(app, argv)), "what was pasted"
        if not text.strip():
            app.say("nothing was pasted")
            return
    made = profile_import.import_command(text, place=place)
    repair = any(note.offer for note in made.found.notes) and await _asked(app, made)
    name = await app.push_screen_wait(PromptModal("profile: ", made.profile.name, "name of the new profile"))
    if not name:
        return
    again = profile_import.import_command(text, place=place, name=name, repair=repair)
    kept = profile_import.keep(again)
    number = sum(note.severity != "note" for note in kept.found.notes)
    told = f" · {number} to look at, on top of the file" if number else ""
    app.say(f"{kept.path}{told}")
    if done is not None:
        await done()


async def _asked(app: TokwattApp, made: ProfileImport) -> bool:
    """Ask whether the command is taken as it was meant."""
    lines: list[str] = []
    for note in made.found.notes:
        if note.offer:
            place = f"line {note.line}: " if note.line else ""
            lines += [*textwrap.wrap(f"{place}{note.text}", WIDTH), f"  meant: {note.offer}"[: 2 * WIDTH], ""]
    title = "The command does not say what was meant"
    return await app.push_screen_wait(ConfirmModal(title, lines[:LINES], "take it as it was meant")) is True

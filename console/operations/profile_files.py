"""Profiles as files that people edit: which may be changed, and an own one over a shipped one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from console.config.edit import write_new_text
from console.config.paths import config_home, shipped_folder
from console.config.profiles import load_profile
from console.operations.editing import editor_argv

RunEditor = Callable[[list[str]], int]
"""Gives the terminal to a command and returns its exit status."""

PASTE = "# Paste a launch command below, save and leave; nothing of it is run.\n"


def editable(path: Path) -> Path:
    """Return the file to edit for a profile: itself, or an own one over a shipped one, made when there is none."""
    if path.resolve().parent != shipped_folder().resolve():
        return path
    own = config_home() / "profiles" / path.name
    if not own.exists():
        text = (
            f'# Over the shipped profile of this name: only what is different stands here.\nextends = "{path.stem}"\n'
        )
        write_new_text(own, text)
    return own


def edit(path: Path, run: RunEditor, line: int | None = None) -> Path:
    """Open a profile in the operator's editor; its comments are theirs and stay.

    Raises:
        FormatError: What was saved is no profile; the file stays as it was saved.
        UsageError: There is no editor.
    """
    file = editable(path)
    run(editor_argv(file, line))
    load_profile(file)
    return file


def pasted(run: RunEditor) -> str:
    """Return what the operator pasted into the editor; empty when it was nothing."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tokwatt-") as folder:
        file = Path(folder) / "command.sh"
        file.write_text(PASTE)
        run(editor_argv(file, 2))
        return file.read_text(errors="replace").removeprefix(PASTE)

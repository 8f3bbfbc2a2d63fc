"""A file of the host in the operator's own editor, written back as a patch is: compared, compiled, read back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.config.paths import data_home
from console.domain.activity import Activity, Outcome
from console.domain.host import Package
from console.domain.patch import FileChange, WriteReceipt
from console.domain.source import Document, Place
from console.domain.text import clean
from console.errors import AlreadySoError, ConsoleError, RefusedError, UsageError
from console.operations import host, installed, source
from console.operations.desk import Desk
from console.operations.patch_capture import capture_changes
from console.operations.patch_scene import Scene
from console.operations.patch_writing import write
from console.patching.versions import Facts

EDITORS = ("sensible-editor", "editor", "nano", "vim", "vi")
_WITH_LINE = re.compile(
    r"^(vi|vim|nvim|view|nano|pico|emacs|emacsclient|micro|helix|hx|kak|joe|ne|mg|editor|sensible-editor)$"
)

RunEditor = Callable[[Sequence[str]], int]
"""Gives the terminal to a program and returns its exit code."""


@dataclass(frozen=True, slots=True)
class Edited:
    """What an edit did."""

    change: FileChange
    receipt: WriteReceipt
    root: str
    """Package folder, or the file's own."""
    warning: str = ""
    """Why the file is not the one that a server would load."""


def editor_argv(path: Path, line: int | None) -> list[str]:
    """Return the command of the operator's editor on a file, at a line where it is known how.

    Raises:
        UsageError: There is none.
    """
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    words = shlex.split(said) or [name for name in EDITORS if shutil.which(name)][:1]
    if not words:
        raise UsageError("no editor here", hint="set EDITOR")
    if shutil.which(words[0]) is None:
        raise UsageError(f"{words[0]}: no such editor here", "VISUAL or EDITOR names it")
    at = [f"+{line}"] if line and _WITH_LINE.match(Path(words[0]).name) else []
    return [*words, *at, str(path)]


async def edit(desk: Desk, place: Place, run_editor: RunEditor) -> Edited:
    """Open a file of the host in the operator's editor and write the result back: 1 + 1 round trips.

    Owner, mode, line ends, the missing or present final newline and links stay as they are. When the file
    has changed on the host meanwhile, or would not compile, nothing is written and the edited copy is kept.

    Args:
        desk: Whose host.
        place: File, and line to begin at.
        run_editor: Gives the terminal away; called in this thread's loop, so that the screen can be put aside.

    Raises:
        AlreadySoError: Nothing was changed in the editor.
        RefusedError: Drift, syntax, `--readonly`; the title or hint names the kept copy.
    """
    desk.must_write(f"edit {place.path}")
    document = await source.open_place(desk, place, whole=True)
    _must_be_editable(document)
    before = source.content(document)
    package = await _package_of(desk, document.path)
    after = _edited(document, before, place.first, run_editor)
    if after == before:
        raise AlreadySoError(f"{document.path}: nothing was changed")
    return await _written(desk, package, document, before, after)


def _must_be_editable(document: Document) -> None:
    if document.binary:
        raise UsageError(f"{document.path}: is no text", f"{document.size:,} bytes")
    if not document.complete or document.cut:
        raise UsageError(f"{document.path}: too big to be edited whole", f"{document.size:,} bytes")
    if document.changing:
        raise RefusedError(f"{document.path} is being changed right now", hint="look again")


async def _package_of(desk: Desk, path: str) -> Package:
    """Return the package whose folder the write belongs to, or the file's own folder as one."""
    known = desk.package
    if known is not None and path.startswith(f"{known.folder}/"):
        return known
    found = await installed.top_package(desk, path)
    if found is not None:
        return found
    folder = posixpath.dirname(path)
    return Package(posixpath.basename(folder), folder, None, "folder")


def _edited(document: Document, before: bytes, line: int | None, run_editor: RunEditor) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tokwatt-edit-") as folder:
        path = Path(folder) / (posixpath.basename(document.path) or "file")
        path.write_bytes(before)
        status = run_editor(editor_argv(path, line))
        if status:
            raise UsageError(f"the editor ended with status {status}", "nothing was written")
        return _like(document, before, path.read_bytes())


def _like(document: Document, before: bytes, after: bytes) -> bytes:
    """Give edited bytes the line ends and the final newline, or the lack of it, of the original."""
    if document.crlf:
        after = after.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    end = b"\r\n" if document.crlf else b"\n"
    if after and before:
        bare = not before.endswith(b"\n")
        if bare and after.endswith(b"\n"):
            after = after[: -len(end)]
        elif not bare and not after.endswith(b"\n"):
            after += end
    return after


async def _written(desk: Desk, package: Package, document: Document, before: bytes, after: bytes) -> Edited:
    began = time.monotonic()
    shown = document.path.removeprefix(f"{package.folder}/")
    hashes = (document.sha256 or hashlib.sha256(before).hexdigest(), hashlib.sha256(after).hexdigest())
    change = FileChange(shown, shown, before, after, *hashes)
    number = desk.store.begin(Activity(0, "edit", clean(f"edit {shown}"), started_at=time.time()))
    scene = Scene(package, Facts(package.name, package.version, None), {shown: before}, {}, {})
    try:
        receipt = await write(desk, scene, shown, "edit", (change,), began, 1)
    except ConsoleError as error:
        kept = _keep(document.path, after)
        error.hint = f"{error.hint}; your copy is {kept}".lstrip("; ")
        outcome = Outcome.REFUSED if isinstance(error, RefusedError) else Outcome.FAILED
        desk.store.amend(number, outcome=outcome, detail=clean(error.one_line()))
        raise
    from console.operations.patches import told

    desk.store.amend(number, outcome=Outcome.DONE, detail=clean(told(receipt)), ms=receipt.ms, undo="z")
    with contextlib.suppress(ConsoleError):
        return Edited(change, receipt, package.folder, await installed.shadowed(desk, document.path))
    return Edited(change, receipt, package.folder)


def _keep(path: str, data: bytes) -> Path:
    """Keep what was edited under a name of its own."""
    folder = data_home() / "edits"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        kept = folder / f"{stamp}{f'-{number}' if number else ''}-{posixpath.basename(path)}"
        with contextlib.suppress(FileExistsError), kept.open("xb") as file:
            file.write(data)
            return kept
    raise UsageError(f"{folder}: cannot keep the edited copy")


async def capture_edit(desk: Desk, edited: Edited, name: str) -> Path:
    """Make a patch of an edit of the engine package.

    Raises:
        UsageError: The file is not in the engine package, or the name is taken.
    """
    package = await host.engine_package(desk)
    if edited.root != package.folder:
        raise UsageError(f"{edited.root}/{edited.change.shown}: not in the engine package {package.folder}")
    return await capture_changes(desk, name, (edited.change,), f"an edit on {desk.link.host.name}")

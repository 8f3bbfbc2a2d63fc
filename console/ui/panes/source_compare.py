"""Comparing in the source pane: HEAD, as installed, another file; what was changed by hand; editing."""

from __future__ import annotations

import posixpath
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from console.domain.comparison import Comparison
from console.domain.installed import ChangedFile, PackageCheck
from console.domain.source import Place
from console.domain.text import clean
from console.errors import RemoteError, UsageError
from console.ui.modals.prompt import PromptModal
from console.ui.panes.source_read import in_file
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.ui.panes.source import SourcePane

NO_GIT = ("no_git", "no_git_program")


def show(pane: SourcePane, comparison: Comparison) -> None:
    """Show a comparison, and say what it leaves out."""
    pane.compared.show(comparison)
    pane.turn("compare")
    pane.view.focus()
    for note in comparison.notes:
        owner(pane).say(note)


def head(pane: SourcePane) -> None:
    """Show the working tree against HEAD; where there is no git, the open file as it was installed."""

    async def diff() -> None:
        from console.operations import comparing, installed

        desk = owner(pane).need_desk()
        try:
            show(pane, await comparing.with_head(desk, _tree(pane)))
        except RemoteError as error:
            if error.kind not in NO_GIT or pane.here is None:
                raise
            show(pane, await installed.pristine(desk, pane.here.path))

    launch(owner(pane), diff, group="open", exclusive=True)


def _tree(pane: SourcePane) -> str:
    """Return the folder that is worked in: the one of the tree, the engine package, or the open file's."""
    if pane.folder or owner(pane).snapshot.package is not None or pane.here is None:
        return pane.folder
    return posixpath.dirname(pane.here.path)


def changed(pane: SourcePane) -> None:
    """Check every engine package and list what is not as it was installed."""

    async def look() -> None:
        from console.operations import installed

        view = pane.changes
        view.begin()
        pane.turn("changed")
        pane.view.focus()
        try:
            async for check in installed.changed(owner(pane).need_desk()):
                view.add(check)
                pane.name_it()
        finally:
            view.end()
            pane.name_it()

    launch(owner(pane), look, group="changed", exclusive=True)


async def show_change(pane: SourcePane, check: PackageCheck, file: ChangedFile | None) -> None:
    """Show one changed file, or all of a package, beside the originals."""
    from console.operations import installed

    chosen = replace(check, files=(file,)) if file is not None else check
    if not chosen.files:
        owner(pane).say(f"{check.package.name}: {check.reason or 'nothing differs'}")
        return
    show(pane, await installed.differences(owner(pane).need_desk(), [chosen]))


def open_row(pane: SourcePane) -> None:
    """Open the file of the row under the cursor, at its line."""
    view = pane.compared
    row = view.here
    if view.comparison is None or row is None:
        return
    pair = view.comparison.files[row.file]
    if not pair.path or pair.after is None:
        owner(pane).tell(UsageError(f"{clean(pair.name)} is not on the host now"))
        return
    line = row.right or next((one.right for one in view.rows[view.cursor :] if one.file == row.file and one.right), 1)
    pane.open(pair.path, line)


def sides(pane: SourcePane) -> None:
    """Show a comparison side by side, or unified again."""
    if _compares(pane):
        pane.compared.beside = not pane.compared.beside
        pane.compared.build()
        pane.name_it()


def wider(pane: SourcePane) -> None:
    """Show more lines around changes."""
    if _compares(pane):
        pane.compared.widen(1)
        pane.name_it()


def narrower(pane: SourcePane) -> None:
    """Show fewer lines around changes."""
    if _compares(pane):
        pane.compared.widen(-1)
        pane.name_it()


def _compares(pane: SourcePane) -> bool:
    if pane.views[-1] == "compare":
        return True
    owner(pane).tell(UsageError("no comparison is shown", hint="D compares with git HEAD"))
    return False


def capture(pane: SourcePane) -> None:
    """Make a patch of the changes that are shown, or of uncommitted ones of the open file."""

    async def ask() -> None:
        from console.operations import patches

        app = owner(pane)
        desk = app.need_desk()
        files: Sequence[str] = ()
        view = pane.views[-1]
        if view == "code" and pane.here is not None:
            files = (pane.here.path,)
        name = await app.push_screen_wait(PromptModal("capture as ", hint="name of the new patch"))
        if not name:
            return
        if view == "changed":
            path = await patches.capture(desk, name, changed=True)
        elif view == "compare" and pane.compared.comparison is not None:
            path = await _captured(pane, pane.compared.comparison, name)
        else:
            try:
                path = await patches.capture(desk, name, files)
            except RemoteError as error:
                if error.kind not in NO_GIT:
                    raise
                path = await patches.capture(desk, name, files, changed=True)
        app.say(f"captured into {path}")
        await app.look_at_files()

    launch(owner(pane), ask, group="write", lasting=True)


async def _captured(pane: SourcePane, comparison: Comparison, name: str) -> Path:
    """Make a patch of a comparison's files that are in the engine package."""
    from console.operations import comparing, patch_capture

    app = owner(pane)
    package = app.snapshot.package
    if package is None:
        raise UsageError("the engine package is not known", app.snapshot.package_reason)
    inside = tuple(
        replace(pair, name=pair.path.removeprefix(f"{folder}/"))
        for pair in comparison.files
        for folder in dict.fromkeys((package.folder, package.real))
        if folder and pair.path.startswith(f"{folder}/")
    )
    if not inside:
        raise UsageError("nothing that is shown is in the engine package", package.folder)
    text = comparing.patch_text(replace(comparison, files=inside))
    return await patch_capture.capture_diff(app.need_desk(), name, text, f"{comparison.left} → {comparison.right}")


def edit(pane: SourcePane) -> None:
    """Open the file in the operator's own editor and write it back, verified."""
    if not in_file(pane) or pane.here is None:
        return
    here = pane.here

    async def write() -> None:
        from textual.app import SuspendNotSupported

        from console.operations import editing

        app = owner(pane)
        app.must_not_disturb("edit_file")

        def run(argv: Sequence[str]) -> int:
            try:
                with app.suspend():
                    return subprocess.run(argv, check=False).returncode
            except SuspendNotSupported:
                raise UsageError(
                    "this terminal cannot be handed over", hint="tokwatt edit FILE does the same"
                ) from None

        edited = await editing.edit(app.need_desk(), Place(here.path, here.line, here.line, text=here.path), run)
        pane.refresh_marks()
        for note in (*edited.receipt.notes, edited.warning):
            if note:
                app.say(note)
        package = app.snapshot.package
        if package is not None and edited.root == package.folder:
            name = await app.push_screen_wait(PromptModal("make a patch of it: ", hint="name, or empty for none"))
            if name:
                app.say(f"captured into {await editing.capture_edit(app.need_desk(), edited, name)}")
        await app.look_at_files()

    launch(owner(pane), write, group="write", lasting=True)

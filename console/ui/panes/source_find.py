"""Finding files by name in the source pane: letters of any name below the top folder, asked of the host once."""

from __future__ import annotations

import asyncio
import posixpath
from typing import TYPE_CHECKING

from console.domain.text import clean
from console.errors import ConsoleError
from console.ui.modals.find import FindModal
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.ui.panes.source import SourcePane


def find_file(pane: SourcePane) -> None:
    """Open a file below the tree's top folder by some of its letters."""

    async def ask() -> None:
        app = owner(pane)
        app.need_desk()
        modal = FindModal(pane.history.recent(pane.here))
        reading = launch(app, _read_names, pane, modal, group="names", exclusive=True)
        answer = await app.push_screen_wait(modal)
        if not (modal.names and modal.names.complete):
            reading.cancel()
        if answer is not None:
            path, _, line = answer.rpartition(":")
            whole = path and line.isdigit() and modal.names is not None and path.startswith(modal.names.root)
            await (pane.jump(path, int(line)) if whole else pane.jump(answer))
            pane.view.focus()

    launch(owner(pane), ask, group="find", exclusive=True)


async def _read_names(pane: SourcePane, modal: FindModal) -> None:
    from console.operations import source

    await modal.ready.wait()
    try:
        async for found in source.names(owner(pane).need_desk(), pane.folder):
            modal.know(found)
    except ConsoleError as error:
        modal.fail(error.one_line())


async def know_names(pane: SourcePane) -> None:
    """Let the tree's filter look at names whose folders were not opened."""
    from console.operations import source

    files = pane.files
    async for found in source.names(owner(pane).need_desk(), pane.folder):
        if files.top == found.root:
            files.know(found.names, found.entry)
    pane.name_it()
    if found.limited:
        owner(pane).say(clean(f"{found.root}: only the first {len(found.names):,} names are looked at"))


async def reveal(pane: SourcePane, path: str) -> None:
    """Open the folders from the top down to a path, asked for at the same time."""
    from console.operations import source

    files, desk = pane.files, owner(pane).need_desk()
    chain = [path]
    while len(chain[-1]) > len(files.top) + 1 and (above := posixpath.dirname(chain[-1])) != files.top:
        chain.append(above)
    chain.reverse()
    wanted = [folder for folder in chain if not files.is_open(folder)]
    pages = await asyncio.gather(*(source.page(desk, folder) for folder in wanted))
    files.unfold([(folder, page.entries, page.total) for folder, page in zip(wanted, pages, strict=True)])

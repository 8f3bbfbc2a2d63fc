"""Keeping what was written to a host: into the journal, without ever undoing the write itself."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from console.config.paths import data_home
from console.domain.patch import WriteReceipt
from console.errors import ConsoleError
from console.operations.desk import Desk


async def keep_write(desk: Desk, receipt: WriteReceipt) -> None:
    """Journal a verified write; a journal that cannot be used is told of, since the write is done."""
    from console.journal.book import Journal

    host = desk.link.host
    try:
        await Journal().record_write(host.name, receipt, operator=desk.operator, badge=host.badge)
    except ConsoleError as error:
        desk.say(f"not in the journal: {error.one_line()}")


async def ids_kept(desk: Desk) -> list[str]:
    """Return the newest runs' ids of a host in the journal: its folders may have been cleared, and numbers begin anew."""
    from console.journal.book import Journal

    try:
        return await Journal().ids_of(desk.link.host.name)
    except ConsoleError:
        return []  # a launch needs no journal


def keep_copy(text: str) -> Path:
    """Keep text that was copied on screen in a file of its own, and return where."""
    folder = data_home() / "copies"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        path = folder / f"{stamp}{f'-{number}' if number else ''}.txt"
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            file.write(text.encode("utf-8", "replace"))
            return path
    raise ConsoleError(f"{folder}: no name is free for a copy")

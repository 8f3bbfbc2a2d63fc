"""Keeping what was written to a host: into the journal, without ever undoing the write itself."""

from __future__ import annotations

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

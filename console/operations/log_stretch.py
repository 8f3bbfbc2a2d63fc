"""A stretch of a log around a byte of it, however long the log is and wherever a rotation has put it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.domain.run import LogRecord, Run
from console.errors import RemoteError, UsageError
from console.operations import log_parts
from console.operations.desk import Desk
from console.operations.log_filter import RecordFilter
from console.operations.log_parts import LogFile, parser_of

if TYPE_CHECKING:
    from console.operations.log_search import Found

BEFORE_BYTES = 256 * 1024
AFTER_BYTES = 512 * 1024

BLOCK_BYTES = 512 * 1024
"""Searched at once, so that what a filter wants next is not behind megabytes of other finds."""

FOUND = 400
"""Finds that are enough at once."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What stands between two bytes of a log."""

    records: tuple[LogRecord, ...]
    first: int
    """Offset of the first byte, a line's."""
    last: int
    """Offset behind the last byte, a line's unless the log ends there."""
    size: int
    """Of the log as it is now, in bytes."""
    file: LogFile = LogFile()
    """Which file it is of."""
    name: str = ""
    """Path of that file, where the log was rotated and this is not the present one."""
    older: str = ""
    """Path of the file before it; empty when there is none."""
    newer: str = ""
    """Path of the file behind it."""

    @property
    def is_end(self) -> bool:
        """Whether nothing comes behind it yet."""
        return self.last >= self.size


async def around(desk: Desk, run: Run, offset: int, file: LogFile | None = None, path: str = "") -> Stretch:
    """Return the records around a byte of a run's log, in one round trip.

    A record of many lines that begins before the stretch, or goes on behind it, is not whole.

    Args:
        desk: The host.
        run: Whose log.
        offset: Of a record's first byte; of a log that has become shorter, there may be nothing. Negative: its end.
        file: Which file is meant; `UsageError` when a rotation left nothing of it.
        path: Another file of the log, such as a `Stretch` names.
    """
    file = file or LogFile()
    first = -BEFORE_BYTES if offset < 0 else max(0, offset - BEFORE_BYTES)
    length = BEFORE_BYTES if offset < 0 else offset - first + AFTER_BYTES
    args = {"path": path or run.log, "offset": first, "length": length, "inode": file.inode, "beside": run.log}
    with _told():
        reply = await desk.link.call("read_log", args, file.head)
    data, size, first = bytes(reply.body), int(reply.result["size"]), int(reply.result["offset"])
    offset = max(0, size - 1) if offset < 0 else offset
    skipped = data.find(b"\n") + 1 if first else 0
    if skipped > offset - first or (first and not skipped):
        skipped = offset - first  # one line fills all that stands before
    data, first = data[skipped:], first + skipped
    if first + len(data) < size and (end := data.rfind(b"\n") + 1) > offset - first:
        data = data[:end]
    parser = parser_of(run, first)
    records = (*parser.feed(data), *parser.close())
    found = LogFile(int(reply.result["inode"]), bytes.fromhex(reply.result["head"]))
    name, older, newer = (str(reply.result.get(key) or "") for key in ("name", "older", "newer"))
    return Stretch(records, first, first + len(data), size, found, "" if name == run.log else name, older, newer)


async def beside(desk: Desk, run: Run, file: LogFile | None, way: int) -> Stretch | None:
    """Return what stands nearest in the file that a log was before (way -1) or after a file of it; `None`: there is none."""
    with _told():
        older, newer = await log_parts.beside(desk, run, file=file)
    path = newer if way > 0 else older
    return await around(desk, run, 0 if way > 0 else -1, path=path) if path else None


async def wanted_of(
    desk: Desk, run: Run, wanted: RecordFilter, edge: int, way: int, file: LogFile | None = None
) -> AsyncGenerator[Found | Stretch, None]:
    """Look for the next records that a filter wants, and yield how far that has come, and at last what was found.

    Args:
        desk: The host.
        run: Whose log.
        wanted: The filter.
        edge: Offset to begin at.
        way: 1 for what comes behind it, -1 for what stands before.
        file: Which file is meant, as for `around`.
    """
    from console.operations import log_search

    inside: dict[int, LogRecord] = {}
    end = size = edge
    limit, asked = FOUND, None
    while not inside and asked != end:  # the host tells more lines than the filter takes records
        asked = end
        first, last = (end, None) if way > 0 else (0, end)
        source = log_search.search(
            desk, run, wanted, first=first, last=last, backward=way < 0, limit=limit, block=BLOCK_BYTES, file=file
        )
        with _told():
            async with contextlib.aclosing(source) as finds:
                async for found in finds:
                    inside |= {one.offset: one for one in found.records if (one.offset >= edge) is (way > 0)}
                    end, size = found.at, found.size or size
                    yield found
        limit *= 8
    span = (edge, max(edge, end)) if way > 0 else (min(edge, end), edge)
    records = tuple(inside[at] for at in sorted(inside))
    yield Stretch(records, *span, max(size, span[1]), file or LogFile())


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except RemoteError as error:
        if error.kind != "gone":
            raise
        raise UsageError(
            "the log was rotated, and what stood here is not on the host any more",
            error.title,
            "what is shown stays; G follows the log that is there now",
        ) from error

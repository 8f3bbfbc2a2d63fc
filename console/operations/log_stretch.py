"""A stretch of a log around a byte of it, however long the log is."""

from __future__ import annotations

from dataclasses import dataclass

from console.domain.run import LogRecord, Run
from console.operations.desk import Desk
from console.operations.log_parts import parser_of

BEFORE_BYTES = 256 * 1024
AFTER_BYTES = 512 * 1024


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

    @property
    def is_end(self) -> bool:
        """Whether nothing comes behind it yet."""
        return self.last >= self.size


async def around(desk: Desk, run: Run, offset: int) -> Stretch:
    """Return the records around a byte of a run's log, in one round trip.

    A record of many lines that begins before the stretch, or goes on behind it, is not whole.

    Args:
        desk: The host.
        run: Whose log.
        offset: Of a record's first byte; of a log that has become shorter, there may be nothing.
    """
    first = max(0, offset - BEFORE_BYTES)
    args = {"path": run.log, "offset": first, "length": offset - first + AFTER_BYTES}
    reply = await desk.link.call("read_log", args)
    data, size = bytes(reply.body), int(reply.result["size"])
    skipped = data.find(b"\n") + 1 if first else 0
    if skipped > offset - first or (first and not skipped):
        skipped = offset - first  # one line fills all that stands before
    data, first = data[skipped:], first + skipped
    if first + len(data) < size and (end := data.rfind(b"\n") + 1) > offset - first:
        data = data[:end]
    parser = parser_of(run, first)
    return Stretch((*parser.feed(data), *parser.close()), first, first + len(data), size)

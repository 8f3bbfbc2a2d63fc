"""From the bytes of a log to records: any chunk boundary gives the same ones."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace

from console.domain.run import LogKind, LogRecord
from console.engines.prefixes import Peeled, peel
from console.engines.protocol import Grammar

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line; what is longer is cut into lines of this size."""

BLOCK_LIMIT = 3000
"""Lines of one folded record."""

_END = re.compile(rb"[\r\n]")
_FULL_STAMP = rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,80}\]"
_GLUED = re.compile(
    rb"(?<=[^\s])(?=" + _FULL_STAMP + rb")"
    rb"|(?<=\])(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - |\([A-Za-z_]\w* pid=\d+|(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:)"
)
_OWN_STAMP = re.compile(rb"(?:\x1b\[[0-9;]*m)*\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m$")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Killed)\b(?::|$)"
)
_WARNING = re.compile(r"\S+:\d+: \w*Warning: ")
_BAR = re.compile(r"\d+%(?: Completed)? ?\|")
_CHAINED = ("Traceback (most recent call last)", "During handling of the above", "The above exception was")


@dataclass(slots=True)
class _Block:
    """A record that further lines may belong to."""

    head: Peeled
    how: str
    """`error`, `traceback`, `dump`, `warning` or `usage`."""
    offset: int
    raws: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    blanks: int = 0
    thrown: bool = False
    """The exception line of the latest traceback has been seen."""


class LogParser:
    """Feeds on the bytes of one log and returns whole records.

    Args:
        grammar: The engine's messages.
        offset: Byte offset of the first byte that will be fed.
        utc_offset_s: Of the log's local times; `None` leaves records without a time.
    """

    def __init__(self, grammar: Grammar, *, offset: int = 0, utc_offset_s: int | None = None) -> None:
        self._grammar = grammar
        self._utc_offset_s = utc_offset_s
        self._rest = bytearray()
        self._offset = offset
        self._blocks: dict[object, _Block] = {}

    @property
    def offset(self) -> int:
        """Offset of the first byte that is in no complete line yet."""
        return self._offset

    @property
    def fed(self) -> int:
        """Offset behind the last byte that was fed."""
        return self._offset + len(self._rest)

    @property
    def pending(self) -> str:
        """The line that has not ended yet: a progress bar that will be drawn over."""
        return self._rest.decode("utf-8", "replace")

    def feed(self, data: bytes) -> list[LogRecord]:
        """Take the next bytes; return the records that they complete."""
        searched = len(self._rest)
        self._rest += data
        records: list[LogRecord] = []
        start = 0
        for match in _END.finditer(self._rest, searched):
            self._cut(start, match.start(), records)
            start = match.end()
        while len(self._rest) - start > LINE_LIMIT:
            self._line(bytes(self._rest[start : start + LINE_LIMIT]), self._offset + start, records)
            start += LINE_LIMIT
        if start:
            del self._rest[:start]
            self._offset += start
        return records

    def settle(self) -> list[LogRecord]:
        """Return the records that wait for more lines, since the log has gone quiet."""
        records: list[LogRecord] = []
        for key in list(self._blocks):
            self._close_block(key, records)
        return records

    def close(self) -> list[LogRecord]:
        """Return what is left: the log has ended."""
        records: list[LogRecord] = []
        if self._rest:
            self._line(bytes(self._rest), self._offset, records)
            self._offset += len(self._rest)
            self._rest.clear()
        return records + self.settle()

    def _cut(self, start: int, end: int, records: list[LogRecord]) -> None:
        while end - start > LINE_LIMIT:
            self._line(bytes(self._rest[start : start + LINE_LIMIT]), self._offset + start, records)
            start += LINE_LIMIT
        self._line(bytes(self._rest[start:end]), self._offset + start, records)

    def _line(self, raw: bytes, offset: int, records: list[LogRecord]) -> None:
        for at, piece in _pieces(raw):
            text = piece.decode("utf-8", "replace")
            self._piece(text, peel(text, self._utc_offset_s), offset + at, records)

    def _piece(self, raw: str, peeled: Peeled, offset: int, records: list[LogRecord]) -> None:
        key = peeled.source.get("container")
        block = self._blocks.get(key)
        if block is not None:
            if _continues(block, peeled):
                block.raws += [""] * block.blanks + [raw]
                block.texts += [""] * block.blanks + [peeled.message]
                block.blanks = 0
                return
            if not peeled.message.strip() and not peeled.prefixed:
                block.blanks += 1
                return
            self._close_block(key, records)
        if not peeled.message.strip() and not peeled.prefixed:
            return
        how = _opens(peeled)
        if how:
            self._blocks[key] = _Block(peeled, how, offset, [raw], [peeled.message], thrown=False)
            return
        records.append(self._record(peeled, peeled.message, raw, offset))

    def _close_block(self, key: object, records: list[LogRecord]) -> None:
        block = self._blocks.pop(key)
        records.append(self._record(block.head, "\n".join(block.texts), "\n".join(block.raws), block.offset))

    def _record(self, peeled: Peeled, message: str, raw: str, offset: int) -> LogRecord:
        ranks = peeled.source.get("ranks")
        sense = self._grammar.sense(
            message, ranks if isinstance(ranks, dict) else {}, peeled.clock, peeled.stamped and not peeled.foreign
        )
        if peeled.foreign and sense.kind in (LogKind.DECODE, LogKind.PREFILL, LogKind.PHASE):
            sense = replace(sense, kind=LogKind.OTHER)
        return LogRecord(
            kind=sense.kind,
            raw=raw,
            time=peeled.time,
            clock=peeled.clock,
            source=peeled.source,
            values=sense.values,
            severity=sense.severity or peeled.severity,
            cause=sense.cause,
            lines=sense.lines,
            offset=offset,
        )


def _pieces(raw: bytes) -> list[tuple[int, bytes]]:
    """Split a line where another record was written into it without a line end."""
    if b"-" not in raw or _OWN_STAMP.match(raw):
        return [(0, raw)]  # a stamp inside a stamped line is most likely what a user sent
    glued = (match.start() for match in _GLUED.finditer(raw))
    cuts = [0, *(at for at in glued if not _COLOUR.search(raw, max(0, at - 12), at)), len(raw)]
    return [(start, raw[start:end]) for start, end in itertools.pairwise(cuts) if start < end or not raw]


def _opens(peeled: Peeled) -> str:
    message = peeled.message
    if "Traceback (most recent call last):" in message[-200:]:
        return "traceback"
    if message.startswith("ERROR:") or peeled.severity == "error":
        return "error"
    if message.startswith("Pyspy dump for PID"):
        return "dump"
    if peeled.foreign == "glog" or (not peeled.prefixed and _WARNING.match(message)):
        return "warning"
    if not peeled.prefixed and message.startswith("usage: "):
        return "usage"
    return ""


def _continues(block: _Block, peeled: Peeled) -> bool:
    if peeled.prefixed or len(block.texts) >= BLOCK_LIMIT or not peeled.message.strip():
        return False
    message = peeled.message
    indented = message[0] in " \t"
    if _BAR.search(message[:200]):
        return False
    if block.how in ("warning", "usage"):
        return indented and not block.blanks
    if block.how == "dump":
        return True
    if message.startswith(_CHAINED):
        block.how, block.thrown = "traceback", False
        return True
    if block.how == "error":
        return False
    if indented:
        return True
    if _EXCEPTION.match(message):
        if block.thrown:
            return False
        block.thrown = True
        return True
    return not block.blanks

"""From the bytes of a log to records: any chunk boundary gives the same ones."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from console.domain.run import LogKind, LogRecord
from console.engines.clocks import Zone
from console.engines.folding import TRACEBACK, RankFold
from console.engines.prefixes import Peeled, Stamp, peel, stamp_of
from console.engines.protocol import Grammar

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line; what is longer is cut into lines of this size."""

BLOCK_LIMIT = 3000
"""Lines of one folded record."""

BLOCK_BYTES = 16 * 1024 * 1024
"""Characters of one folded record."""

STALE = 100
"""Lines of others after which a record that waits for more of its own is taken as whole."""

_END = re.compile(rb"[\r\n]")
_NEWLINE = 10
_RETURN = b"\r"
_FULL_STAMP = rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,80}\]"
_GLUED = re.compile(
    rb"(?<=[^\s])(?=" + _FULL_STAMP + rb")"
    rb"|(?<=\])(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - |\([A-Za-z_]\w* pid=\d+|(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:)"
)
_OWN_STAMP = re.compile(rb"(?:\x1b\[[0-9;]*m)*\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m$")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?(?:Exception|[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Killed))\b(?::|$)"
)
_WARNING = re.compile(r"\S+:\d+: \w*Warning: ")
_BAR = re.compile(r"\d+%(?: Completed)? ?\|")
_TRACEBACK_END = (f"{TRACEBACK}:", f"{TRACEBACK}: ")
_LISTED = re.compile(r"[-*] |\d+\. |[A-Z][\w ]{2,60}:$")
"""Paragraphs of a long exception: the next one after an empty line."""
_OPENING = ("ERROR:", "Pyspy ")
"""What a stamped message that goes on in further lines begins with, besides tracebacks."""
_CHAINED = (TRACEBACK, "During handling of the above", "The above exception was")
_NATIVE = ("terminate called ", "Fatal Python error: ", "!!!!!!! Segfault encountered", "*** SIG")
_NATIVE_MORE = re.compile(
    r"[ \t]|frame #\d+|Exception raised from |Thread 0x|Current thread |Extension modules: |<no Python frame>|\*\*\* "
)
_STATS = "Avg prompt throughput: "
_OLD_STATS = "CPU KV cache usage: "
_STATS_MORE = "Prefix cache hit rate: GPU: "
"""vLLM up to 0.6 said in a line of its own what belongs to the line before."""

_DUMP_MORE = re.compile(r"[ \t]|Process \d+: |Python v|Thread |Arguments:|Locals:|Warning: |Error: ")


_KEY = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:admin_)?api_key['\"]?(?:=|: ?)|--(?:admin-)?api[-_]key[= ]+)"
    rb"(?P<value>\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,'\"\[\])}]+)"
)
"""Arguments as engines tell them at their start; `--api-key API_KEY` is of a usage."""
_NO_KEY = re.compile(rb"None|null|True|False|\W*|[A-Z_]+")


@dataclass(slots=True)
class _Block:
    """A record that further lines may belong to."""

    head: Peeled
    how: str
    """`error`, `traceback`, `native`, `dump`, `warning`, `usage`, `stats` or `levelled`."""
    offset: int
    raws: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    size: int = 0
    blanks: int = 0
    thrown: bool = False
    """The exception line of the latest traceback has been seen."""
    fed_at: int = 0
    """Number of the line that came last."""

    def add(self, raw: str, text: str) -> None:
        """Take one more line, and the empty ones before it."""
        self.raws += [""] * self.blanks + [raw]
        self.texts += [""] * self.blanks + [text]
        self.size += len(raw)
        self.blanks = 0


class LogParser:
    """Feeds on the bytes of one log and returns whole records.

    Args:
        grammar: The engine's messages.
        offset: Byte offset of the first byte that will be fed.
        utc_offset_s: Of the log's local times; `None` leaves records without a time.
        since: A moment near which the log begins, in seconds since the epoch: the year of stamps that have none.
    """

    def __init__(
        self, grammar: Grammar, *, offset: int = 0, utc_offset_s: int | None = None, since: float | None = None
    ) -> None:
        self._grammar = grammar
        self._zone = Zone(utc_offset_s, since)
        self._rest = bytearray()
        self._after_return = False
        self._offset = offset
        self._blocks: dict[object, _Block] = {}
        self._fold = RankFold()
        self._lines = 0
        self._latest: tuple[str, Stamp | None, str | None] = ("", None, None)
        """What the latest stamped line began with, what that says, and when it was: most lines begin as the last one."""
        self._waiting: list[tuple[LogRecord, str]] = []

    @property
    def offset(self) -> int:
        """Offset of the first byte that is in no complete line yet."""
        return self._offset

    @property
    def told(self) -> int:
        """Offset of the first byte that is in no returned record yet: where another parser can go on."""
        waiting = [block.offset for block in self._blocks.values()] + [record.offset for record, _ in self._waiting]
        return min([*waiting, *self._fold.offsets, self._offset])

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
        records: list[LogRecord] = []
        if self._after_return or _RETURN in data:
            self._part_by_hand(data, records)
        elif end := data.rfind(b"\n") + 1:  # what comes in floods has no carriage returns
            whole = bytes(self._rest) + data[: end - 1]
            self._rest[:] = data[end:]
            for raw in whole.split(b"\n"):
                self._cut(raw, self._offset, records)
                self._offset += len(raw) + 1
        else:
            self._rest += data
        start = 0
        while len(self._rest) - start > LINE_LIMIT:
            self._line(bytes(self._rest[start : start + LINE_LIMIT]), self._offset + start, records)
            start += LINE_LIMIT
        if start:
            del self._rest[:start]
            self._offset += start
        return records

    def _part_by_hand(self, data: bytes, records: list[LogRecord]) -> None:
        """Part bytes at newlines and carriage returns, and at both together once."""
        searched = len(self._rest)
        self._rest += data
        start = 0
        for match in _END.finditer(self._rest, searched):
            end = match.start()
            newline = self._rest[end] == _NEWLINE
            if end > start or not (newline and self._after_return):
                self._cut(bytes(self._rest[start:end]), self._offset + start, records)
            self._after_return = not newline
            start = end + 1
        del self._rest[:start]
        self._offset += start

    def settle(self) -> list[LogRecord]:
        """Return the records that wait for more lines, since the log has gone quiet."""
        records: list[LogRecord] = []
        for key in list(self._blocks):
            self._close_block(key, records)
        return records + self._fold.flush()

    def close(self) -> list[LogRecord]:
        """Return what is left: the log has ended."""
        records: list[LogRecord] = []
        if self._rest:
            self._line(_without_keys(bytes(self._rest)), self._offset, records)
            self._offset += len(self._rest)
            self._rest.clear()
        return records + self.settle()

    def _cut(self, raw: bytes, offset: int, records: list[LogRecord]) -> None:
        """Take one line; those of a flood need no more than a look at their stamp."""
        raw = _without_keys(raw)
        if raw[:1] == b"[" and not (self._blocks or self._waiting or self._fold.held) and len(raw) <= LINE_LIMIT:
            text = raw.decode("utf-8", "replace")
            if "\x1b" not in text and TRACEBACK not in text and (record := self._stamped(text, offset)) is not None:
                records.append(record)
                return
        while len(raw) > LINE_LIMIT:
            self._line(raw[:LINE_LIMIT], offset, records)
            offset, raw = offset + LINE_LIMIT, raw[LINE_LIMIT:]
        self._line(raw, offset, records)

    def _stamped(self, text: str, offset: int) -> LogRecord | None:
        """Return the record of a stamped line that stands alone; `None` when it may be anything else."""
        lead, stamp, time = self._latest
        if stamp is None or not text.startswith(lead):
            found = stamp_of(text)
            if found is None:
                return None
            stamp, begin = found
            lead = text[:begin]
            time = self._zone.moment(stamp.date, stamp.time_of_day) if stamp.date else None
            self._latest = lead, stamp, time
        message = text[len(lead) :]
        if message.startswith(_OPENING):
            return None
        kind, values, severity, cause, lines = self._grammar.sense(message, stamp.ranks, stamp.clock, True)
        return LogRecord(kind, text, time, stamp.clock, stamp.source, values, severity, cause, lines, offset)

    def _line(self, raw: bytes, offset: int, records: list[LogRecord]) -> None:
        if raw.startswith(b"\0"):  # a hole: the file was truncated under its writer
            offset, raw = offset + len(raw), raw.lstrip(b"\0")
            offset -= len(raw)
        # a stamp inside a stamped line is most likely what a user sent
        for at, piece in [(0, raw)] if _OWN_STAMP.match(raw) else _pieces(raw):
            text = piece.decode("utf-8", "replace")
            self._piece(text, peel(text, self._zone), offset + at, records)

    def _piece(self, raw: str, peeled: Peeled, offset: int, records: list[LogRecord]) -> None:
        blank = not peeled.prefixed and not peeled.message.strip()
        if self._blocks:
            self._lines += 1
            self._close_stale(records)
            key = peeled.writer
            if block := self._blocks.get(key):
                if blank:
                    block.blanks += 1
                    return
                if _continues(block, peeled):
                    block.add(raw, peeled.without_where() if peeled.prefixed else peeled.message)
                    block.fed_at = self._lines
                    return
                self._close_block(key, records)
        if blank:
            return
        if how := _opens(peeled):
            block = self._blocks[peeled.writer] = _Block(peeled, how, offset, fed_at=self._lines)
            block.add(raw, peeled.message)
            return
        if not self._blocks and not self._waiting:
            records += self._fold.take(self._record(peeled, peeled.message, raw, offset), peeled.message)
        else:
            self._add(self._record(peeled, peeled.message, raw, offset), peeled.message, records)

    def _close_stale(self, records: list[LogRecord]) -> None:
        """Close what nothing was added to for long: others write, and theirs shall not wait."""
        for key in [key for key, block in self._blocks.items() if self._lines - block.fed_at > STALE]:
            self._close_block(key, records)

    def _close_block(self, key: object, records: list[LogRecord]) -> None:
        block = self._blocks.pop(key)
        text = "\n".join(block.texts)
        self._add(self._record(block.head, text, "\n".join(block.raws), block.offset), text, records)

    def _add(self, record: LogRecord, text: str, records: list[LogRecord]) -> None:
        """Let records go in the order in which they begin: none before one that is still open."""
        self._waiting.append((record, text))
        first = min((block.offset for block in self._blocks.values()), default=None)
        if first is None or first > record.offset:
            self._waiting.sort(key=_begins)
            while self._waiting and (first is None or self._waiting[0][0].offset < first):
                records += self._fold.take(*self._waiting.pop(0))

    def _record(self, peeled: Peeled, message: str, raw: str, offset: int) -> LogRecord:
        ranks = peeled.source.get("ranks")
        foreign = bool(peeled.foreign) and peeled.foreign not in self._grammar.own
        sense = self._grammar.sense(
            message, ranks if isinstance(ranks, dict) else {}, peeled.clock, peeled.prefixed and not foreign
        )
        if foreign and sense.kind in (LogKind.DECODE, LogKind.PREFILL, LogKind.PHASE):
            sense = sense._replace(kind=LogKind.OTHER)
        return LogRecord(
            sense.kind,
            raw,
            peeled.time,
            peeled.clock,
            peeled.source,
            sense.values,
            sense.severity or peeled.severity,
            sense.cause,
            sense.lines,
            offset,
        )


def _without_keys(raw: bytes) -> bytes:
    """Return a line with the keys in it starred, as long as before: what stands behind them stays where it is."""
    return _KEY.sub(_starred, raw) if b"api" in raw and (b"api_key" in raw or b"--" in raw) else raw


def _starred(match: re.Match[bytes]) -> bytes:
    value = match["value"]
    if _NO_KEY.fullmatch(value):
        return match[0]
    quotes = len(value) > 1 and value[:1] in b"'\"["
    return match["name"] + (value[:1] + b"*" * (len(value) - 2) + value[-1:] if quotes else b"*" * len(value))


def _begins(waiting: tuple[LogRecord, str]) -> int:
    return waiting[0].offset


def _pieces(raw: bytes) -> list[tuple[int, bytes]]:
    """Split a line where another record was written into it without a line end."""
    if b"-" not in raw or raw.startswith(b'{"'):  # Docker's own files, and loggers of JSON, quote the line
        return [(0, raw)]
    glued = (match.start() for match in _GLUED.finditer(raw))
    cuts = [0, *(at for at in glued if not _COLOUR.search(raw, max(0, at - 12), at)), len(raw)]
    return [(start, raw[start:end]) for start, end in itertools.pairwise(cuts) if start < end or not raw]


def _opens(peeled: Peeled) -> str:
    message = peeled.message
    if message.endswith(_TRACEBACK_END):
        return "traceback"
    if peeled.stamped and not message.startswith(_OPENING):
        return ""
    if peeled.foreign == "levelled" and peeled.severity == "error":
        return "levelled"
    if _OLD_STATS in message and peeled.foreign and peeled.without_where().startswith(_STATS):
        return "stats"
    if message.startswith("ERROR:") or (peeled.severity == "error" and peeled.foreign != "glog"):
        return "error"
    if message.startswith("Pyspy dump for PID"):
        return "dump"
    if peeled.foreign == "glog" or (not peeled.prefixed and _WARNING.match(message)):
        return "warning"
    if not peeled.prefixed and message.startswith(_NATIVE):
        return "native"
    if not peeled.prefixed and message.startswith("usage: "):
        return "usage"
    return ""


def _continues(block: _Block, peeled: Peeled) -> bool:
    if len(block.texts) >= BLOCK_LIMIT or block.size >= BLOCK_BYTES:
        return False
    head, message = block.head, peeled.message
    if block.how == "stats":
        return bool(peeled.foreign) and peeled.without_where().startswith(_STATS_MORE) and len(block.texts) == 1
    if peeled.prefixed:
        return (
            head.foreign == peeled.foreign == "levelled"
            and (head.severity, head.clock) == ("error", peeled.clock)
            and head.message.partition("] ")[0] == message.partition("] ")[0]
        )
    if head.foreign == "levelled":
        return block.how == "traceback" and message[:1] in (" ", "\t")
    if _BAR.search(message[:200]):
        return False
    if block.how == "dump":
        return _DUMP_MORE.match(message) is not None
    if block.how == "native" or head.foreign == "glog":
        return _NATIVE_MORE.match(message) is not None
    if block.how in ("warning", "usage"):
        return message[0] in " \t" and not block.blanks
    if message.startswith(_CHAINED) or message.endswith(_TRACEBACK_END):
        block.how, block.thrown = "traceback", False
        return True
    if block.how == "error":
        return False
    return _in_traceback(block, message)


def _in_traceback(block: _Block, message: str) -> bool:
    if message[0] in " \t":
        return True
    if _EXCEPTION.match(message):
        if block.thrown:
            return False
        block.thrown = True
        return True
    return not block.blanks or (block.thrown and _LISTED.match(message) is not None)

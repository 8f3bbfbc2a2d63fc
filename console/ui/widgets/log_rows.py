"""The rows of a log as the pane keeps them: bounded, folded, bars as one live row, marks between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime

from console.domain.run import LogKind, LogRecord
from console.operations.log_filter import RecordFilter
from console.operations.log_parts import LogFile
from console.operations.polls import is_poll

LINES_KEPT = 100_000
CHARACTERS_KEPT = 64 << 20
"""The oldest rows go when there are more, or when their text is longer."""

CHUNK = 1000

RAW_KEPT = 64 * 1024
"""Characters of one record that are kept; what is longer is read again from the host when it is opened."""

HEAD_KEPT = 4096
"""Characters that are kept of such a record."""

NO_FILE = LogFile()

POLL = "poll"
"""Word of an access line that comes from being watched."""

MARK = "mark"

_BARS_AGO = 50
"""A bar that was drawn so many rows ago is drawn in its old place; later it is another bar."""


class Row:
    """One record, or a mark, as it is shown; what a filter asks for is here."""

    __slots__ = ("file", "kind", "length", "offset", "opened", "raw", "severity", "source", "time", "word")

    def __init__(self, record: LogRecord, file: LogFile = NO_FILE) -> None:
        raw = record.raw
        self.kind = record.kind
        self.severity = record.severity
        self.source = record.source
        self.time = record.time
        self.offset = record.offset
        self.file = file
        """Which file of the log it stands in."""
        self.length = 0
        """Bytes of the whole record, when only its head is kept."""
        if len(raw) > RAW_KEPT:
            self.length = len(raw.encode("utf-8", "surrogateescape"))
            raw = raw[:HEAD_KEPT]
        self.raw = raw
        self.opened = False
        self.word: str = "failure" if self.kind is LogKind.FAILURE else self.severity or self.kind
        if self.kind is LogKind.ACCESS and is_poll(record):
            self.word = POLL

    @property
    def lines(self) -> int:
        """Lines of the record that are kept."""
        return self.raw.count("\n") + 1

    @property
    def level(self) -> int:
        """2 for failures and errors, 1 for warnings."""
        return 2 if self.word in ("failure", "error") else 1 if self.word == "warning" else 0

    @property
    def moment(self) -> float | None:
        """Seconds since the epoch, when the log's zone is known."""
        return moment_of(self.time)


Item = tuple[Row, int]
"""A row and the line of it."""


def mark_row(time: float, sign: str, text: str, clock: str) -> Row:
    """Return the row of a mark."""
    row = Row(
        LogRecord(LogKind.OTHER, f"{sign} {clock}  {text}", datetime.fromtimestamp(time).astimezone().isoformat())
    )
    row.word = MARK
    return row


def moment_of(time: str | None) -> float | None:
    """Return a record's time in seconds since the epoch."""
    if time is None:
        return None
    zone = time[19:].lstrip(".0123456789") or "Z"
    try:
        return datetime.fromisoformat(time[:19] + zone.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


class Ring:
    """Items in chunks: adding at the end and dropping at the start cost nothing, and any item is found at once."""

    def __init__(self, kept: int = LINES_KEPT, characters: int = CHARACTERS_KEPT) -> None:
        self._last: list[Item] = []
        self._chunks = [self._last]
        self._ends: deque[int] = deque()
        """Characters added up to the end of each full chunk."""
        self._most = max(1, kept // CHUNK)
        self._characters = characters
        self._added = self._gone = 0
        self.dropped = 0

    def __len__(self) -> int:
        return (len(self._chunks) - 1) * CHUNK + len(self._last)

    def __getitem__(self, index: int) -> Item:
        return self._chunks[index // CHUNK][index % CHUNK]

    def __iter__(self) -> Iterator[Item]:
        for chunk in self._chunks:
            yield from chunk

    def add(self, item: Item) -> None:
        """Add an item; when there are too many, the oldest chunk goes."""
        if len(self._last) == CHUNK:
            self._next_chunk()
        self._last.append(item)
        if not item[1]:
            self._added += len(item[0].raw)

    def _next_chunk(self) -> None:
        self._last = []
        self._chunks.append(self._last)
        self._ends.append(self._added)
        while self._ends and (len(self._chunks) > self._most or self._added - self._gone > self._characters):
            del self._chunks[0]
            self._gone = self._ends.popleft()
            self.dropped += CHUNK


class Book:
    """All rows, and those that are shown."""

    def __init__(self) -> None:
        self.all = Ring()
        self.shown = Ring()
        self.filter = RecordFilter()
        self.polls = 0
        self.polls_shown = False
        self.fed = 0
        """Lines that were shown or could be: polls are not counted."""
        self._all = True
        self._bars: dict[str, tuple[Row, int]] = {}

    def feed(self, record: LogRecord, file: LogFile = NO_FILE) -> None:
        """Take a record."""
        if record.kind is LogKind.PROGRESS and self._redraw(record, file):
            return
        row = Row(record, file)
        item = (row, 0)
        self.all.add(item)
        if row.word == POLL:
            self.polls += 1
        else:
            self.fed += 1
        if self._wants(row, record):
            self.shown.add(item)
        if record.kind is LogKind.PROGRESS:
            self._bars[str(record.values.get("label"))] = (row, self.fed)

    @property
    def oldest(self) -> Row | None:
        """The oldest record at hand."""
        return next((row for row, _ in self.all if row.word != MARK), None)

    def mark(self, row: Row) -> bool:
        """Take a mark and put it where its time is; return whether the rows were laid out again for that."""
        later = self._later(row)
        if not later:
            self.all.add((row, 0))
            if self._wants(row):
                self.shown.add((row, 0))
            return False
        if later == len(self.all) and (oldest := self.oldest) is not None and oldest.offset:
            return False  # of a time whose records are not at hand
        items = list(self.all)
        items.insert(len(items) - later, (row, 0))
        self.all = Ring()
        for item in items:
            self.all.add(item)
        self.refold()
        return True

    def _later(self, mark: Row) -> int:
        """Return how many rows at the end are of a later time; of none, when no row tells its time."""
        moment, later = mark.moment, 0
        if moment is None:
            return 0
        total = len(self.all)
        for number in range(1, total + 1):
            told = self.all[total - number][0].moment
            if told is not None and told <= moment:
                break
            if told is not None:
                later = number
        return later

    def choose(self, wanted: RecordFilter) -> None:
        """Show what a filter wants."""
        self.filter, self._all = wanted, wanted.wants_all
        self.refold()

    def refold(self) -> None:
        """Lay the rows out again: a filter or a fold has changed."""
        self.shown = Ring()
        for row, _ in self.all:
            if self._wants(row):
                self.shown.add((row, 0))
                if row.opened:
                    for line in range(1, row.lines):
                        self.shown.add((row, line))

    def open_all(self, opened: bool) -> None:
        """Unfold every record of several lines, or fold them."""
        for row, _ in self.all:
            row.opened = opened and "\n" in row.raw
        self.refold()

    def place(self, row: Row) -> int:
        """Return where a row is shown; -1 when it is not."""
        return next((index for index, item in enumerate(self.shown) if item[0] is row), -1)

    def _wants(self, row: Row, record: LogRecord | None = None) -> bool:
        if self._all:
            return self.polls_shown or row.word != POLL
        return row.word != MARK and self.filter.accepts(record or row)

    def _redraw(self, record: LogRecord, file: LogFile) -> bool:
        """Draw a bar where it was drawn before; a finished one stays, and the next begins anew."""
        label = str(record.values.get("label"))
        row, fed = self._bars.get(label, (None, 0))
        if row is None or self.fed - fed > _BARS_AGO:
            return False
        row.raw, row.offset, row.time = record.raw[:HEAD_KEPT], record.offset, record.time
        row.file = file
        self._bars[label] = (row, self.fed)
        if record.values.get("done") == record.values.get("total"):
            del self._bars[label]
        return True

"""Log viewer: a bounded ring of lines that takes any rate and paints at its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import var

from console.domain.run import LogKind, LogRecord
from console.domain.text import SafeText, clean
from console.operations.polls import is_poll
from console.ui.drawing import Span, wrapped
from console.ui.widgets.lines import Lines

LINES_KEPT = 100_000
CHUNK = 1000
PAINTS_PER_S = 8

POLL = "poll"
"""Kind of an access line that comes from being watched."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
"""Colours of the log's own say nothing here; any other sequence is shown as signs."""

Row = tuple[str, SafeText]
"""Severity or kind, and the text."""


class Ring:
    """Rows in chunks: adding at the end and dropping at the start cost nothing, and any row is found at once."""

    def __init__(self, kept: int = LINES_KEPT) -> None:
        self._chunks: list[list[Row]] = [[]]
        self._most = max(1, kept // CHUNK)
        self.dropped = 0

    def __len__(self) -> int:
        return (len(self._chunks) - 1) * CHUNK + len(self._chunks[-1])

    def __getitem__(self, index: int) -> Row:
        return self._chunks[index // CHUNK][index % CHUNK]

    def add(self, row: Row) -> None:
        """Add a row; when there are too many, the oldest chunk goes."""
        if len(self._chunks[-1]) == CHUNK:
            self._chunks.append([])
            if len(self._chunks) > self._most:
                del self._chunks[0]
                self.dropped += CHUNK
        self._chunks[-1].append(row)


def rows_of(record: LogRecord) -> list[Row]:
    """Return the rows of a record, made safe."""
    kind = "failure" if record.kind is LogKind.FAILURE else record.severity or record.kind.value
    if kind == "access" and is_poll(record):
        kind = POLL
    return [(kind, clean(_COLOUR.sub("", line))) for line in record.raw.split("\n")]


class LogView(Lines):
    """Lines of a server's log."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("G,end", "follow", show=False)]

    following: var[bool] = var(True)
    """Whether the window stays at the end."""

    def __init__(self) -> None:
        super().__init__(id="log")
        self.all = Ring()
        self.calm = Ring()
        """All rows but the polls."""
        self.some: Ring | None = None
        """Rows that match the filter, when there is one; polls too."""
        self.polls = 0
        self.polls_shown = False
        self.pattern: re.Pattern[str] | None = None
        self.reason = ""
        self.foreign = ""
        """Why a server has no log here: it is not ours."""
        self.fed = 0
        self._dirty = False
        self._dropped = 0

    @property
    def rows(self) -> Ring:
        """The rows shown."""
        if self.some is not None:
            return self.some
        return self.all if self.polls_shown else self.calm

    def on_mount(self) -> None:
        """Paint at a fixed rate, whatever arrives."""
        self.set_interval(1 / PAINTS_PER_S, self._flush)

    def feed(self, records: Iterable[LogRecord]) -> None:
        """Take records; cheap at any rate."""
        for record in records:
            for row in rows_of(record):
                self.all.add(row)
                if row[0] == POLL:
                    self.polls += 1
                else:
                    self.calm.add(row)
                    self.fed += 1
                if self.some is not None and self.pattern is not None and self.pattern.search(row[1]):
                    self.some.add(row)
        self._dirty = True

    def clear(self) -> None:
        """Forget everything: another run's log follows."""
        self.all, self.calm, self.polls = Ring(), Ring(), 0
        self._dropped = 0
        self.filter(self.pattern)

    def show_polls(self, shown: bool) -> None:
        """Show the access lines of polls, or hide them."""
        self.polls_shown = shown
        self._dropped = self.rows.dropped
        self.set_reactive(LogView.cursor, max(0, min(self.cursor, len(self.rows) - 1)))
        self._dirty = True
        self._flush()

    def filter(self, pattern: re.Pattern[str] | None) -> None:
        """Show only rows that match, or all."""
        self.pattern = pattern
        self.some = None
        if pattern is not None:
            self.some = Ring()
            for index in range(len(self.all)):
                if pattern.search(self.all[index][1]):
                    self.some.add(self.all[index])
        self._dropped = self.rows.dropped
        self._dirty = True
        self._flush()

    def _flush(self) -> None:
        if not self._dirty or not self.is_on_screen:
            return
        self._dirty = False
        total = len(self.rows)
        dropped, self._dropped = self.rows.dropped - self._dropped, self.rows.dropped
        self.virtual_size = Size(self.widest(), total)
        if self.following:
            self.set_reactive(LogView.cursor, max(0, total - 1))
            self.scroll_to(y=total, animate=False, immediate=True, force=True)
        elif dropped:
            self.set_reactive(LogView.cursor, max(0, self.cursor - dropped))
            self.scroll_to(y=max(0, self.scroll_offset.y - dropped), animate=False, immediate=True, force=True)
        self.refresh()

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def widest(self) -> int:
        """Return a width that lets long lines be read by scrolling."""
        return 1000

    def lead(self, index: int) -> Sequence[Span]:
        """Return a sign for what is wrong."""
        kind, _ = self.rows[index]
        if kind in ("failure", "error"):
            return [("✗ ", "bad")]
        return (
            [("! ", "warn")]
            if kind == "warning"
            else [("▌ " if index == self.cursor and not self.following else "  ", "accent")]
        )

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row."""
        kind, text = self.rows[index]
        ink = {
            "failure": "bad",
            "error": "bad",
            "warning": "warn",
            "access": "dim",
            POLL: "dim",
            "progress": "dim",
            "phase": "info",
        }.get(kind, "")
        match = self.pattern.search(text) if self.pattern else None
        if match is None or match.start() == match.end():
            return [(text, ink)]
        return [(text[: match.start()], ink), (match[0], "match"), (text[match.end() :], ink)]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        if self.pattern is not None and len(self.all):
            return [
                [],
                [(f"  no line matches the filter ({len(self.all):,} lines are hidden): / and enter shows all", "dim")],
            ]
        if self.polls:
            return [[], [(f"  nothing but polls so far ({self.polls:,} hidden): o shows them", "dim")]]
        if self.foreign:
            return [[], [(f"  {clean(self.foreign)}: its log is not known here", "dim")]]
        if self.reason:
            return [[], *wrapped(clean(self.reason), self.size.width)]
        return [
            [],
            [("  the server's log, followed over reconnects", "dim")],
            [("  no run yet: x s starts the server", "dim")],
        ]

    def action_move(self, by: int) -> None:
        """Move the cursor; going up stops following."""
        if by < 0:
            self.following = False
        super().action_move(by)
        if by > 0 and self.cursor >= self.count() - 1:
            self.following = True

    def action_move_to(self, index: int) -> None:
        """Go to the first line."""
        self.following = index < 0
        super().action_move_to(index)

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.following = True
        self._dirty = True
        self._flush()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when the mouse scrolls up."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and self.following and new_value < self.max_scroll_y - 1 and not self._dirty:
            self.following = False

    def step(self, way: int) -> bool:
        """Go to the next or previous failure or warning; return whether there is one."""
        total = self.count()
        start = self.cursor + way if not self.following or way < 0 else 0
        for index in range(start, total) if way > 0 else range(start, -1, -1):
            if self.rows[index][0] in ("failure", "error", "warning"):
                self.following = False
                self.place(index)
                return True
        return False

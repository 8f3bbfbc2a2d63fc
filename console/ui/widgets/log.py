"""Log viewer: takes any rate of records and paints at its own; long records are folded, their text is drawn safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from console.domain.run import LogKind, LogRecord
from console.domain.text import SafeText, clean, counted
from console.operations.log_filter import RecordFilter
from console.operations.log_parts import LogFile
from console.operations.log_stretch import Stretch
from console.ui.drawing import Span, width_of, wrapped
from console.ui.widgets.lines import Lines
from console.ui.widgets.log_rows import MARK, NO_FILE, POLL, Book, Ring, Row
from console.ui.widgets.log_words import SHOWN, amount, cut, last_words, ranks_of, safe

PAINTS_PER_S = 8

LAST_WORDS = 60
"""Characters of what was thrown, behind a folded traceback."""

WIDEST = 2100
"""Cells that long lines can be scrolled through."""

_INKS = {
    "failure": "bad",
    "error": "bad",
    "warning": "warn",
    "access": "dim",
    POLL: "dim",
    "progress": "dim",
    "phase": "info",
    MARK: "mark",
}


class LogView(Lines):
    """Lines of a server's log."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("G,end", "follow", show=False)]

    following: var[bool] = var(True)
    """Whether the window stays at the end."""

    class Beyond(Message):
        """The cursor was to go before the first row that is at hand, or behind the last."""

        def __init__(self, way: int, far: bool = False) -> None:
            super().__init__()
            self.way = way
            self.far = far
            """Whether to the log's beginning or end."""

    class Overrun(Message):
        """So much came that the row under a paused cursor is not at hand any more."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="log")
        self.book = Book()
        self.reason = ""
        self.foreign = ""
        """Why a server has no log here: it is not ours."""
        self.missed = 0
        """Rows that came since the window stopped following."""
        self.stretch: Stretch | None = None
        """What is shown of the log, when it is not its end."""
        self._dirty = False
        self._dropped = 0
        self._read: Row | None = None
        """The row under the cursor of a paused window, before the latest rows came."""

    @property
    def rows(self) -> Ring:
        """The rows shown."""
        return self.book.shown

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """The expression of the filter that is to be seen in the rows."""
        return None if self.book.filter.inverse else self.book.filter.pattern

    def on_mount(self) -> None:
        """Paint at a fixed rate, whatever arrives."""
        self.set_interval(1 / PAINTS_PER_S, self._flush)

    def feed(self, records: Iterable[LogRecord], file: LogFile = NO_FILE) -> None:
        """Take records of a file; cheap at any rate."""
        before = len(self.rows) + self.rows.dropped
        place = self.cursor - self.rows.dropped + self._dropped
        if self.following:
            self._read = None
        elif 0 <= place < len(self.rows):
            self._read = self.rows[place][0]
        for record in records:
            self.book.feed(record, file)
        self._came(before)

    def begun_anew(self) -> None:
        """Say that the log was rotated or truncated here."""
        row = Row(LogRecord(LogKind.OTHER, "◆ the log was rotated: its file begins anew"))
        row.word = MARK
        self.mark(row)

    def mark(self, row: Row) -> None:
        """Put a mark where its time is."""
        here, before = self.here, len(self.rows) + self.rows.dropped
        if self.book.mark(row):
            self._laid_out(here)
        else:
            self._came(before)

    def _came(self, before: int) -> None:
        self.missed = 0 if self.following else self.missed + len(self.rows) + self.rows.dropped - before
        self._dirty = True

    def clear(self) -> None:
        """Forget everything: another run's log follows."""
        wanted, polls_shown = self.book.filter, self.book.polls_shown
        self.book = Book()
        self.book.choose(wanted)
        self.book.polls_shown = polls_shown
        self.stretch = None
        self._laid_out()

    def stand_at(self, offset: int, by: int = 0) -> None:
        """Put the cursor at the record that begins at a byte of the log, or so many rows from it."""
        found = (at for at, (row, line) in enumerate(self.rows) if not line and row.word != MARK)
        place = next((at for at in found if self.rows[at][0].offset >= offset), self.count())
        self.following = False
        self._dirty = True
        self._flush()
        self.virtual_size = Size(WIDEST, self.count())
        self.place(max(0, min(self.count() - 1, place + by)))

    def show_polls(self, shown: bool) -> None:
        """Show the access lines of polls, or hide them."""
        self.book.polls_shown = shown
        self.book.refold()
        self._laid_out()

    def filter(self, wanted: RecordFilter | re.Pattern[str] | None) -> None:
        """Show only rows that are wanted, or all; the row under the cursor stays there when it still is."""
        if not isinstance(wanted, RecordFilter):
            wanted = RecordFilter(pattern=wanted)
        here = self.here
        self.book.choose(wanted)
        self._laid_out(here)

    @property
    def here(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor][0] if 0 <= self.cursor < len(self.rows) else None

    def toggle_fold(self) -> bool:
        """Unfold the record under the cursor, or fold it; false when it has but one line."""
        row = self.here
        if row is None or "\n" not in row.raw:
            return False
        row.opened = not row.opened
        self.following = False
        self.book.refold()
        self._laid_out(row)
        return True

    def toggle_all(self) -> bool:
        """Unfold everything, or fold it when something is unfolded; return whether it is unfolded now."""
        here, opened = self.here, not any(row.opened for row, _ in self.book.all)
        self.book.open_all(opened)
        self._laid_out(here)
        return opened

    def _laid_out(self, here: Row | None = None) -> None:
        """Keep the cursor at its row after all rows were laid out again."""
        self._dropped = 0
        place = self.book.place(here) if here is not None and not self.following else -1
        if place < 0:
            place = max(0, min(self.cursor, len(self.rows) - 1))
        self.set_reactive(LogView.cursor, place)
        self._dirty = True
        self._flush()
        if not self.following:
            self.keep_visible()

    def _flush(self) -> None:
        if not self._dirty or not self.is_on_screen:
            return
        self._dirty = False
        total = len(self.rows)
        dropped, self._dropped = self.rows.dropped - self._dropped, self.rows.dropped
        self.virtual_size = Size(WIDEST, total)
        if self.following:
            self.set_reactive(LogView.cursor, max(0, total - 1))
            self.scroll_to(y=total, animate=False, immediate=True, force=True)
        elif dropped:
            if self.cursor < dropped and self._read is not None:
                self.post_message(self.Overrun(self._read))
            self.set_reactive(LogView.cursor, max(0, self.cursor - dropped))
            self.scroll_to(y=max(0, self.scroll_offset.y - dropped), animate=False, immediate=True, force=True)
        self.refresh()

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def widest(self) -> int:
        """Return a width that lets long lines be read by scrolling."""
        return WIDEST

    def lead(self, index: int) -> Sequence[Span]:
        """Return a sign for what is wrong."""
        row, line = self.rows[index]
        if line:
            return [("│ ", "dim")]
        if row.level:
            return [("✗ ", "bad")] if row.level > 1 else [("! ", "warn")]
        return [("▌ " if index == self.cursor and not self.following else "  ", "accent")]

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row; what is folded or cut off is told inside the window."""
        row, line = self.rows[index]
        lines = row.raw.split("\n") if "\n" in row.raw else [row.raw]
        raw = lines[line] if line < len(lines) else ""
        more = self._folded(row, lines) if len(lines) > 1 and not line else []
        size = row.length if row.length and not line else len(raw)
        if size > SHOWN:
            more.insert(0, (f" {amount(max(0, size - width))}", "accent"))
        drawn = [*self._found(safe(raw[:SHOWN]), _INKS.get(row.word, ""))]
        if not more or (row.opened and size <= SHOWN):
            return [*drawn, *more]
        space = max(width // 2, width - width_of(more))
        return [*cut(drawn, space), *more]

    def _folded(self, row: Row, lines: Sequence[str]) -> list[Span]:
        more: list[Span] = [(" ▾" if row.opened else f" ▸ {counted(len(lines) - 1, 'more line')}", "accent")]
        if many := ranks_of(row.source):
            more.append((f"  {many}", "warn"))
        if not row.opened and row.word in ("failure", "error"):
            more.append((f"  {safe(last_words(lines))[:LAST_WORDS]}", "bad"))
        return more

    def _found(self, text: SafeText, ink: str) -> list[Span]:
        match = self.pattern.search(text) if self.pattern else None
        if match is None or match.start() == match.end():
            return [(text, ink)]
        return [(text[: match.start()], ink), (match[0], "match"), (text[match.end() :], ink)]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        if not self.book.filter.wants_all and len(self.book.all):
            said = f"  no line matches the filter ({counted(len(self.book.all), 'line')} hidden): esc shows all"
            return [[], [(said, "dim")]]
        if self.book.polls:
            return [[], [(f"  nothing but polls so far ({self.book.polls:,} hidden): o shows them", "dim")]]
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
            if not self.cursor:
                self.post_message(self.Beyond(-1))
        elif self.stretch is not None and self.cursor >= self.count() - 1:
            self.post_message(self.Beyond(1))
        super().action_move(by)
        if by > 0 and self.stretch is None and self.cursor >= self.count() - 1:
            self.following = True

    def action_move_to(self, index: int) -> None:
        """Go to the log's first line."""
        self.following = False
        super().action_move_to(index)
        self.post_message(self.Beyond(-1, far=True))

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        if self.stretch is not None:
            self.post_message(self.Beyond(1, far=True))
            return
        self.following = True
        self._dirty = True
        self._flush()

    def watch_following(self, following: bool) -> None:
        """Count anew what comes while the window stands still."""
        self.missed = 0

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when the mouse scrolls up."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and self.following and new_value < self.max_scroll_y - 1 and not self._dirty:
            self.following = False

    def step(self, way: int, level: int = 1, *, anew: bool = False) -> bool:
        """Go to the next or previous row of at least a level, or the very first or last; return whether there is one."""
        total = self.count()
        start = self.cursor + way if not self.following or way < 0 else 0
        if anew:
            start = 0 if way > 0 else total - 1
        for index in range(start, total) if way > 0 else range(start, -1, -1):
            row, line = self.rows[index]
            if not line and row.level >= level:
                self.following = False
                self.place(index)
                return True
        return False

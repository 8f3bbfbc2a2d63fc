"""Runs in a list: filtered, sorted, two of them marked; each opens into its rungs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from console.domain.text import clean, dash
from console.ui.drawing import Span, fit
from console.ui.widgets.bench_ladder import HEAD, NARROW, cells
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from console.journal.records import RunEntry

HEADING = 0
"""In the place of a concurrency: the names of the columns."""

SORTS = ("newest", "best", "profile", "host")


class RunLines(Lines, Framed):
    """Runs, newest first, in brief; the one under the cursor opens into its rungs once it was read whole."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "mark", show=False)]

    def __init__(self) -> None:
        super().__init__(id="runs")
        self.entries: tuple[RunEntry, ...] = ()
        self.rows: list[tuple[RunEntry, int | None]] = []
        self.opened: set[tuple[str, str]] = set()
        self.marked: list[RunEntry] = []
        """A and B of a comparison."""
        self.read = False
        """Whether all runs are there, not only the newest."""
        self.wanted = ""
        self.sort = SORTS[0]
        self._hay: dict[tuple[str, str], str] = {}
        self._whole: dict[tuple[str, str], RunEntry] = {}
        self._tell()

    def fill(self, entries: Sequence[RunEntry], *, whole: bool = True) -> None:
        """Show runs: all of the journal, or its newest while the others are still read."""
        from console.operations.compare import found_in

        if entries and not self.entries:
            self.opened.add(entries[0].key)
        self.entries, self.read = tuple(entries), whole
        self._hay = {one.key: found_in(one) for one in entries}
        self._lay_out()

    def learn(self, entry: RunEntry) -> None:
        """Take in what was measured of a run."""
        self._whole[entry.key] = entry
        if entry.key in self.opened:
            self._lay_out()

    def known(self, entry: RunEntry) -> RunEntry | None:
        """Return a run with what was measured of it, if that was read."""
        return self._whole.get(entry.key)

    def remark(self, entry: RunEntry, tags: tuple[str, ...], note: str) -> None:
        """Show other tags and another note of a run."""
        from console.operations.compare import found_in

        def said(one: RunEntry) -> RunEntry:
            return replace(one, tags=tags, note=note) if one.key == entry.key else one

        self.entries = tuple(map(said, self.entries))
        self.marked = [*map(said, self.marked)]
        self._whole = {key: said(one) for key, one in self._whole.items()}
        self._hay[entry.key] = found_in(said(entry))
        self._lay_out()

    def on_resize(self) -> None:
        """Keep the cursor's run in a window that became smaller."""
        super().on_resize()
        self.keep_visible()

    def narrow(self, wanted: str) -> None:
        """Show only the runs that hold all words of a text."""
        if wanted != self.wanted:
            self.wanted = wanted
            self._lay_out(keep=not wanted)

    def sort_next(self) -> None:
        """Put the runs into the next order, and show its first."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self._lay_out(keep=False)

    @property
    def shown(self) -> list[RunEntry]:
        """The runs that the filter leaves, in the chosen order."""
        words = self.wanted.lower().split()
        found = [one for one in self.entries if all(word in self._hay[one.key] for word in words)]
        if self.sort == "best":
            return sorted(found, key=lambda one: -(one.best_tok_s or 0.0))
        if self.sort != "newest":
            return sorted(found, key=lambda one: str(getattr(one, self.sort)))
        return found

    @property
    def chosen(self) -> RunEntry | None:
        """The run under the cursor."""
        return self.rows[self.cursor][0] if self.cursor < len(self.rows) else None

    def _tell(self, shown: int = 0) -> None:
        many = f"{shown:,} of {len(self.entries):,}" if self.wanted else f"{len(self.entries):,}"
        many += "" if self.read else " so far"
        wanted = f" {clean(self.wanted)}" if self.wanted else ""
        self.entitle("6", "Runs", f"{many} · / filter{wanted} · s sort: {self.sort}")

    def _lay_out(self, *, keep: bool = True) -> None:
        """Make the rows anew, the cursor on the row that it was on if that is to be kept."""
        before = self.rows[self.cursor] if keep and self.cursor < len(self.rows) else None
        shown = self.shown
        self._tell(len(shown))
        self.rows = [(entry, None) for entry in shown]
        for at in reversed([at for at, entry in enumerate(shown) if entry.key in self.opened]):
            if (whole := self.known(shown[at])) is not None and whole.measurements:
                self.rows[at + 1 : at + 1] = [(whole, rung) for rung in (HEADING, *whole.rungs)]
        self.changed(keep=keep)
        if before is not None:
            self._return_to(*before)
        self.post_message(self.Moved(self, self.cursor))

    def _return_to(self, entry: RunEntry, rung: int | None) -> None:
        """Put the cursor back on a row, wherever it is now."""
        same = (at for at, (one, other) in enumerate(self.rows) if other == rung and one.key == entry.key)
        at = next(same, None)
        if at is not None and at != self.cursor:
            self.place(at)

    def action_choose(self) -> None:
        """Open or close a run, and say so: what was measured of it may have to be read."""
        if self.rows:
            entry, _ = self.rows[self.cursor]
            self.opened ^= {entry.key}
            self._lay_out()
            super().action_choose()

    def action_mark(self) -> None:
        """Mark the run under the cursor as A or B, or take the mark back; a third takes the place of the first."""
        if not self.rows:
            return
        entry, _ = self.rows[self.cursor]
        same = [each for each in self.marked if each.key == entry.key]
        self.marked = [each for each in self.marked if each not in same] if same else [*self.marked[-1:], entry]
        self.refresh()

    def mark_of(self, entry: RunEntry) -> str:
        """Return `A` or `B`."""
        keys = [each.key for each in self.marked]
        return "AB"[keys.index(entry.key)] if entry.key in keys else " "

    def count(self) -> int:
        """Return heading and rows."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a run or one of its rungs."""
        entry, rung = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if rung is not None:
            head, gap = (HEAD, "  ") if width >= 100 else (NARROW, " ")
            if rung == HEADING:
                return [mark, ("  " + "".join(f"{word:>{size}}{gap}" for word, size in head), "dim")]
            done = [one for one in entry.measurements if one.concurrency_limit == rung]
            fit_ones = [one for one in done if not one.tainted]
            spoiled = len(done) - len(fit_ones)
            shown = zip(cells(fit_ones or done), head[1:], strict=True)
            return [
                mark,
                (f"  {rung:>{head[0][1]},}{gap}", "strong"),
                ("".join(f"{text:>{size}}{gap}" for text, (_, size) in shown), "" if fit_ones else "warn"),
                (f"! {spoiled} of {len(done)} tainted" if spoiled else "", "warn"),
            ]
        sign = "▾" if entry.key in self.opened else "▸"
        badge: list[Span] = [(f" {clean(entry.badge)} ", "cursor accent strong"), (" ", "")] if entry.badge else []
        wide = width >= 100
        began = time.strftime("%Y-%m-%d %H:%M" if wide else "%m-%d %H:%M", time.localtime(entry.started_at))
        began = began if entry.started_at else f"{'—':>{len(began)}}"
        tags = "".join(f" #{tag}" for tag in entry.tags)
        return [
            mark,
            (self.mark_of(entry), "accent strong"),
            (f" {sign} ", "dim"),
            (fit(clean(entry.id), 34 if width >= 150 else 14), "strong"),
            (f" {began}  ", "dim"),
            *([(fit(clean(entry.host), 12) + " ", "")] if wide else []),
            (fit(clean(entry.profile), 24 if wide else 20), "function"),
            (f"{dash(entry.best_tok_s):>8}", "strong"),
            (" tok/s best  " if wide else " best", "dim"),
            (fit(", ".join(f"{rung:,}" for rung in entry.rungs), 24) if width >= 130 else "", "dim"),
            (" ", ""),
            *badge,
            (clean(tags), "accent"),
            (f"  {clean(entry.note)}" if entry.note else "", ""),
        ]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        if self.entries and self.read:
            return [[], [(f"  no run holds {clean(self.wanted)!r}: esc takes the filter away", "dim")]]
        said = "nothing was measured yet: b in the cockpit measures" if self.read else "reading the journal…"
        return [[], [("  every run with what was measured of it", "dim")], [(f"  {said}", "dim")]]

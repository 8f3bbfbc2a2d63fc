"""Runs: what was launched and measured before, from the journal, also without a host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from console.domain.text import clean, dash
from console.ui.drawing import Span, fit
from console.ui.screens.bench import HEAD, cells
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines
from console.ui.worker import launch

if TYPE_CHECKING:
    from console.journal.records import RunEntry


class RunLines(Lines, Framed):
    """Runs, newest first; the one under the cursor opens into its rungs."""

    def __init__(self) -> None:
        super().__init__(id="runs")
        self.entries: tuple[RunEntry, ...] = ()
        self.rows: list[tuple[RunEntry, int | None]] = []
        self.opened: set[tuple[str, str]] = set()
        self.read = False
        self.entitle("6", "Runs", "enter opens · esc closes")

    def fill(self, entries: Sequence[RunEntry]) -> None:
        """Show runs."""
        self.entries, self.read = tuple(entries), True
        if entries:
            self.opened.add((entries[0].host, entries[0].id))
        self._lay_out()

    def _lay_out(self) -> None:
        self.rows = []
        for entry in self.entries:
            self.rows.append((entry, None))
            if (entry.host, entry.id) in self.opened:
                self.rows += [(entry, rung) for rung in sorted({one.concurrency_limit for one in entry.measurements})]
        self.changed()

    def action_choose(self) -> None:
        """Open or close a run."""
        if self.rows:
            entry, _ = self.rows[self.cursor]
            self.opened ^= {(entry.host, entry.id)}
            self._lay_out()

    def count(self) -> int:
        """Return heading and rows."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a run or one of its rungs."""
        entry, rung = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if rung is not None:
            done = [one for one in entry.measurements if one.concurrency_limit == rung]
            tainted = any(one.tainted for one in done)
            text = "".join(f"{text:>{size}}  " for text, (_, size) in zip(cells(done), HEAD[1:], strict=True))
            return [
                mark,
                (f"  {rung:>9,}  ", "strong"),
                (text, "warn" if tainted else ""),
                ("! tainted" if tainted else "", "warn"),
            ]
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.started_at))
        sign = "▾" if (entry.host, entry.id) in self.opened else "▸"
        badge: list[Span] = [(f" {clean(entry.badge)} ", "cursor accent strong"), (" ", "")] if entry.badge else []
        return [
            mark,
            (f"{sign} ", "dim"),
            *badge,
            (fit(clean(entry.id), 16), "strong"),
            (f" {began}  ", "dim"),
            (fit(clean(entry.host), 14), ""),
            (fit(clean(entry.profile), 26), "function"),
            (f"{dash(entry.best_tok_s):>9}", "strong"),
            (" tok/s best  ", "dim"),
            (f"{len(entry.measurements)} measured", "dim"),
        ]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        said = "nothing was measured yet: b in the cockpit measures" if self.read else "reading the journal…"
        return [[], [("  every run with what was measured of it", "dim")], [(f"  {said}", "dim")]]


class RunsScreen(Screen[None]):
    """The journal."""

    CSS = "#runs { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,6", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        """Show the list."""
        yield RunLines()

    def on_mount(self) -> None:
        """Read the journal."""
        from console.ui.worker import owner

        async def read() -> None:
            from console.journal.book import Journal

            self.query_one(RunLines).fill(await Journal().runs())

        launch(owner(self), read, group="runs", exclusive=True)

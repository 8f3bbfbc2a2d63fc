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
    from console.operations.compare import Comparison


class ComparisonLines(Lines, Framed):
    """Two runs side by side: what they reached, and what is not the same in them."""

    def __init__(self) -> None:
        super().__init__(id="comparison")
        self.rows: list[list[Span]] = []

    def fill(self, found: Comparison) -> None:
        """Show a comparison."""
        a, b = found.a, found.b
        self.entitle("c", f"A {clean(a.id)} {clean(a.profile)}  B {clean(b.id)} {clean(b.profile)}", "esc closes")
        self.rows = [
            [
                (
                    f"  {'concurrency':>11}  {'A tok/s':>9}  {'B tok/s':>9}  {'B to A':>8}  {'A J/tok':>8}  {'B J/tok':>8}",
                    "dim",
                )
            ]
        ]
        for rung in found.rungs:
            change = None if rung.ratio is None else (rung.ratio - 1) * 100
            said = "—" if change is None else f"{change:+.1f} %"
            ink = "dim" if change is None or abs(change) < 1 else "good" if change > 0 else "bad"
            self.rows.append(
                [
                    (f"  {rung.concurrency:>11,}  {dash(rung.a_tok_s):>9}  {dash(rung.b_tok_s):>9}  ", "strong"),
                    (f"{said:>8}  ", ink),
                    (f"{dash(rung.a_j_per_token, 2):>8}  {dash(rung.b_j_per_token, 2):>8}  ", ""),
                    (clean(rung.note), "warn"),
                ]
            )
        if found.note:
            self.rows.append([("  ! ", "warn"), (clean(found.note), "warn")])
        same = "  the same arguments, patches, versions and GPUs" if not found.differences else "  what is not the same"
        self.rows += [[], [(same, "dim")]]
        for each in found.differences:
            left, right = (fit(clean(_short(value)), 36) for value in (each.a, each.b))
            self.rows.append([(f"  {fit(clean(each.what), 34)}  ", ""), (f"{left}  ", "removed"), (right, "added")])
        self.changed(keep=False)

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row."""
        return self.rows[index]


def _short(value: object) -> str:
    return "—" if value is None else ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class RunLines(Lines, Framed):
    """Runs, newest first; the one under the cursor opens into its rungs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "mark", show=False)]

    def __init__(self) -> None:
        super().__init__(id="runs")
        self.entries: tuple[RunEntry, ...] = ()
        self.rows: list[tuple[RunEntry, int | None]] = []
        self.opened: set[tuple[str, str]] = set()
        self.marked: list[RunEntry] = []
        """A and B of a comparison."""
        self.read = False
        self.entitle("6", "Runs", "enter opens · space marks two, c compares, e experiment · esc closes")

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

    def action_mark(self) -> None:
        """Mark the run under the cursor as A or B, or take the mark back; a third takes the place of the first."""
        if not self.rows:
            return
        entry, _ = self.rows[self.cursor]
        same = [each for each in self.marked if (each.host, each.id) == (entry.host, entry.id)]
        self.marked = [each for each in self.marked if each not in same] if same else [*self.marked[-1:], entry]
        self.refresh()

    def mark_of(self, entry: RunEntry) -> str:
        """Return `A` or `B`."""
        keys = [(each.host, each.id) for each in self.marked]
        return "AB"[keys.index((entry.host, entry.id))] if (entry.host, entry.id) in keys else " "

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
            (self.mark_of(entry), "accent strong"),
            (f" {sign} ", "dim"),
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

    CSS = "#runs { height: 1fr; } #comparison { height: 2fr; display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "go_back", show=False),
        Binding("q,6", "dismiss", show=False),
        Binding("c", "compare", show=False),
        Binding("e", "experiment", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Show the list, and room for a comparison."""
        yield RunLines()
        yield ComparisonLines()

    def action_go_back(self) -> None:
        """Close the comparison, then the screen."""
        below = self.query_one(ComparisonLines)
        if below.display:
            below.display = False
            self.query_one(RunLines).focus()
        else:
            self.dismiss()

    def action_compare(self) -> None:
        """Compare the two marked runs; what is not alike is refused."""
        from console.errors import UsageError
        from console.ui.worker import owner

        marked = self.query_one(RunLines).marked
        if len(marked) != 2:
            owner(self).tell(UsageError("two runs are compared: space marks A, then B", hint="then c"))
            return

        async def compare() -> None:
            from console.operations import compare

            a, b = marked
            below = self.query_one(ComparisonLines)
            below.fill(await compare.compare(f"{a.host}:{a.id}", f"{b.host}:{b.id}"))
            below.display = True

        launch(owner(self), compare, group="compare", exclusive=True)

    def action_experiment(self) -> None:
        """Make an experiment of what differs between the two marked runs, its plan on screen; none marked: show them all."""
        from console.ui.screens.experiment import ExperimentScreen
        from console.ui.worker import owner

        marked = self.query_one(RunLines).marked

        async def make() -> None:
            from console.operations.experiments_new import write_from_runs

            path = None
            if len(marked) == 2:
                a, b = marked
                path = await write_from_runs(f"{a.host}:{a.id}", f"{b.host}:{b.id}")
            await self.app.push_screen(ExperimentScreen(path))

        launch(owner(self), make, group="experiment file", exclusive=True)

    def on_mount(self) -> None:
        """Read the journal."""
        from console.ui.worker import owner

        async def read() -> None:
            from console.operations import compare

            self.query_one(RunLines).fill(await compare.listed())

        launch(owner(self), read, group="runs", exclusive=True)

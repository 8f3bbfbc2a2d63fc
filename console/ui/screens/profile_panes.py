"""The parts of the profiles screen: the list, the sheet of one, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.domain.text import clean
from console.ui.drawing import Span, fit
from console.ui.screens.profile_rows import Row, place_of
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from console.operations.profiles import Listed


class ProfileList(Lines, Framed):
    """Every profile that a name can reach."""

    def __init__(self) -> None:
        super().__init__(id="profile-list")
        self.entries: tuple[Listed, ...] = ()
        self.current = ""
        self.entitle("p", "Profiles")

    def count(self) -> int:
        """Return how many there are."""
        return len(self.entries)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a name and where it is from."""
        entry = self.entries[index]
        chosen = entry.name == self.current
        lead: Span = ("▌" if index == self.cursor else " ", "accent")
        sign: Span = ("✗ ", "bad") if entry.profile is None else ("● ", "good") if chosen else ("○ ", "dim")
        size = max(10, min(24, width - 12))
        name = fit(clean(entry.name), size)
        return [lead, sign, (f"{name} ", "strong" if chosen else ""), (clean(place_of(entry.path)), "dim")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        return [[], [("  reading profiles…", "dim")]]


class ProfileSheet(Lines, Framed):
    """One profile: what it asks for."""

    def __init__(self) -> None:
        super().__init__(id="profile-sheet")
        self.rows: list[Row] = []

    def fill(self, rows: list[Row]) -> None:
        """Show rows."""
        self.rows = rows
        self.changed(keep=False)

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row."""
        return self.rows[index]


KEYS = (
    ("enter", "choose"), ("c", "check on the host"), ("v", "verify winner"), ("R", "reproduce"), ("x", "experiment"),
    ("e", "edit"), ("y", "copy command"), ("i", "import"), ("esc", "back"),
)  # fmt: skip

"""List of patches: symbol, word, name and reason, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.patch import PatchStatus
from console.domain.text import clean
from console.ui import words
from console.ui.drawing import Span, fit, wrapped
from console.ui.widgets.lines import Lines

WORD_WIDTH = 13


class PatchList(Lines):
    """Known patches with their state on disk and in the process."""

    def __init__(self) -> None:
        super().__init__(id="patch-list")
        self.patches: tuple[PatchStatus, ...] = ()
        self.reason = ""
        self.asked = False

    def show(self, patches: tuple[PatchStatus, ...]) -> None:
        """Show patches; the cursor stays on the same one."""
        name = self.current.name if self.current else ""
        self.patches = patches
        for index, status in enumerate(patches):
            if status.name == name:
                self.set_reactive(PatchList.cursor, index)
        self.changed()

    @property
    def current(self) -> PatchStatus | None:
        """The patch under the cursor."""
        return self.patches[self.cursor] if 0 <= self.cursor < len(self.patches) else None

    def count(self) -> int:
        """Return how many patches there are."""
        return len(self.patches)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one patch."""
        status = self.patches[index]
        symbol, word, ink = words.of_patch(status)
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        spans: list[Span] = [
            mark,
            (symbol, ink),
            (f" {fit(word, WORD_WIDTH)} ", ink),
            (clean(status.name), "strong" if index == self.cursor else ""),
        ]
        reason = clean(status.reason or status.process_reason)
        room = width - sum(len(text) for text, _ in spans) - 3
        if reason and room > 8:
            spans.append((f"  {fit(reason, min(len(reason), room))}", "dim"))
        return spans

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        if self.reason:
            return [[], *wrapped(clean(self.reason), self.size.width, "warn")]
        said = (
            "no patches known: ./profiles/patches or c captures one" if self.asked else "looking at the host's files…"
        )
        return [[], [("  named edits to the engine, switched by space", "dim")], [(f"  {said}", "dim")]]

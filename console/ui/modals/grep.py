"""Grep: the pattern, where to look, and how it is meant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


@dataclass(frozen=True, slots=True)
class Asked:
    """A search as the operator asked for it."""

    pattern: str = ""
    where: str = ""
    """Globs and paths, as typed: `*.py !test_* !tests/ srt/layers`."""
    fixed: bool = False
    word: bool = False
    any_case: bool = False
    context: bool = False

    @property
    def include(self) -> tuple[str, ...]:
        """Globs of file names to search only."""
        return tuple(word for word in self.where.split() if "*" in word and not word.startswith("!"))

    @property
    def exclude(self) -> tuple[str, ...]:
        """Globs to leave out; with a `/` at the end, folders."""
        return tuple(word[1:] for word in self.where.split() if word.startswith("!") and len(word) > 1)

    @property
    def paths(self) -> tuple[str, ...]:
        """Files and folders to search; the engine package when there is none."""
        return tuple(word for word in self.where.split() if "*" not in word and not word.startswith("!"))

    def words(self) -> str:
        """Return how it is meant, for the title."""
        said = [name for name, on in (("fixed", self.fixed), ("word", self.word), ("any case", self.any_case)) if on]
        return " · ".join([*said, *([self.where] if self.where else [])])


OPTIONS = (("f2", "fixed", "plain text"), ("f3", "word", "whole word"), ("f4", "any_case", "any case"))


class GrepModal(ModalScreen[Asked | None]):
    """Ask for a search; escape answers nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        *(Binding(key, f"switch('{name}')", show=False, priority=True) for key, name, _ in OPTIONS),
        Binding("f5", "switch('context')", show=False, priority=True),
    ]

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked

    def compose(self) -> ComposeResult:
        """Put pattern, place and options under each other."""
        with Vertical(classes="grep"):
            for name, label, hint in (
                ("pattern", "grep ", "basic regular expression, as grep -rnI takes it"),
                ("where", "in   ", "all of the package, or: *.py !tests/ srt/layers"),
            ):
                with Horizontal(classes="grep-row"):
                    yield Static(Content.assemble((label, "bold $accent")), classes="prompt-label")
                    line = Input(getattr(self.asked, name), placeholder=hint, compact=True, id=f"grep-{name}")
                    line.cursor_blink = False
                    yield line
            yield Static(self._options(), id="grep-options")

    def _options(self) -> Content:
        parts: list[tuple[str, str]] = []
        for key, name, word in (*OPTIONS, ("f5", "context", "context")):
            on = getattr(self.asked, name)
            parts += [(f" {key.upper()} ", "bold $accent"), (f"{'☑' if on else '☐'} {word}  ", "" if on else "$muted")]
        return Content.assemble(*parts)

    def action_switch(self, name: str) -> None:
        """Turn an option on or off."""
        change: dict[str, Any] = {name: not getattr(self.asked, name)}
        self.asked = replace(self.asked, **change)
        self.query_one("#grep-options", Static).update(self._options())

    def on_input_submitted(self) -> None:
        """Answer with the search."""
        pattern, where = (self.query_one(f"#grep-{name}", Input).value for name in ("pattern", "where"))
        self.dismiss(replace(self.asked, pattern=pattern, where=where.strip()))

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

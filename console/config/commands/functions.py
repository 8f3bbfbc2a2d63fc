"""Functions of a script: what a call gives to the body that stands before it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from console.config.commands.expand import Variable
from console.config.commands.lexer import Word

AGAIN = "again"
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(slots=True)
class Functions:
    """Names, arguments of the first calls, and which bodies are being read."""

    names: set[str] = field(default_factory=set)
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    given: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments that bodies are read with: those that a reading before met."""
    _next: str = ""
    _open: list[tuple[str, dict[str, Variable]]] = field(default_factory=list)

    def told(self) -> Functions:
        """Return the functions for another reading of the same text."""
        return Functions(given=self.calls)

    def head(self, words: list[Word]) -> str:
        """Return the name that `name ()` or `function name ()` defines."""
        plain = [word.plain() for word in words]
        named = plain[-1] if len(plain) == 1 or (len(plain) == 2 and plain[0] == "function") else ""
        return named if _NAME.fullmatch(named) else ""

    def define(self, name: str) -> None:
        """Take a name; its body begins with the next bracket."""
        self.names.add(name)
        self._next = name

    def enter(self, known: dict[str, Variable]) -> None:
        """Take an opening bracket."""
        name, self._next = self._next, ""
        before = {key: known[key] for key in list(known) if not key.isidentifier()}
        self._open.append((name, before))
        if name in self.given:
            self._give(known, self.given[name])

    def leave(self, known: dict[str, Variable]) -> None:
        """Take a closing bracket."""
        name, before = self._open.pop() if self._open else ("", {})
        if name:
            for key in [key for key in known if not key.isidentifier()]:
                del known[key]
            known.update(before)

    def call(self, name: str, args: tuple[str, ...]) -> str:
        """Take a call; `AGAIN` where it is not the first, and gives something else."""
        if self.calls.setdefault(name, args) != args:
            return AGAIN
        return ""

    def shift(self, known: dict[str, Variable], count: str) -> None:
        """Take the first arguments of the body away."""
        given = known.get("@")
        if given is not None and isinstance(given.value, tuple) and count.isdigit():
            self._give(known, given.value[int(count) :])

    @staticmethod
    def _give(known: dict[str, Variable], args: tuple[str, ...]) -> None:
        for key in [key for key in known if key.isdigit()]:
            del known[key]
        known.update({str(number): Variable(text) for number, text in enumerate(args, 1)})
        known.update({"@": Variable(args), "*": Variable(args), "#": Variable(str(len(args)))})

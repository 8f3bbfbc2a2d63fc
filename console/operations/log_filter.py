"""Which records of a log are wanted: by kind, words, rank and level; the same for a shell and for the log pane."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from console.domain.run import LogKind
from console.errors import UsageError

LEVELS = ("info", "warning", "error")
"""From the lowest; a level means itself and what is worse."""

_RANK = re.compile(r"([A-Za-z_]*?)_?(\d+)$")


class Told(Protocol):
    """What a filter looks at: a record, or what a screen keeps of one."""

    @property
    def kind(self) -> LogKind:
        """What it is about."""

    @property
    def raw(self) -> str:
        """Its text."""

    @property
    def severity(self) -> str:
        """`warning`, `error` or empty."""

    @property
    def source(self) -> Mapping[str, object]:
        """Its ranks, among others."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What is wanted; nothing said wants everything."""

    kinds: frozenset[LogKind] = frozenset()
    pattern: re.Pattern[str] | None = None
    inverse: bool = False
    """Wants what the pattern does not match."""
    ranks: tuple[tuple[str, int], ...] = ()
    """Names (empty: any) and numbers, all of which a record must carry."""
    level: str = ""
    _least: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_least", LEVELS.index(self.level) if self.level else 0)

    @property
    def wants_all(self) -> bool:
        """Whether nothing is left out."""
        return not (self.kinds or self.pattern or self.ranks or self._least)

    def accepts(self, record: Told) -> bool:
        """Return whether a record is wanted."""
        if self.kinds and record.kind not in self.kinds:
            return False
        if self._least and _level(record) < self._least:
            return False
        if self.ranks and not all(_carries(record, name, number) for name, number in self.ranks):
            return False
        return self.pattern is None or (self.pattern.search(record.raw) is None) is self.inverse

    def words(self) -> str:
        """Return the filter as an operator would say it."""
        told = []
        if self.pattern is not None:
            told.append(f"{'not ' if self.inverse else ''}{self.pattern.pattern}")
        if self.ranks:
            told.append("rank " + " ".join(f"{name}{number}" for name, number in self.ranks))
        if self._least:
            told.append(self.level if self.level == LEVELS[-1] else f"{self.level} and worse")
        if self.kinds:
            told.append("kind " + ",".join(sorted(self.kinds)))
        return " · ".join(told)


def make(*, kinds: str = "", pattern: str = "", inverse: bool = False, rank: str = "", level: str = "") -> RecordFilter:
    """Return a filter from the words of an operator; `UsageError` names the word that is wrong.

    Args:
        kinds: Kinds, parted by commas.
        pattern: A regular expression; small letters match both cases.
        inverse: Whether to leave out what the pattern matches.
        rank: Such as `TP3`, `DP1 TP0` or `3`.
        level: One of `LEVELS`.
    """
    if inverse and not pattern:
        raise UsageError("an inverse filter needs a pattern", hint="--grep PATTERN --invert")
    if level and level not in LEVELS:
        raise UsageError(f"level {level!r} is not known", hint=f"one of {', '.join(LEVELS)}")
    return RecordFilter(_kinds(kinds), compiled(pattern) if pattern else None, inverse, _ranks(rank), level)


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression that ignores case unless it has capitals; `UsageError` says where it is wrong."""
    try:
        return re.compile(pattern, re.MULTILINE | (0 if pattern != pattern.lower() else re.IGNORECASE))
    except re.error as error:
        at = "" if error.pos is None else f" at character {error.pos + 1}"
        raise UsageError(f"{pattern}: not a regular expression", f"{error.msg}{at}") from None


def _kinds(text: str) -> frozenset[LogKind]:
    try:
        return frozenset(LogKind(word.strip()) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise UsageError(f"--kind: {error}", hint=f"one of {', '.join(LogKind)}") from error


def _ranks(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for word in text.replace(",", " ").split():
        match = _RANK.fullmatch(word)
        if match is None:
            raise UsageError(f"rank {word!r} is no rank", hint="such as TP3, DP1 or 3")
        found.append((match[1].upper(), int(match[2])))
    return tuple(found)


def _level(record: Told) -> int:
    if record.kind is LogKind.FAILURE or record.severity == "error":
        return 2
    return 1 if record.severity == "warning" else 0


def _carries(record: Told, name: str, number: int) -> bool:
    ranks = record.source.get("ranks")
    if not isinstance(ranks, Mapping):
        return False
    return any(
        (not name or key.upper() == name) and (number in value if isinstance(value, list) else value == number)
        for key, value in ranks.items()
    )

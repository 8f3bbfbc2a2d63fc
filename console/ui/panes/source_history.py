"""Where the reader was: back and forward, and marks."""

from __future__ import annotations

from dataclasses import dataclass, field

KEPT = 200


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of a file."""

    path: str
    line: int


@dataclass(slots=True)
class History:
    """Spots that were jumped from and to, and lines that were marked."""

    marks: list[Spot] = field(default_factory=list)
    _past: list[Spot] = field(default_factory=list)
    _future: list[Spot] = field(default_factory=list)

    def leave(self, spot: Spot) -> None:
        """Remember a spot that is left by a jump."""
        if not self._past or self._past[-1] != spot:
            self._past.append(spot)
        del self._past[:-KEPT]
        self._future.clear()

    def back(self, here: Spot | None) -> Spot | None:
        """Return where the reader was before."""
        return _turn(self._past, self._future, here)

    def forward(self, here: Spot | None) -> Spot | None:
        """Return where the reader went back from."""
        return _turn(self._future, self._past, here)

    def recent(self, here: Spot | None) -> tuple[str, ...]:
        """Return the files that the reader was in, the last one first, without the present one."""
        paths = dict.fromkeys(spot.path for spot in reversed([*self._future, *self._past]))
        if here is not None:
            paths.pop(here.path, None)
        return tuple(paths)

    def toggle(self, spot: Spot) -> bool:
        """Mark a spot or take its mark away; return whether it is marked now."""
        if spot in self.marks:
            self.marks.remove(spot)
            return False
        self.marks.append(spot)
        return True


def _turn(source: list[Spot], sink: list[Spot], here: Spot | None) -> Spot | None:
    while source and source[-1] == here:
        source.pop()
    if not source:
        return None
    if here is not None:
        sink.append(here)
    return source.pop()

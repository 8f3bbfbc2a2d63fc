"""What an import has to say of a line: what was left out, what is doubtful, what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

NOTE, WARNING, ERROR = "note", "warning", "error"


@dataclass(frozen=True, slots=True)
class Note:
    """One remark on an imported text."""

    severity: str
    """`note`: left out or changed as one would expect. `warning`: perhaps not meant. `error`: not as it stands."""
    text: str
    line: int = 0
    key: str = ""
    """Flag or variable that it is about."""
    offer: str = ""
    """What was probably meant; `--repair` takes it."""

    def sentence(self) -> str:
        """Return the remark as one line."""
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.text}" + (f" · meant: {self.offer}" if self.offer else "")

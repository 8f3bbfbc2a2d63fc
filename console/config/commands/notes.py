"""What an import has to say of a line: what was left out, what is doubtful, what is wrong."""

from __future__ import annotations

import re
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


def not_known(key: str, what: str, line: int) -> Note:
    """Return the remark on a variable or a command in the text that it does not tell."""
    variable = re.fullmatch(r"\$\{(\w+)\}", what)
    if variable is None:
        said = f"{what} is not run and not known: kept as it stands, write its result"
    elif variable[1].isdigit():
        said = f"{what}, an argument of the script, is not given: kept as it stands; --set {variable[1]}=… fills it in"
    else:
        said = f"{what} is not defined in this text: kept as it stands; --set {variable[1]}=… fills it in"
    return Note(WARNING, said, line, key)

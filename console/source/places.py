"""Places in code as people write them: `file:12`, `file:3-9`, `file:Class.method`."""

from __future__ import annotations

import re

from console.domain.source import Place

_LINES = re.compile(
    r"(?P<path>.+?):(?P<first>[1-9]\d{0,11})(?:-(?P<last>[1-9]\d{0,11})?|:\d*)?:?", re.DOTALL | re.ASCII
)
_SYMBOL = re.compile(r"(?P<path>.+):(?P<symbol>[^\W\d]\w*(?:\.[^\W\d]\w*)*)", re.DOTALL)


def parse_place(text: str) -> Place:
    """Return the file and the lines or symbol that `text` names.

    `file:12:7:` of compilers and `file:12:` of grep are understood, too. A name that ends like
    that is still a file's name first: `Place.text` keeps it as written.
    """
    lines = _LINES.fullmatch(text)
    if lines:
        first = int(lines["first"])
        ranged = re.match(r":\d+-", text[len(lines["path"]) :]) is not None
        last = int(lines["last"]) if lines["last"] else None if ranged else first
        if last is None or last >= first:
            return Place(lines["path"], first, last, text=text)
    symbol = _SYMBOL.fullmatch(text)
    if symbol:
        return Place(symbol["path"], symbol=symbol["symbol"], text=text)
    return Place(text, text=text)

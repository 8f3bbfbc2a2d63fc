"""Line ends: text is looked for whatever they are, and every line keeps its own."""

from __future__ import annotations

import bisect
import difflib
import functools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plain:
    """A file with LF for every CRLF, and the way back to its bytes."""

    data: bytes
    """As it is."""
    text: bytes
    """With LF only."""
    dropped: tuple[int, ...]
    """Where in `text` a LF stands that has a CR before it in `data`."""

    def at(self, position: int) -> int:
        """Return where a position of `text` is in `data`."""
        return position + bisect.bisect_left(self.dropped, position)

    def back(self, position: int) -> int:
        """Return where a line start of `data` is in `text`."""
        return position - self.data.count(b"\r\n", 0, position)

    def end_of(self, position: int, written: bytes) -> bytes:
        """Return the line end of the line that a position of `text` is in; `written` in a file without any."""
        at = self.at(position)
        here = self.data.find(b"\n", at)
        return _end(self.data[max(0, here - 1) : here + 1]) if here >= 0 else self._near(at, at) or written

    def dressed(self, text: bytes, start: int, end: int, written: bytes) -> bytes:
        """Return text that is to replace `start` to `end` of `data` with the line ends of that place.

        Lines that stay keep theirs; others take that of the line in whose place they come, else of the
        nearest line above or below; `written` is the patch's own, for a file without any.
        """
        if b"\n" not in text or not (self.dropped or written == b"\r\n"):
            return text
        if len(self.dropped) == self.text.count(b"\n") > 0:
            return text.replace(b"\n", b"\r\n")
        old, new = _lines(self.data[start:end]), _lines(text)
        bare = [line.rstrip(b"\r\n") for line in old]
        blocks = difflib.SequenceMatcher(
            None, bare, [line.rstrip(b"\n") for line in new], autojunk=False
        ).get_matching_blocks()
        same = {block.b + n: block.a + n for block in blocks for n in range(block.size)}
        out = []
        last = self._near(start, end) or written
        for number, line in enumerate(new):
            counterpart = same.get(number, number)
            known = _end(old[counterpart]) if counterpart < len(old) else b""
            last = known or last
            out.append(line[:-1] + last if line.endswith(b"\n") else line)
        return b"".join(out)

    def _near(self, start: int, end: int) -> bytes:
        above = self.data.rfind(b"\n", 0, start)
        if above >= 0:
            return _end(self.data[max(0, above - 1) : above + 1])
        below = self.data.find(b"\n", end)
        return _end(self.data[max(0, below - 1) : below + 1]) if below >= 0 else b""


@functools.lru_cache(maxsize=32)
def plain(data: bytes) -> Plain:
    """Return a file with LF for every CRLF."""
    if b"\r\n" not in data:
        return Plain(data, data, ())
    dropped, at = [], 0
    parts = data.split(b"\r\n")
    for part in parts[:-1]:
        at += len(part)
        dropped.append(at)
        at += 1
    return Plain(data, b"\n".join(parts), tuple(dropped))


def written(text: str) -> bytes:
    """Return the line end that a patch writes a text with."""
    return b"\r\n" if "\r\n" in text else b"\n"


def unix(text: str) -> bytes:
    """Return a text of a patch with LF only, as bytes."""
    return text.replace("\r\n", "\n").encode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _end(line: bytes) -> bytes:
    return b"\r\n" if line.endswith(b"\r\n") else b"\n" if line.endswith(b"\n") else b""

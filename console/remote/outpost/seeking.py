"""Look through a whole log for lines, from its end or its beginning, and send the records around them."""

from __future__ import annotations

import os
import re
from typing import Callable, List, Optional, Tuple

from . import rotated, tail
from .calls import Call, Fault, Operation, Result

Span = Tuple[int, int]
Finder = Callable[[bytes], List[Span]]
"""Returns where the lines lie that are wanted of a block of whole lines."""

BLOCK = 4 * 1024 * 1024
REACH = 64 * 1024
"""How far a record that a line belongs to is looked for on either side."""
AROUND = 64
"""Lines of it."""
PART = 128 * 1024
TOLD = 32 * 1024 * 1024
"""After so many bytes without a find, how far the search has come is told."""

_BOUNDARY = re.compile(
    rb"[^\n]{0,160}?(?:\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d[^\]\n]{0,80}\] "
    rb"|(?:DEBUG|INFO|WARNING) (?:\x1b\[[0-9;]*m ?)?\d\d-\d\d \d\d:\d\d:\d\d)"
    rb"|\d+\.\d\d\.\d{3}\.\d{3} [IWED] "
)
"""A line that begins a record of its own."""


def seek(call: Call) -> Result:
    """Search the lines of a log: `path`, `key` (for `followed`), `first` and `last` offset, `backward`, `limit` finds.

    What is wanted: `literal` text, or a `pattern` (both with `ignore_case` and `inverse`), or lines that do not begin
    with `skip`; nothing of these wants every line. `block` is how many bytes are searched at once, `inode` and body say
    which file is meant where the log was rotated. Parts tell `stretches` (offset and length of whole records, one after
    the other in the body; a long one goes on in the next), how far the search has come (`at`), the file's `size`, and
    whether all of a block was told (`whole`); the last answer counts.
    """
    finder = _finder(call)
    key = call.text("key", "")
    credit = tail.followers[key] = tail.Credit()
    try:
        with rotated.opened(call) as file:
            size = os.fstat(file.fileno()).st_size
            last = call.args.get("last")
            search = _Search(call, credit, file.fileno(), finder, size)
            hits = search.run(call.number("first", 0), size if last is None else min(size, int(last)))
    finally:
        tail.followers.pop(key, None)
    return {"hits": hits, "size": size, "limited": search.limited}, b""


class _Search:
    def __init__(self, call: Call, credit: tail.Credit, fd: int, finder: Finder, size: int) -> None:
        self._call = call
        self._credit = credit
        self._fd = fd
        self._finder = finder
        self._backward = bool(call.args.get("backward"))
        self._limit = call.number("limit", 0)
        self._bytes = call.number("block", 0) or BLOCK
        self._size = size
        self.limited = False

    def run(self, first: int, last: int) -> int:
        """Search from one offset to another; return the number of finds."""
        hits = quiet = 0
        while first < last and not self._call.cancelled.is_set() and not self.limited:
            start, core = self._block(first, last)
            spans = self._finder(core)
            hits += len(spans)
            quiet += len(core)
            if self._backward:
                last = start
            else:
                first = start + len(core)
            self.limited = 0 < self._limit <= hits
            if spans or quiet >= TOLD:
                self._send(start, core, spans, last if self._backward else first)
                quiet = 0
        return hits

    def _block(self, first: int, last: int) -> tuple[int, bytes]:
        """Return whole lines: the next ones, or the ones before."""
        if not self._backward:
            data = os.pread(self._fd, min(self._bytes, last - first), first)
            end = data.rfind(b"\n") + 1
            return first, data[:end] if end and first + len(data) < last else data
        start = max(first, last - self._bytes)
        data = os.pread(self._fd, last - start, start)
        cut = data.find(b"\n") + 1 if start > first else 0
        return (start + cut, data[cut:]) if cut < len(data) else (start, data)

    def _send(self, start: int, core: bytes, spans: list[Span], at: int) -> None:
        """Send the records that lines lie in."""
        before = os.pread(self._fd, min(REACH, start), max(0, start - REACH)) if spans else b""
        after = os.pread(self._fd, REACH, start + len(core)) if spans else b""
        text, base = before + core + after, start - len(before)
        stretches: list[list[int]] = []
        for begin, end in spans:
            begin, end = _whole(text, begin + len(before), end + len(before))
            if stretches and begin <= stretches[-1][1]:
                stretches[-1][1] = max(end, stretches[-1][1])
            else:
                stretches.append([begin, end])
        told: list[Span] = []
        size = 0
        for begin, end in stretches:
            for piece in range(begin, end, PART):
                told.append((piece, min(end, piece + PART)))
                size += min(end, piece + PART) - piece
                if size >= PART:
                    self._emit(text, base, told, at, False)
                    told, size = [], 0
        self._emit(text, base, told, at, True)

    def _emit(self, text: bytes, base: int, stretches: list[Span], at: int, whole: bool) -> None:
        self._credit.wait(self._call)
        body = b"".join(text[begin:end] for begin, end in stretches)
        self._credit.give(len(body))
        told = [[base + begin, end - begin] for begin, end in stretches]
        self._call.emit({"stretches": told, "at": at, "size": self._size, "whole": whole}, body)


def _whole(text: bytes, begin: int, end: int) -> Span:
    """Return where the record begins and ends that some lines belong to, as far as the lines around them tell."""
    for _ in range(AROUND):
        if begin == 0 or _BOUNDARY.match(text, begin):
            break
        begin = text.rfind(b"\n", 0, begin - 1) + 1
    for _ in range(AROUND):
        if end >= len(text) or _BOUNDARY.match(text, end):
            break
        end = text.find(b"\n", end) + 1 or len(text)
    return begin, end


def _finder(call: Call) -> Finder:
    literal, pattern, skip = call.text("literal", ""), call.text("pattern", ""), call.text("skip", "")
    ignore_case, inverse = bool(call.args.get("ignore_case")), bool(call.args.get("inverse"))
    if literal:
        found = _literal(literal.encode("utf-8", "surrogateescape"), ignore_case)
    elif pattern:
        compiled = _compiled(pattern, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
        if compiled is None:
            return _every
        found = _matching(compiled)
    elif skip:
        try:
            return _not_beginning(re.compile(skip.encode()))
        except re.error as error:
            raise Fault("usage", "skip: %s" % error) from None
    else:
        return _every
    return _others(found) if inverse else found


def _compiled(pattern: str, flags: int) -> Optional["re.Pattern[str]"]:
    """Return an expression; `None` where only a newer Python than this host's can read it: then every line is sent."""
    try:
        return re.compile(pattern.replace("\\A", "^").replace("\\Z", "$"), flags)
    except re.error:
        return None


def _every(block: bytes) -> list[Span]:
    return [(0, len(block))] if block else []


def _literal(needle: bytes, ignore_case: bool) -> Finder:
    needle = needle.lower() if ignore_case else needle

    def find(block: bytes) -> list[Span]:
        hay = block.lower() if ignore_case else block
        spans = []
        at = hay.find(needle)
        while at >= 0:
            begin, end = hay.rfind(b"\n", 0, at) + 1, hay.find(b"\n", at) + 1 or len(hay)
            spans.append((begin, end))
            at = hay.find(needle, end)
        return spans

    return find


def _matching(pattern: "re.Pattern[str]") -> Finder:
    def find(block: bytes) -> list[Span]:
        if not block.isascii():
            return [span for span in _lines(block) if pattern.search(_text(block, span))]
        text = block.decode("ascii")
        spans: list[Span] = []
        at = 0
        while at < len(text) and (match := pattern.search(text, at)):
            begin = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", max(match.start(), match.end() - 1)) + 1 or len(text)
            if begin >= len(text):
                break
            spans.append((begin, end))
            at = end
        return spans

    return find


def _not_beginning(skip: "re.Pattern[bytes]") -> Finder:
    def find(block: bytes) -> list[Span]:
        spans = []
        begin = 0
        for line in block.split(b"\n"):
            end = min(begin + len(line) + 1, len(block))
            if begin < end and skip.match(line) is None:
                spans.append((begin, end))
            begin = end
        return spans

    return find


def _others(found: Finder) -> Finder:
    """Return a finder of the lines that another does not find."""

    def find(block: bytes) -> list[Span]:
        spans: list[Span] = []
        at = 0
        for begin, end in [*found(block), (len(block), len(block))]:
            if begin > at:
                spans.append((at, begin))
            at = end
        return spans

    return find


def _lines(block: bytes) -> list[Span]:
    spans = []
    begin = 0
    while begin < len(block):
        end = block.find(b"\n", begin) + 1 or len(block)
        spans.append((begin, end))
        begin = end
    return spans


def _text(block: bytes, span: Span) -> str:
    return block[span[0] : span[1]].decode("utf-8", "replace")


OPS: dict[str, Operation] = {"seek_log": seek}

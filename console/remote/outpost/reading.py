"""One pass over an open file: its hash, its line count and a window of its lines, in bounded memory."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Iterator

CHUNK = 1 << 20
HASH_LIMIT = 64 << 20
"""Bytes up to which a file is read whole, for its hash and line count."""
COUNT_LIMIT = 8 << 30
"""Bytes up to which lines are counted to number the last ones."""
HEAD = 32768
"""Bytes in which a NUL makes a file binary, as grep has it."""


class Window:
    """Collects the lines from `first` on out of chunks: at most `count` of them and `room` bytes."""

    def __init__(self, first: int, count: int | None, room: int) -> None:
        self.first = first
        self.count = count
        self.room = room
        self.data = bytearray()
        self.newlines = 0
        self.crlf = 0
        self.full = count == 0
        self.cut = False
        self._started = first <= 1
        self._kept = 0
        self._last = b""

    def take(self, chunk: bytes) -> None:
        """Look at the next chunk of the file."""
        here = chunk.count(b"\n")
        if b"\r" in chunk:  # counting pairs takes twice as long as counting lines
            self.crlf += chunk.count(b"\r\n")
        self.crlf += self._last == b"\r" and chunk[:1] == b"\n"
        begin = 0
        if not self._started and self.newlines + here >= self.first - 1:
            begin = _after(chunk, self.first - 1 - self.newlines, 0)
            self._started = True
        if self._started and not self.full:
            self._keep(chunk, begin)
        self.newlines += here
        self._last = chunk[-1:]

    def _keep(self, chunk: bytes, begin: int) -> None:
        end = len(chunk)
        if self.count is not None:
            left = self.count - self._kept
            there = chunk.count(b"\n", begin)
            if there >= left:
                end, self.full = _after(chunk, left, begin), True
            self._kept += there
        self.data += chunk[begin:end]
        if len(self.data) > self.room:
            stop = self.data.rfind(b"\n", 0, self.room) + 1
            self.cut = stop == 0
            del self.data[stop or self.room :]
            self.full = True


def _after(chunk: bytes, newlines: int, begin: int) -> int:
    for _ in range(newlines):
        begin = chunk.index(b"\n", begin) + 1
    return begin


def chunks(fd: int, size: int, offset: int = 0) -> Iterator[bytes]:
    """Yield the bytes of an open file up to `size`: what is appended meanwhile is not ours to read."""
    while offset < size:
        chunk = os.pread(fd, min(CHUNK, size - offset), offset)
        if not chunk:
            return
        offset += len(chunk)
        yield chunk


def tail_offset(fd: int, size: int, lines: int, room: int) -> int:
    """Return where the last `lines` lines start, not more than `room` bytes before the end."""
    stop = max(0, size - room)
    offset, wanted = size, lines
    if size and os.pread(fd, 1, size - 1) == b"\n":
        wanted += 1
    while offset > stop:
        start = max(stop, offset - 65536)
        block = os.pread(fd, offset - start, start)
        here = block.count(b"\n")
        if here >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rindex(b"\n", 0, at)
            return start + at + 1
        wanted -= here
        offset = start
    if stop == 0:
        return 0
    newline = os.pread(fd, min(room, 1 << 20), stop).find(b"\n")
    return stop + newline + 1


def read_lines(fd: int, first: int, count: int | None, room: int, want_hash: bool) -> tuple[dict[str, Any], bytes]:
    """Read a window of lines and tell what is known of the whole file.

    Args:
        fd: Open file.
        first: Number of the first line; negative means the last lines, as many as it says.
        count: How many lines; `None` for as many as there is room for.
        room: Bytes at most.
        want_hash: Whether to hash, which reads a file up to `HASH_LIMIT` whole.
    """
    size = os.fstat(fd).st_size
    if size == 0:  # files of /proc say so too
        size = len(os.pread(fd, room, 0))
    head = os.pread(fd, min(HEAD, size), 0)
    digest = hashlib.sha256() if want_hash and size <= HASH_LIMIT else None
    if b"\0" in head:
        facts, body = _binary(fd, size, head[:room], digest)
    elif first < 0:
        facts, body = _last(fd, size, -first, room, digest)
    else:
        facts, body = _range(fd, size, Window(max(first, 1), count, room), digest)
    facts["final_newline"] = size == 0 or os.pread(fd, 1, size - 1) == b"\n"
    if facts["total_lines"] is not None:
        facts["total_lines"] += not facts["final_newline"]
    facts["sha256"] = digest.hexdigest() if digest is not None else ""
    return facts, body


def _binary(fd: int, size: int, head: bytes, digest: Any) -> tuple[dict[str, Any], bytes]:
    if digest is not None:
        for chunk in chunks(fd, size):
            digest.update(chunk)
    facts = {"first": 1, "total_lines": None, "crlf": False, "mixed_ends": False, "binary": True}
    return dict(facts, cut=len(head) < size), head


def _range(fd: int, size: int, window: Window, digest: Any) -> tuple[dict[str, Any], bytes]:
    seen = 0
    for chunk in chunks(fd, size):
        if digest is not None:
            digest.update(chunk)
        window.take(chunk)
        seen += len(chunk)
        if window.full and size > HASH_LIMIT:
            break
    return dict(_ends(window), first=window.first, cut=window.cut, total_lines=_known(window, seen, size)), bytes(
        window.data
    )


def _last(fd: int, size: int, lines: int, room: int, digest: Any) -> tuple[dict[str, Any], bytes]:
    offset = tail_offset(fd, size, lines, room)
    window = Window(1, 0, 0)
    seen = 0
    for chunk in chunks(fd, size if size <= COUNT_LIMIT else 0):
        if digest is not None:
            digest.update(chunk)
        window.take(chunk)
        seen += len(chunk)
    body = b"".join(chunks(fd, size, offset))
    cut = offset > 0 and os.pread(fd, 1, offset - 1) != b"\n"
    known = _known(window, seen, size)
    first = window.newlines - body.count(b"\n") + 1 if known is not None else 0
    return dict(_ends(window), first=first, cut=cut, total_lines=known), body


def _known(window: Window, seen: int, size: int) -> int | None:
    return window.newlines if seen >= size else None


def _ends(window: Window) -> dict[str, Any]:
    return {
        "crlf": 0 < window.crlf == window.newlines,
        "mixed_ends": 0 < window.crlf < window.newlines,
        "binary": False,
    }

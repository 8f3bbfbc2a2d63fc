"""Follow a growing file from a byte offset, through truncation and rotation, no faster than it is read."""

from __future__ import annotations

import os
import threading
from typing import Any, BinaryIO

from . import outputs, rotated
from .calls import Call, Fault, Operation, Result

CHUNK = 65536
WINDOW_BYTES = 512 * 1024
"""Sent and not yet taken by the console; more would make every other answer wait behind it."""
WINDOW_PARTS = 48
POLL_S = 0.1
SEEN = 64
"""Bytes before an offset that tell whether the file is still the one that was read."""
BACK_LIMIT = 16 * 1024 * 1024
"""How far back the last N lines are looked for."""


class Credit:
    """How much the console has taken of one follower."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.bytes = 0
        self.parts = 0

    def taken(self, count: int, parts: int) -> None:
        """Give back what the console has taken."""
        with self.condition:
            self.bytes -= count
            self.parts -= parts
            self.condition.notify_all()

    def wait(self, call: Call) -> None:
        """Wait until more may be sent, or nobody wants it."""
        with self.condition:
            while (self.bytes >= WINDOW_BYTES or self.parts >= WINDOW_PARTS) and not call.cancelled.is_set():
                self.condition.wait(0.5)

    def give(self, count: int) -> None:
        """Count what is sent."""
        with self.condition:
            self.bytes += count
            self.parts += 1


followers: dict[str, Credit] = {}


class _Follower:
    def __init__(self, call: Call, credit: Credit) -> None:
        self._call = call
        self._credit = credit
        self._spool = outputs.spool_of(call.text("path"))
        self._path = self._spool.path if self._spool else call.text("path")
        self._file: BinaryIO | None = None
        self._inode = 0
        self._offset = 0
        self._seen = b""

    def start(self) -> str:
        """Open at the place that was asked for; return what has changed since it was left."""
        args = self._call.args
        if self._spool is not None:
            self._spool.catch_up(int(args.get("offset") or 0))
        self._open(self._path)
        if args.get("offset") is None:
            lines = args.get("lines")
            self._offset = _line_start(self._file, int(lines)) if lines is not None else 0
            return "start"
        inode, offset = int(args.get("inode") or 0), int(args["offset"])
        if inode and inode != self._inode and self._spool is None:
            moved = _by_inode(os.path.dirname(self._path), inode)
            if moved is None:
                return "rotated"
            self._open(moved)
        if not self._fits(offset, self._call.body):
            return "truncated"
        self._offset, self._seen = offset, self._call.body
        return "resumed"

    def run(self) -> None:
        """Send until cancelled."""
        self._tell(self.start(), b"")
        while not self._call.cancelled.is_set():
            if not self._step():
                self._call.cancelled.wait(POLL_S)

    def _step(self) -> bool:
        """Send the next chunk; false when there is nothing new."""
        assert self._file is not None
        size = os.fstat(self._file.fileno()).st_size
        if size < self._offset or (size > self._offset and not self._fits(self._offset, self._seen)):
            self._offset, self._seen = 0, b""
            self._tell("truncated", b"")
        if size > self._offset:
            self._send_chunk()
            return True
        return self._rotated()

    def _send_chunk(self) -> None:
        self._credit.wait(self._call)
        if self._call.cancelled.is_set():
            return
        assert self._file is not None
        data = os.pread(self._file.fileno(), CHUNK, self._offset)
        at, self._offset = self._offset, self._offset + len(data)
        self._seen = (self._seen + data)[-SEEN:]
        self._tell("", data, at)

    def _rotated(self) -> bool:
        assert self._file is not None
        try:
            now = os.stat(self._path).st_ino
        except OSError:
            return False
        if now == self._inode:
            return False
        if os.fstat(self._file.fileno()).st_size > self._offset:
            return True  # written between the look at its size and the rename
        self._open(self._path)
        self._tell("rotated", b"")
        return True

    def _open(self, path: str) -> None:
        if self._file is not None:
            self._file.close()
        self._file = open(path, "rb", buffering=0)
        self._inode = os.fstat(self._file.fileno()).st_ino
        self._offset, self._seen = 0, b""

    def _fits(self, offset: int, seen: bytes) -> bool:
        assert self._file is not None
        if os.fstat(self._file.fileno()).st_size < offset:
            return False
        return not seen or os.pread(self._file.fileno(), len(seen), max(0, offset - len(seen))) == seen

    def _tell(self, event: str, data: bytes, at: int | None = None) -> None:
        self._credit.give(len(data))
        offset = self._offset if at is None else at
        told: dict[str, Any] = {"offset": offset, "inode": self._inode, "event": event}
        if event == "start" and self._file is not None:
            told["size"] = os.fstat(self._file.fileno()).st_size
            told["head"] = rotated.head_of(self._file).hex()
        self._call.emit(told, data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _line_start(file: BinaryIO | None, lines: int) -> int:
    """Return the offset where the last `lines` lines begin."""
    assert file is not None
    at = size = os.fstat(file.fileno()).st_size
    if lines <= 0:
        return size
    newlines = 0
    while at > 0 and size - at < BACK_LIMIT:
        start = max(0, at - CHUNK)
        block = os.pread(file.fileno(), at - start, start)
        if at == size and block.endswith(b"\n"):
            block = block[:-1]
        while (cut := block.rfind(b"\n")) >= 0:
            newlines += 1
            if newlines == lines:
                return start + cut + 1
            block = block[:cut]
        at = start
    return at


def _by_inode(folder: str, inode: int) -> str | None:
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.inode() == inode and entry.is_file(follow_symlinks=False):
                    return entry.path
    except OSError:
        return None
    return None


def _follow(call: Call) -> Result:
    """Stream a file: `path`, `key` (for `followed`), and `lines`, or `offset` + `inode` + body (last bytes seen).

    Each part tells `offset` of its first byte, `inode`, and an `event`: `start`, `resumed`,
    `truncated` or `rotated` (offset 0 of a new file), or none; a `start` tells the file's `size` and `head`, too.
    """
    key = call.text("key", "")
    credit = followers[key] = Credit()
    follower = _Follower(call, credit)
    try:
        follower.run()
    finally:
        followers.pop(key, None)
        follower.close()
    return {"ended": True}, b""


def _followed(call: Call) -> Result:
    """Tell a follower how many bytes and parts have been taken since the last time."""
    credit = followers.get(call.text("key"))
    if credit is None:
        raise Fault("enoent", "no such follower")
    credit.taken(call.number("bytes"), call.number("parts"))
    return {}, b""


def _read_log(call: Call) -> Result:
    """Return at most `length` bytes from `offset` (from the end when negative), with size, inode and `head`.

    A log that was rotated is found by `inode` and body; told is which files of the log `beside` lie around it.
    """
    with rotated.opened(call) as file:
        status = os.fstat(file.fileno())
        offset = call.number("offset")
        offset = max(0, status.st_size + offset) if offset < 0 else offset
        data = os.pread(file.fileno(), min(call.number("length"), BACK_LIMIT), offset)
        told = {"offset": offset, "size": status.st_size, "inode": status.st_ino, "head": rotated.head_of(file).hex()}
        if call.text("beside", ""):
            told.update(rotated.beside(call.text("beside"), file))
    return told, data


OPS: dict[str, Operation] = {"follow": _follow, "followed": _followed, "read_log": _read_log}

"""Search a tree for lines: the host's `grep -rnI`, its answer cut into parts while it runs.

Only GNU grep is asked, so that the result is that of `grep -rnI`, line for line: which files are
binary, what a pattern means, what an invalid byte matches. ripgrep differs in all three, and was
18 ms faster on the 1,942 files of SGLang (32 against 50).
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import Any, Callable

from .calls import Call, Fault, Operation, Result
from .paths import strings, to_bytes, to_text

PART_S = 0.05
"""A hit waits no longer than this for others to travel with."""
PART_LINES = 400
PART_BYTES = 128 * 1024
CLIP = 8192
"""Bytes of one line that are sent, when the request does not say."""
COMPLAINTS = 20


class Splitter:
    """Cuts `grep -nZ` output into lines, in bounded memory however long a line is.

    A line is `FILE NUL NUMBER (: | -) TEXT NEWLINE`; a file name may hold anything but NUL.
    """

    def __init__(self, clip: int, found: Callable[[bytes, int, bool, bytes, int], None]) -> None:
        self._clip = clip
        self._found = found
        self._pending = b""
        self._text: bytearray | None = None
        self._size = 0
        self._file = b""
        self._line = 0
        self._match = True

    def feed(self, data: bytes) -> None:
        """Take the next bytes of grep's output."""
        data = self._pending + data
        self._pending = b""
        at = 0
        while at < len(data):
            if self._text is None:
                start = self._label(data, at)
                if start < 0:
                    self._pending = data[at:]
                    return
                self._text, self._size, at = bytearray(), 0, start
            newline = data.find(b"\n", at)
            stop = newline if newline >= 0 else len(data)
            self._size += stop - at
            self._text += data[at : min(stop, at + self._clip - len(self._text))]
            at = stop + 1
            if newline >= 0:
                self._found(self._file, self._line, self._match, bytes(self._text), self._size)
                self._text = None

    def _label(self, data: bytes, at: int) -> int:
        """Read file name and number, and return where the text begins; -1 when it is not all there."""
        nul = data.find(b"\0", at)
        if nul < 0:
            return -1
        end = nul + 1
        while end < len(data) and data[end : end + 1].isdigit():
            end += 1
        if end >= len(data):
            return -1
        self._file, self._line = data[at:nul], int(data[nul + 1 : end] or b"0")
        self._match = data[end : end + 1] == b":"
        return end + 1


class Parts:
    """Gathers lines and sends them on, many at once or after `PART_S`."""

    def __init__(self, call: Call, limit: int) -> None:
        self._call = call
        self._limit = limit
        self._files: list[str] = []
        self._lines: list[list[Any]] = []
        self._body = bytearray()
        self._weight = 0
        self._due = 0.0
        self._last = b""
        self.hits = 0
        self.files = 0
        self.full = False

    def add(self, file: bytes, line: int, match: bool, text: bytes, size: int) -> None:
        """Take one line."""
        if self.full:
            return
        if file != self._last:
            self._last = file
            self.files += 1
        name = to_text(file)
        if not self._files or self._files[-1] != name:
            self._files.append(name)
            self._weight += len(name)
        if not self._lines:
            self._due = time.monotonic() + PART_S
        self._lines.append([len(self._files) - 1, line, int(match), len(text), size])
        self._body += text
        self._weight += len(text)
        self.hits += match
        self.full = 0 < self._limit <= self.hits
        if len(self._lines) >= PART_LINES or self._weight >= PART_BYTES:
            self.send()

    def wait_s(self) -> float | None:
        """Return how long the lines at hand may still wait; `None` when there are none."""
        return max(0.0, self._due - time.monotonic()) if self._lines else None

    def send(self) -> None:
        """Send what is at hand."""
        if self._lines:
            self._call.emit({"files": self._files, "lines": self._lines}, bytes(self._body))
            self._files, self._lines, self._body, self._weight = [], [], bytearray(), 0


def grep(call: Call) -> Result:
    """Search `paths` for `pattern`; parts carry lines, the last answer counts and complaints.

    Args: `fixed`, `extended`, `ignore_case`, `word`; `include`, `exclude` (globs; a `/` at the end
    of one to exclude means folders); `context` lines; `clip` bytes of a line; `limit` hits, 0 for all.
    """
    flags = _flags(call)
    pattern = to_pattern(call.text("pattern"))
    paths = [_existing(call, text) for text in strings(call, "paths")]
    if not paths:
        raise Fault("usage", "nothing to search")
    argv: list[bytes | str] = ["grep", "-rnIHZ", "--color=never", "--line-buffered", *flags, *_narrowed(call)]
    if context := call.number("context", 0):
        argv += ["-C%d" % context, "--no-group-separator"]
    argv += ["-e", pattern, "--"]
    _check(argv)
    parts = Parts(call, call.number("limit", 0))
    process = _start([*argv, *paths])
    call.on_cancel(process.kill)
    splitter = Splitter(max(1, call.number("clip", CLIP)), parts.add)
    complaint = _pump(process, splitter, parts)
    parts.send()
    if process.returncode not in (0, 1, 2) and not parts.full and not call.cancelled.is_set():
        raise Fault("failed", "grep ended with status %d" % process.returncode, detail=" ".join(complaint[:3]))
    facts = {"hits": parts.hits, "files": parts.files, "limited": parts.full, "complaints": complaint}
    return facts, b""


def to_pattern(text: str) -> bytes:
    """Return the bytes of a pattern."""
    if "\0" in text:
        raise Fault("usage", "a pattern cannot hold a NUL byte")
    return text.encode("utf-8", "surrogateescape")


def _existing(call: Call, text: str) -> bytes:
    """Return a path to search, or the first of its stand-ins in `instead` that is there."""
    stand_ins = (call.args.get("instead") or {}).get(text) or []
    for name in [text, *list(stand_ins)]:
        if os.path.exists(to_bytes(name)):
            return to_bytes(name)
    os.stat(to_bytes(text))
    return to_bytes(text)


def _flags(call: Call) -> list[str]:
    if call.args.get("fixed") and call.args.get("extended"):
        raise Fault("usage", "a pattern is either fixed text or an extended regular expression")
    letters = (("fixed", "-F"), ("extended", "-E"), ("ignore_case", "-i"), ("word", "-w"))
    return [flag for name, flag in letters if call.args.get(name)]


def _narrowed(call: Call) -> list[bytes]:
    found = [b"--include=" + to_pattern(glob) for glob in strings(call, "include")]
    for glob in strings(call, "exclude"):
        folder = len(glob) > 1 and glob.endswith("/")
        found.append((b"--exclude-dir=" if folder else b"--exclude=") + to_pattern(glob.rstrip("/") or glob))
    return found


def _start(argv: list[bytes | str], **env: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env={**os.environ, **env} if env else None
        )
    except FileNotFoundError:
        raise Fault("no_grep", "there is no grep on this host") from None


def _check(argv: list[bytes | str]) -> None:
    """Let grep itself say whether the pattern is one; a fault in a tree must not look like a bad pattern."""
    process = _start([*argv, os.devnull], LC_ALL="C")
    _, complaint = process.communicate()
    said = complaint.decode("utf-8", "replace").strip()
    if process.returncode and "option" in said.partition("\n")[0]:
        raise Fault("no_grep", "the grep of this host is not GNU grep", detail=said.partition("\n")[0])
    if process.returncode > 1:
        raise Fault("usage", "pattern not understood: %s" % said.rpartition("\n")[2].replace("grep: ", "", 1))


def _pump(process: subprocess.Popen[bytes], splitter: Splitter, parts: Parts) -> list[str]:
    """Read grep's output and complaints until both end, sending parts in time."""
    assert process.stdout is not None and process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    poll = select.poll()
    poll.register(out, select.POLLIN)
    poll.register(err, select.POLLIN)
    streams, said = {out, err}, bytearray()
    while streams:
        wait = parts.wait_s()
        events = poll.poll(None if wait is None else wait * 1000)
        if not events:
            parts.send()
        for fd, _ in events:
            data = os.read(fd, 65536)
            if not data:
                poll.unregister(fd)
                streams.discard(fd)
            elif fd == out:
                splitter.feed(data)
            elif len(said) < 65536:
                said += data
        if parts.full and process.poll() is None:
            process.kill()
        elif (wait := parts.wait_s()) is not None and wait <= 0:
            parts.send()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    return bytes(said).decode("utf-8", "replace").splitlines()[:COMPLAINTS]


OPS: dict[str, Operation] = {"grep": grep}

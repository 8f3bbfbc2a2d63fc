"""Hostile text from the host never acts on the terminal: the real cockpit in a pseudo-terminal, and all it wrote."""

from __future__ import annotations

import base64
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CONTROL = b"harmless-control-text"


@contextmanager
def terminal(*arguments: str, columns: int = 160, rows: int = 45) -> Iterator[int]:
    """Run a program of the tests on a terminal of its own."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(
            sys.executable, [sys.executable, *arguments], {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        )
    ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        yield fd
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def written(fd: int, until: bytes, seconds: float = 30.0) -> bytes:
    """Return all output up to a text."""
    out = bytearray()
    end = time.monotonic() + seconds
    while until not in out:
        if time.monotonic() > end:
            raise AssertionError(f"{until!r} was not shown; the end of the output is {bytes(out[-2000:])!r}")
        if select.select([fd], [], [], 0.2)[0]:
            out += os.read(fd, 1 << 16)
    return bytes(out)


def quiet(fd: int) -> bytes:
    """Return what is written until nothing comes for a moment: an escape alone is told from a sequence by time."""
    out = bytearray()
    end = time.monotonic() + 3
    while time.monotonic() < end and select.select([fd], [], [], 0.3)[0]:
        out += os.read(fd, 1 << 16)
    return bytes(out)


def complaints(out: bytes) -> list[str]:
    """Return what in an output would act on a terminal and is not of ours."""
    text = out.decode("utf-8", "replace")
    found = []
    if "\x1b]52" in text:
        found.append("clipboard")
    if "\x1b]0;" in text or "\x1b]2;" in text:
        found.append("title")
    if "\x00" in text:
        found.append("NUL")
    if re.search("[\x80-\x9f]", text):
        found.append("C1")
    if re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f]", text):
        found.append("bidi or invisible")
    if "\x1b[31mhostile" in text:
        found.append("colour")
    return found


def test_the_check_itself_sees_what_is_hostile() -> None:
    assert complaints(b"\x1b]52;c;ZXZpbA==\x07") == ["clipboard"]
    assert complaints("\x1b]0;x\x07\x00\x9b31m\u202e\x1b[31mhostile".encode()) == [
        "title",
        "NUL",
        "C1",
        "bidi or invisible",
        "colour",
    ]
    assert complaints("│ blackwell ● 12 ms".encode()) == []


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
def test_a_hostile_host_reaches_the_terminal_as_signs_only(size: tuple[int, int]) -> None:
    with terminal("-m", "tests.ui.hostile", columns=size[0], rows=size[1]) as fd:
        out = written(fd, CONTROL)
        for key in (b"4", b"5", b"2", b" "):
            os.write(fd, key)
            out += quiet(fd)
        for key, said in (
            (b"@", b"Remote commands"),
            (b"x", b"restart: stop"),
            (b"?", b"Go to the source"),
            (b"b", b"stop measuring"),
        ):
            os.write(fd, key)
            out += written(fd, said)
            os.write(fd, b"\x1b")
            out += quiet(fd)
        os.write(fd, b"1")
        out += quiet(fd)
        os.write(fd, b"F")
        out += written(fd, b"found-" + CONTROL)
        os.write(fd, b"host")
        out += quiet(fd)
        os.write(fd, b"\x1b")
        out += quiet(fd)
        os.write(fd, b"f")
        out += written(fd, b"whole word")
        os.write(fd, b"hit\r")
        out += written(fd, b"grep-" + CONTROL)
        os.write(fd, b"\r")
        out += written(fd, b"file-" + CONTROL)
        for key in (b"W", b"w", b"j"):
            os.write(fd, key)
            out += quiet(fd)
        os.write(fd, b"y")
        copied = written(fd, b"\x1b]52;c;") + quiet(fd)
        os.write(fd, b"D")
        out += written(fd, b"diff-" + CONTROL)
        for key in (b"s", b"W", b"="):
            os.write(fd, key)
            out += quiet(fd)
        os.write(fd, b"H")
        out += written(fd, b"changed-" + CONTROL)
        os.write(fd, b"3")
        out += written(fd, b"log-" + CONTROL)
    ours = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", copied)
    assert ours is not None
    assert base64.b64decode(ours[1]).decode().isprintable()
    assert complaints(copied.replace(ours[0], b"")) == []
    assert complaints(out) == []
    assert "␛]52;c;".encode() in out

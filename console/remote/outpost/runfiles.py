"""Small files of a run's folder: read as far as they are there, written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from typing import Any, Iterator

from .calls import Fault

LOCK_PATIENCE_S = 30.0
"""A launch takes a moment; one that holds the lock for longer hangs on its disk."""


@contextlib.contextmanager
def only_one(folder: str) -> Iterator[None]:
    """Hold a folder's lock, so that launches and adoptions of several consoles come one after the other."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    until = time.monotonic() + LOCK_PATIENCE_S
    try:
        while not _locked(fd):
            if time.monotonic() > until:
                raise Fault("locked", "another console launches a server and does not come to its end", path=folder)
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system that knows no locks: numbers are given once all the same
    return True


def read_text(path: str, limit: int = -1) -> str:
    """Return a file's text, at most `limit` characters; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


def read_json(path: str) -> dict[str, Any]:
    """Return a file's object; empty when there is none."""
    try:
        value = json.loads(read_text(path) or "{}")
    except ValueError:
        value = {}
    return value if isinstance(value, dict) else {}


def put_json(path: str, value: dict[str, Any]) -> None:
    """Replace a file by an object; several may do so at once."""
    new = "%s.%d.%d.new" % (path, os.getpid(), threading.get_ident())
    with open(new, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)

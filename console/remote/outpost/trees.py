"""Every name below a folder, walked once, sent while it is walked."""

from __future__ import annotations

import os
import time
import zlib
from typing import Any, Dict, List

from .calls import Call, Operation, Result
from .files import kind_of
from .paths import first_there, to_text

NAMES_LIMIT = 300000
PART_NAMES = 5000
PART_S = 0.1
SKIPPED = (b".git", b"__pycache__", b".tokwatt")
"""Folders whose files nobody looks for by name."""


class Parts:
    """Gathers names and sends them on, many at once or after `PART_S`."""

    def __init__(self, call: Call, root: bytes, limit: int) -> None:
        self._call = call
        self._root = root
        self._limit = limit
        self._names: List[bytes] = []
        self._links: List[List[Any]] = []
        self._due = time.monotonic() + PART_S
        self.total = 0

    @property
    def full(self) -> bool:
        """Whether there are more than are told, or nobody wants to know any more."""
        return self.total >= self._limit or self._call.cancelled.is_set()

    def add(self, name: bytes, entry: os.DirEntry[bytes]) -> None:
        """Take a name, with what it leads to when it is a link."""
        if entry.is_symlink():
            target = kind = ""
            try:
                target = to_text(os.readlink(entry.path))
                kind = kind_of(os.stat(entry.path).st_mode)
            except OSError:
                pass  # leads nowhere
            self._links.append([len(self._names), target, kind])
        self._names.append(name)
        self.total += 1
        if len(self._names) >= PART_NAMES or time.monotonic() >= self._due:
            self.send()

    def send(self) -> None:
        """Send what is at hand."""
        facts: Dict[str, Any] = {"path": to_text(self._root), "links": self._links}
        if self._names:
            self._call.emit(facts, zlib.compress(b"\0".join(self._names), 1))
        self._names, self._links = [], []
        self._due = time.monotonic() + PART_S


def names(call: Call) -> Result:
    """Name every file below `path`, links among them, nearest folders first; the parts' bodies are packed names.

    Args: `path`, `instead`; `limit` names, after which the answer says `limited`.
    """
    root = first_there(call)
    os.listdir(root)
    parts = Parts(call, root, min(NAMES_LIMIT, call.number("limit", NAMES_LIMIT)))
    folders = [b""]
    unreadable = 0
    for folder in folders:
        try:
            with os.scandir(os.path.join(root, folder) if folder else root) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            unreadable += 1
            continue
        for entry in entries:
            name = folder + b"/" + entry.name if folder else entry.name
            if parts.full:
                break
            if not entry.is_dir(follow_symlinks=False):
                parts.add(name, entry)
            elif entry.name not in SKIPPED:
                folders.append(name)
    parts.send()
    return {"path": to_text(root), "total": parts.total, "limited": parts.full, "unreadable": unreadable}, b""


OPS: Dict[str, Operation] = {"names": names}

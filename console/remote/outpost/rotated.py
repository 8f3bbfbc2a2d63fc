"""Find a log again that was rotated: the file that was read once, and those before and behind it."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, List

from . import outputs
from .calls import Call, Fault

HEAD = 256
"""Bytes at a file's start that tell it from another of the same inode: `copytruncate` keeps the inode."""

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")


def head_of(file: BinaryIO) -> bytes:
    """Return how a file begins."""
    return os.pread(file.fileno(), HEAD, 0)


def opened(call: Call) -> BinaryIO:
    """Open the log at `path`, or wherever the file is now that had `inode` and began with the body.

    With `gone` the fault says that it is nowhere any more. The output of a program has one file only.
    """
    path, inode, head = call.text("path"), call.number("inode", 0), call.body
    if not inode or outputs.spool_of(path) is not None:
        return open(outputs.readable(path), "rb", buffering=0)
    alike = None
    for place in [path, *_siblings(path)]:
        try:
            file = open(place, "rb", buffering=0)
        except OSError:
            continue
        begins = head_of(file)[: len(head)] == head
        if begins and os.fstat(file.fileno()).st_ino == inode:
            if alike is not None:
                alike.close()
            return file
        if begins and head and alike is None:
            alike = file  # copied: the inode is another's
        else:
            file.close()
    if alike is None:
        raise Fault("gone", "the file that %s was then is not there any more" % path, path=path)
    return alike


def beside(path: str, file: BinaryIO) -> "dict[str, Any]":
    """Return name, and paths of the logs before and behind a file (`older`, `newer`; empty: none)."""
    if outputs.spool_of(path) is not None:
        return {"name": path, "older": "", "newer": ""}
    inode = os.fstat(file.fileno()).st_ino
    every = [*_siblings(path), path]
    at = next((number for number, place in enumerate(every) if _inode(place) == inode), -1)
    if at < 0:
        return {"name": path, "older": "", "newer": ""}
    return {
        "name": every[at],
        "older": every[at - 1] if at else "",
        "newer": every[at + 1] if at + 1 < len(every) else "",
    }


def _siblings(path: str) -> List[str]:
    """Return the rotated files of a log, the oldest first; packed ones cannot be read in."""
    folder, base = os.path.split(path)
    found = []
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                rest = entry.name[len(base) :]
                rotated = entry.name.startswith(base) and rest[:1] in (".", "-") and rest[1:2].isdigit()
                if rotated and not rest.endswith(_PACKED) and entry.is_file(follow_symlinks=False):
                    count = int(rest[1:]) if rest[1:].isdigit() and len(rest) < 5 else 0
                    found.append((entry.stat().st_mtime, -count, entry.path))
    except OSError:
        return []
    return [place for _, _, place in sorted(found)]


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0

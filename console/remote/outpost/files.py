"""Files and folders: read a range, list, stat, hash."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import Any

from . import git, reading
from .calls import Call, Fault, Operation, Result
from .paths import first_there, strings, to_bytes, to_text

ROOM = 16 << 20
"""Bytes of one answer, when the request does not say."""
ENTRIES = 20000
"""Names of one folder that are listed."""
PART = 256 * 1024
LINES_BEFORE = 1000
"""Lines of a big file that are sent before the one that is wanted."""
TAIL_LINES = 20000
TRIES = 3
"""Readings of a small file that is being changed meanwhile."""


def read(call: Call) -> Result:
    """Read lines of a file and what is to know of it, from one open descriptor.

    Args: `path`; `first` (negative: the last lines), `count`, `max_bytes`; `window` (bytes that are
    wanted of a file that is bigger than `max_bytes`), `line` (which it shall hold; negative: the last); `hash`, `git` (what to add); `rather`, `instead`: other places (`path`, `first`, `count`), which are taken when they are
    there, or when this one is not.
    """
    place = _place(call)
    path = to_bytes(place["path"])
    first, count = place.get("first", 1), place.get("count")
    room = min(call.number("max_bytes", ROOM), ROOM * 8)
    letter = git.Letter(path, call) if call.args.get("git", True) else None
    fd = _open_file(path)
    try:
        for left in reversed(range(TRIES)):
            was = os.fstat(fd)
            if was.st_size > room and call.args.get("window"):
                room = min(room, max(1, call.number("window")))
                if line := call.number("line", 0):
                    first, count = (-TAIL_LINES, None) if line < 0 else (max(1, line - LINES_BEFORE), None)
            facts, body = reading.read_lines(fd, first, count, room, bool(call.args.get("hash", True)))
            now = os.fstat(fd)
            same = (was.st_mtime_ns, was.st_size) == (now.st_mtime_ns, now.st_size)
            if same or was.st_size > reading.HASH_LIMIT or not left:
                break
    finally:
        os.close(fd)
    facts.update(
        path=to_text(path), size=was.st_size, mtime=was.st_mtime_ns / 1e9, mtime_ns=was.st_mtime_ns, changing=not same
    )
    facts["git"] = letter.wait() if letter is not None else ""
    return facts, body


def _place(call: Call) -> dict[str, Any]:
    """Return the first place that is there: of `rather`, then the one asked for, then of `instead`."""
    wanted: dict[str, Any] = {"path": call.text("path"), "first": call.number("first", 1)}
    wanted["count"] = call.args.get("count")
    rather, instead = call.args.get("rather") or [], call.args.get("instead") or []
    if rather or instead:
        for place in [*rather, wanted, *instead]:
            if os.path.lexists(to_bytes(place["path"])):
                return dict(place)
    return wanted


def _open_file(path: bytes) -> int:
    # a pipe without a writer must not hold the thread
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", to_text(path))
    raise Fault("special", "is no regular file", path=to_text(path))


def fetch(call: Call) -> Result:
    """Send the bytes of a file in parts, from `offset` on, `length` of them or all."""
    path = to_bytes(_place(call)["path"])
    offset, length = call.number("offset", 0), call.args.get("length")
    fd = _open_file(path)
    try:
        size = os.fstat(fd).st_size
        stop = size if length is None else min(size, offset + int(length))
        while not call.cancelled.is_set() and (offset < stop or size == 0):
            part = os.pread(fd, PART if size == 0 else min(PART, stop - offset), offset)
            if not part:
                break
            offset += len(part)
            call.emit({}, part)
    finally:
        os.close(fd)
    return {"path": to_text(path), "size": size, "offset": offset}, b""


def list_folder(call: Call) -> Result:
    """List a folder, folders first: name, kind, size, mtime, where links lead, git letters.

    The names are JSON in the body. Args: `path`, `instead`; `offset` and `limit` for a page of a huge one; `git`.
    """
    path = first_there(call)
    with os.scandir(path) as folder:
        there = sorted(folder, key=_order)
    offset, total = call.number("offset", 0), len(there)
    entries = [_entry(path, entry) for entry in there[offset : offset + min(ENTRIES, call.number("limit", ENTRIES))]]
    letters = git.folder_letters(path, call) if call.args.get("git", True) else {}
    for item in entries:
        item["git"] = letters.get(item["name"], "")
    return {"path": to_text(path), "total": total}, json.dumps(entries, separators=(",", ":")).encode("ascii")


def _order(entry: os.DirEntry[bytes]) -> tuple[bool, bytes]:
    try:
        return not entry.is_dir(), entry.name
    except OSError:
        return True, entry.name


def _entry(folder: bytes, entry: os.DirEntry[bytes]) -> dict[str, Any]:
    item: dict[str, Any] = {"name": to_text(entry.name), "kind": "other", "size": 0, "mtime": 0.0}
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return item  # gone since it was named
    item.update(kind=kind_of(info.st_mode), size=info.st_size, mtime=info.st_mtime)
    if item["kind"] == "link":
        path = os.path.join(folder, entry.name)
        try:
            item["target"] = to_text(os.readlink(path))
            item["target_kind"] = kind_of(os.stat(path).st_mode)
        except OSError:
            item["target_kind"] = ""  # leads nowhere
    return item


def kind_of(mode: int) -> str:
    """Return `dir`, `file`, `link` or `other`."""
    for test, kind in ((stat.S_ISDIR, "dir"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link")):
        if test(mode):
            return kind
    return "other"


def stat_paths(call: Call) -> Result:
    """Tell kind, size, owner, mode and rights of `paths`, by path; `null` where there is nothing."""
    return {text: _facts(to_bytes(text)) for text in strings(call, "paths") or [call.text("path")]}, b""


def _facts(path: bytes) -> dict[str, Any] | None:
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    facts = {
        "kind": kind_of(info.st_mode),
        "size": info.st_size,
        "mtime": info.st_mtime,
        "mode": stat.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "real": to_text(os.path.realpath(path)),
        "writable": os.access(path, os.W_OK),
        "folder_writable": os.access(os.path.dirname(os.path.abspath(path)), os.W_OK),
    }
    if facts["kind"] == "link" and os.path.exists(path):
        facts["target_kind"] = kind_of(os.stat(path).st_mode)
    return facts


def hash_paths(call: Call) -> Result:
    """Hash `paths` and return SHA-256 by path, `null` where there is no file."""
    return {text: sha256_of(to_bytes(text)) for text in strings(call, "paths") or [call.text("path")]}, b""


def sha256_of(path: bytes) -> str | None:
    """Return the SHA-256 of a file, `None` when there is none."""
    try:
        fd = _open_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    digest = hashlib.sha256()
    with os.fdopen(fd, "rb", buffering=0) as file:
        while chunk := file.read(reading.CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


OPS: dict[str, Operation] = {
    "read": read,
    "fetch": fetch,
    "list": list_folder,
    "stat": stat_paths,
    "hash": hash_paths,
}

"""What the scripts of shell mode print, made into the outpost's answers."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from console.remote.outpost import git, reading
from console.remote.outpost.calls import Fault
from console.remote.outpost.files import kind_of
from console.remote.outpost.paths import to_text

ERRNO = {"2": "enoent", "13": "eacces", "20": "enotdir", "21": "eisdir", "30": "erofs", "28": "enospc"}
"""Exit codes of our scripts that mean a fault."""

_SAID = (
    ("permission denied", "eacces"),
    ("read-only file system", "erofs"),
    ("no space left", "enospc"),
    ("no such file", "enoent"),
)


@dataclass(frozen=True, slots=True)
class Completed:
    """What a program left behind."""

    status: int | None
    output: bytes
    complaint: bytes


def fault_of(done: Completed, path: str) -> Fault:
    """Return the fault that an exit code or a complaint tells."""
    said = done.complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
    kind = ERRNO.get(str(done.status), "")
    for words, name in _SAID:
        if not kind and words in said.lower():
            kind = name
    messages = {"enoent": "No such file or directory", "eacces": "Permission denied", "eisdir": "is a folder"}
    return Fault(kind or "failed", messages.get(kind, said or f"exit {done.status}"), path=path)


def window_of(
    content: bytes, first: int, count: int | None, room: int, want_hash: bool
) -> tuple[dict[str, Any], bytes]:
    """Return facts and lines of a file's bytes, as the outpost reads them from the file itself."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return reading.read_lines(file.fileno(), first, count, room, want_hash)


def entry_of(fields: Sequence[bytes]) -> dict[str, Any]:
    """Return one name of a folder from its six fields."""
    name, mode, size, mtime, target, target_mode = fields
    kind = kind_of(int(mode or b"0", 16))
    entry: dict[str, Any] = {"name": to_text(name), "kind": kind, "size": int(size or 0), "mtime": float(mtime or 0)}
    if kind == "link":
        entry["target"] = to_text(target)
        entry["target_kind"] = kind_of(int(target_mode, 16)) if target_mode else ""
    return entry


def letters_of(prefix: bytes, status: bytes) -> dict[str, str]:
    """Return git's letters by name from `git status -z`."""
    letters: dict[str, str] = {}
    for code, path in git.status_entries(status):
        if not path.startswith(prefix):
            return {}
        name, slash, rest = path[len(prefix) :].partition(b"/")
        letter = git.letter_of(code)
        letter = "M" if slash and rest and letter != "?" else letter
        key = to_text(name)
        letters[key] = letter if letters.get(key, letter) == letter else "M"
    return letters


def facts_of(line: bytes) -> dict[str, Any] | None:
    """Return what `stat` told of a path, `None` when nothing is there."""
    if not line:
        return None
    mode, size, mtime, uid, gid, writable, folder_writable, real = line.split(b" ", 7)
    number = int(mode, 16)
    return {
        "kind": kind_of(number),
        "size": int(size),
        "mtime": float(mtime),
        "mode": stat.S_IMODE(number),
        "uid": int(uid),
        "gid": int(gid),
        "real": to_text(real),
        "writable": writable == b"1",
        "folder_writable": folder_writable == b"1",
    }

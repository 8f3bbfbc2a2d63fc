"""Installed packages against what they were installed as: RECORD hashes, or git where there are none.

A file's hash is read once and remembered under its size, times and inode; a change of content that
leaves all four alone is not possible without setting the clock back.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import csv
import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import git, resolving
from .basics import state_home
from .calls import Call, Fault
from .keep import Keep, ours
from .paths import to_bytes, to_text

THREADS = 8
CHUNK = 1 << 20
ADDED_LIMIT = 500
FRESH_NS = 2 * 10**9
"""A file changed so lately is not remembered: it could change again within the same tick."""
NOT_CODE = ("__pycache__", ".tokwatt", ".git")


class Row(NamedTuple):
    """One line of a RECORD."""

    path: str
    """Relative to the folder that the metadata stands in."""
    algorithm: str
    digest: str
    """In hex."""
    size: int
    """-1 when it is not told."""


def fields_of(info: str) -> List[List[str]]:
    """Return the lines of a `*.dist-info/RECORD`: path, hash and size, the last two perhaps empty."""
    try:
        with open(os.path.join(info, "RECORD"), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return [row for row in csv.reader(file) if len(row) == 3]
    except (OSError, csv.Error):
        return []


def rows_of(fields: Sequence[Sequence[str]]) -> List[Row]:
    """Return what the lines of a RECORD say of files with a hash; compiled files have none."""
    found = []
    for path, told, size in fields:
        algorithm, _, text = told.partition("=")
        if not text or path.endswith((".pyc", ".pyo")) or algorithm not in hashlib.algorithms_available:
            continue
        try:
            digest = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
            whole = len(digest) == 2 * hashlib.new(algorithm).digest_size
        except (binascii.Error, ValueError):
            continue
        if not whole:
            continue
        found.append(Row(path, algorithm, digest, int(size) if size.isdigit() else -1))
    return found


class Beside:
    """Every RECORD in one folder of installed packages, read once."""

    def __init__(self, parent: str) -> None:
        self.parent = parent
        self._infos: Dict[str, List[Row]] = {}
        self._listed: Set[str] = set()
        with contextlib.suppress(OSError):
            for entry in sorted(os.listdir(parent)):
                if entry.endswith(".dist-info"):
                    fields = fields_of(os.path.join(parent, entry))
                    self._infos[entry] = rows_of(fields)
                    self._listed.update(row[0] for row in fields)

    def of(self, name: str) -> Dict[str, List[Row]]:
        """Return the rows of the distributions that bring package `name`, by metadata folder."""
        start = "%s/__init__.py" % name
        return {
            info: rows
            for info, rows in self._infos.items()
            if not resolving.is_editable(os.path.join(self.parent, info)) and any(row.path == start for row in rows)
        }

    def paths(self) -> Set[str]:
        """Return every path that any RECORD here lists, with a hash or without."""
        return self._listed


class Remembered:
    """Hashes of files by path, valid as long as size, times and inode are the same."""

    def __init__(self) -> None:
        self._file = os.path.join(state_home(), "cache", "hashes.json")
        self._table: Dict[str, List[Any]] = {}
        self._new = False
        try:
            with open(self._file, encoding="ascii") as file:
                table = json.load(file)
            self._table = table if isinstance(table, dict) else {}
        except (OSError, ValueError):
            pass

    def digest(self, path: str, algorithm: str) -> Optional[str]:
        """Return the hash of a file in hex; `None` when there is no such file."""
        try:
            info = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        mark = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev, algorithm]
        known = self._table.get(path)
        if known is not None and known[:6] == mark:
            return str(known[6])
        digest = hashlib.new(algorithm)
        try:
            with open(path, "rb", buffering=0) as file:
                while True:
                    chunk = file.read(CHUNK)
                    if not chunk:
                        break
                    digest.update(chunk)
                after = os.fstat(file.fileno())
        except (IsADirectoryError, FileNotFoundError):
            return None
        same = [after.st_size, after.st_mtime_ns, after.st_ctime_ns] == mark[:3]
        if same and time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) > FRESH_NS:
            self._table[path] = [*mark, digest.hexdigest()]
            self._new = True
        return digest.hexdigest()

    def save(self) -> None:
        """Keep what was learned for the next look; a host without room for it is looked at again."""
        if not self._new:
            return
        temp = "%s.%d" % (self._file, os.getpid())
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._file), exist_ok=True)
            with open(temp, "w", encoding="ascii") as file:
                json.dump(self._table, file, separators=(",", ":"))
            os.replace(temp, self._file)


Facts = Dict[str, Any]


def check(call: Call, package: Facts, remembered: Remembered, beside: Dict[str, Beside], want_added: bool) -> Facts:
    """Return what of one package is not as it was installed, or why that cannot be told."""
    folder = str(package["folder"])
    parent = os.path.dirname(folder)
    found: Facts = {"against": "", "checked": 0, "files": [], "reason": "", "distributions": []}
    if parent not in beside:
        beside[parent] = Beside(parent)
    records = beside[parent].of(os.path.basename(folder))
    if records:
        found["distributions"] = sorted(records)
        found["against"] = "RECORD"
        _by_record(call, package, remembered, beside[parent], records, found, want_added)
    else:
        _by_git(call, folder, found, want_added)
    _by_whom(folder, found["files"])
    return found


def _by_record(
    call: Call,
    package: Facts,
    remembered: Remembered,
    beside: Beside,
    records: Dict[str, List[Row]],
    found: Facts,
    want_added: bool,
) -> None:
    wanted: Dict[str, List[Row]] = {}
    for rows in records.values():
        for row in rows:
            wanted.setdefault(row.path, []).append(row)

    def look(path: str) -> Optional[Facts]:
        full = os.path.normpath(os.path.join(beside.parent, path))
        rows = wanted[path]
        if call.cancelled.is_set():
            return None
        try:
            present = remembered.digest(full, rows[0].algorithm)
        except OSError as error:
            return {"path": full, "shown": path, "kind": "unreadable", "reason": error.strerror or str(error)}
        if present is not None and any(row.digest == present for row in rows):
            return None
        facts = {"path": full, "shown": path, "kind": "changed" if present is not None else "missing"}
        facts["expected"] = rows[0].digest if rows[0].algorithm == "sha256" else ""
        facts["found"] = present if present is not None and rows[0].algorithm == "sha256" else ""
        return facts

    with ThreadPoolExecutor(THREADS) as pool:
        found["files"] = [facts for facts in pool.map(look, sorted(wanted)) if facts is not None]
    found["checked"] = len(wanted)
    if want_added:
        known = beside.paths()
        for path in _files_below(str(package["folder"])):
            shown = os.path.relpath(path, beside.parent)
            if shown not in known:
                if len(found["files"]) >= ADDED_LIMIT:
                    found["reason"] = "more than %d files; the rest is not listed" % ADDED_LIMIT
                    break
                found["files"].append({"path": path, "shown": shown, "kind": "added"})


def _files_below(folder: str) -> Iterator[str]:
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_CODE)
        for name in sorted(files):
            if not name.endswith((".pyc", ".pyo")):
                yield os.path.join(top, name)


def hashes_below(folder: str, remembered: Remembered, call: Call) -> Dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path from there."""
    paths = list(_files_below(folder))

    def look(path: str) -> Optional[str]:
        with contextlib.suppress(OSError):
            return None if call.cancelled.is_set() else remembered.digest(path, "sha256")
        return None

    with ThreadPoolExecutor(THREADS) as pool:
        hashes = list(pool.map(look, paths))
    return {os.path.relpath(path, folder): sha for path, sha in zip(paths, hashes) if sha is not None}  # noqa: B905


_LETTERS = {"M": "changed", "T": "changed", "R": "added", "C": "added", "A": "added", "D": "missing", "U": "changed"}


def _by_git(call: Call, folder: str, found: Facts, want_added: bool) -> None:
    raw = to_bytes(folder)
    try:
        git.run(raw, ["ls-files", "--error-unmatch", "--", "__init__.py"], call)
        top = to_text(git.run(raw, ["rev-parse", "--show-toplevel"], call).rstrip(b"\n"))
        output = git.run(raw, ["status", "--porcelain=v1", "-z", "-uall", "--", "."], call)
        found["checked"] = git.run(raw, ["ls-files", "-z", "--", "."], call).count(b"\0")
        found["commit"] = to_text(git.run(raw, ["rev-parse", "HEAD"], call).strip())
    except Fault as fault:
        found["reason"] = "no RECORD tells how it was installed, and git: %s" % fault.message
        if fault.kind in ("no_git", "no_git_program", "git_failed"):
            found["reason"] = "no RECORD and no git tells how it was installed"
        return
    found["against"] = "git"
    for code, name in git.status_entries(output):
        kind = "added" if code == "??" else _LETTERS.get(git.letter_of(code), "changed")
        path = os.path.join(top, to_text(name))
        if code == "??" and (not want_added or path.endswith(".pyc") or os.path.isdir(path)):
            continue
        shown = os.path.relpath(path, os.path.dirname(os.path.realpath(folder)))
        found["files"].append({"path": path, "shown": shown, "kind": kind})


def _by_whom(folder: str, files: List[Facts]) -> None:
    """Say of each file which of our patches or edits left it as it is."""
    keep = Keep(folder)
    if not files or not keep.exists():
        return
    by: Dict[Tuple[str, str], str] = {}
    for entry in ours(keep.entries()).values():
        for file in entry["files"]:
            by[os.path.realpath(keep.absolute(file["path"])), str(file["after"] or "")] = str(entry["name"])
    for facts in files:
        real = os.path.realpath(facts["path"])
        present = str(facts.get("found") or _sha256(real) or "")
        facts["patch"] = by.get((real, present), "")


def _sha256(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def check_all(call: Call, packages: Sequence[Facts], want_added: bool) -> None:
    """Check packages one after another and send each as soon as it is known."""
    remembered, beside = Remembered(), {}  # type: Remembered, Dict[str, Beside]
    for package in packages:
        if call.cancelled.is_set():
            return
        began = time.monotonic()
        facts = check(call, package, remembered, beside, want_added)
        call.emit({"package": package, **facts, "ms": (time.monotonic() - began) * 1000})
    if not call.cancelled.is_set():
        remembered.save()

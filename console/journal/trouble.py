"""What is wrong with the journal's file, and what helps: said by the kind of the trouble."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path

from console.errors import ConsoleError

FULL_BYTES = 1 << 20
"""Less than this free is a full disk: SQLite calls it an I/O error where its shared memory finds no room."""

NO_WRITING = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
ELSEWHERE = "TOKWATT_DATA=FOLDER puts the journal elsewhere"


class NewerError(sqlite3.DatabaseError):
    """The file was written by a newer version."""


def kind_of(error: sqlite3.Error | OSError) -> int:
    """Return SQLite's primary code of an error; 0 where it has none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def cannot_be_written(error: sqlite3.Error | OSError) -> bool:
    """Return whether reading alone may still go."""
    return isinstance(error, OSError) or kind_of(error) in NO_WRITING


def trouble(path: Path, error: sqlite3.Error | OSError) -> ConsoleError:
    """Return the error for the operator."""
    detail, hint = _words(path, error)
    return ConsoleError(f"{path}: the journal cannot be used", detail, hint)


def _words(path: Path, error: sqlite3.Error | OSError) -> tuple[str, str]:
    said = str(error)
    if isinstance(error, NewerError):
        return said, f"use that version; {ELSEWHERE}"
    if path.is_dir():
        return f"{said}: it is a folder", "move the folder away to start a new journal"
    if kind_of(error) in BROKEN:
        return (
            said,
            f"move it away with its -wal and -shm to start a new one; sqlite3 {path.name} .recover saves the rest",
        )
    if _is_full(path, error):
        return f"{said}: the disk is full", f"free some space below {path.parent}; {ELSEWHERE}"
    if cannot_be_written(error):
        return said, f"{path.parent} must be a folder that this user may write to; {ELSEWHERE}"
    if kind_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return said, "another console is writing; try again"
    return said, "move the file away to start a new one"


def _is_full(path: Path, error: sqlite3.Error | OSError) -> bool:
    if kind_of(error) == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return True
    try:
        return kind_of(error) == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < FULL_BYTES
    except OSError:
        return False

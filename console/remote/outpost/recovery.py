"""Transactions that a kill or a power loss cut short: finished or undone."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any, Dict, List, Optional

from . import placing
from .calls import Fault
from .keep import Keep, digest, pending, sync_folder

OLD, NEW, FOREIGN = "old", "new", "foreign"


def side(path: str, before: Optional[str], after: Optional[str], mode: Optional[int] = None) -> str:
    """Tell whether a file is as before a transaction, as after it, or neither; by mode where only that changes."""
    data = placing.content(path)
    sha = None if data is None else digest(data)
    if sha is not None and sha == before == after and mode is not None:
        return NEW if stat.S_IMODE(os.stat(path).st_mode) == mode else OLD
    if sha == after:
        return NEW
    return OLD if sha == before else FOREIGN


def swap(path: str, temp: str, before: Optional[str], after: Optional[str]) -> None:
    """Give the bytes at `temp` the name `path`, or take the name away."""
    if after is None:
        os.unlink(path)
    elif before is None:
        try:
            os.link(temp, path)  # unlike a rename, fails when somebody made the file meanwhile
        except FileExistsError:
            raise
        except OSError:
            os.rename(temp, path)
            return
        os.unlink(temp)
    else:
        os.replace(temp, path)


def restore(keep: Keep, path: str, temp: str, before: Optional[str], mode: Optional[int] = None) -> None:
    """Put a file back as it was before: by its kept inode where there is one, else by content."""
    kept = temp + "~"
    if before is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    elif os.path.lexists(kept):
        os.replace(kept, path)
    else:
        data = keep.get(before)
        if data is None:
            raise Fault("lost", "its original is not kept any more", path=path)
        again = temp + "-back"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(again)
        placing.place(path, again, data, mode)
        os.replace(again, path)
    sync_folder(os.path.dirname(path))


def tidy(keep: Keep, entry: Dict[str, Any], folders_too: bool) -> None:
    """Remove what a transaction left beside its files."""
    for file in entry["files"]:
        temp = keep.absolute(file["temp"])
        for name in (temp, temp + "~", temp + "-back"):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(name)
        if file["after"] is None:
            _remove_empty_folders(keep, os.path.dirname(keep.absolute(file["path"])))
    if folders_too:
        for folder in reversed(entry.get("made", [])):
            with contextlib.suppress(OSError):
                os.rmdir(keep.absolute(folder))


def _remove_empty_folders(keep: Keep, folder: str) -> None:
    """Take away folders that one of our transactions made and that are empty again."""
    made = {path for entry in keep.entries() for path in entry.get("made", [])}
    while keep.relative(folder) in made:
        cache = os.path.join(folder, "__pycache__")
        with contextlib.suppress(OSError):
            for name in os.listdir(cache) if os.listdir(folder) == ["__pycache__"] else ():
                os.unlink(os.path.join(cache, name))
            os.rmdir(cache)
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def recover(keep: Keep, by: str) -> List[Dict[str, Any]]:
    """Close every transaction that was cut short; the lock is held.

    One that had reached its commit mark is finished, unless somebody changed one of its files
    since; others are undone. A file that is neither old nor new is never touched.
    """
    said = []
    for entry in pending(keep.entries()):
        sides = {}
        for file in entry["files"]:
            sides[file["path"]] = side(keep.absolute(file["path"]), file["before"], file["after"], file.get("mode"))
        foreign = sorted(path for path, which in sides.items() if which == FOREIGN)
        ready = all(file["after"] is None or keep.get(file["after"]) is not None for file in entry["files"])
        if entry["phase"] == "commit" and not foreign and ready:
            _finish(keep, entry, sides)
            phase = "finished"
        else:
            for file in entry["files"]:
                if sides[file["path"]] == NEW and entry["phase"] == "commit":
                    restore(
                        keep,
                        keep.absolute(file["path"]),
                        keep.absolute(file["temp"]),
                        file["before"],
                        file.get("mode_before"),
                    )
            phase = "undone"
        tidy(keep, entry, folders_too=phase == "undone")
        keep.append({"id": entry["id"], "phase": phase, "by": by, "foreign": foreign})
        said.append(
            {
                "id": entry["id"],
                "name": entry["name"],
                "verb": entry["verb"],
                "operator": entry.get("operator", ""),
                "outcome": phase,
                "files": sorted(sides),
                "foreign": foreign,
            }
        )
    if said:
        keep.collect()
    return said


def _finish(keep: Keep, entry: Dict[str, Any], sides: Dict[str, str]) -> None:
    for file in entry["files"]:
        if sides[file["path"]] == NEW:
            continue
        path, temp = keep.absolute(file["path"]), keep.absolute(file["temp"])
        if file["after"] is not None:
            data = placing.content(temp)
            if data is None or digest(data) != file["after"]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temp)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                placing.place(path, temp, keep.get(file["after"]) or b"", file.get("mode"))
        swap(path, temp, file["before"], file["after"])
        sync_folder(os.path.dirname(path))

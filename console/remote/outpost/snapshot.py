"""Many files, what we wrote of them and what git has of them, in one answer."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
from typing import Any, Dict, List, Optional

from . import loading, placing, processes, recovery
from .calls import Call, Fault, Result, fault_of
from .keep import Keep, all_files, digest, history, ours, pending

FILE_LIMIT = 32 * 1024 * 1024
FOUND_LIMIT = 20
GIT_SECONDS = 10
GPU_SECONDS = 15


def snapshot(call: Call) -> Result:
    """Read files, the patch journal and git's blobs of them.

    Args (in the call): `root` the package folder, `paths` relative to it, `hashes` absolute paths
    to hash only, `contents` names of journalled patches whose files and kept contents are wanted too
    (`*last` for the newest entry), `names` file names to look for in the tree, `recover` whether transactions
    that were cut short may be closed, `operator` who does it, `capability` whether to ask the driver
    for the GPUs' compute capability, `pid`, `session` and `start_ticks` of a server whose processes are
    wanted, and `package`, the name of which it is to be told where they import it from.

    The body holds the contents one after another, as `files` and `kept` tell by `size`.
    """
    keep = Keep(call.text("root"))
    if not os.path.isdir(keep.root):
        raise Fault("enoent", "no such folder", path=call.text("root"))
    result: Dict[str, Any] = {"root": keep.root, "recovered": [], "trouble": ""}
    if call.args.get("recover"):
        result["recovered"], result["trouble"] = _recover(keep, call.text("operator", ""))
    entries = keep.entries()
    held, past = ours(entries), history(entries)
    wanted = [str(name) for name in call.args.get("contents") or []]
    chosen = [held[name] for name in wanted if name in held] + (past[-1:] if "*last" in wanted else [])
    bodies: List[bytes] = []
    paths = [str(path) for path in call.args.get("paths") or []]
    paths += [file["path"] for entry in chosen for file in _told(keep, entry)["files"]]
    result["files"] = {path: _file(keep, path, bodies) for path in dict.fromkeys(paths)}
    result["switches"] = _switches(past)
    result["folders"] = _folders(keep.root, [path for path in paths if result["files"][path] is None])
    result["ours"] = {name: _told(keep, entry) for name, entry in held.items()}
    result["last"] = _told(keep, past[-1]) if past else None
    result["pending"] = [_told(keep, entry) for entry in pending(entries)]
    result["kept"] = _kept(keep, chosen, bodies)
    result["hashes"] = {path: _hash(path) for path in call.args.get("hashes") or []}
    result["head"] = _head(keep.root, [path for path in paths if result["files"][path]])
    result["workers"] = _workers(call) if call.args.get("session") else []
    result["capability"] = _capability() if call.args.get("capability") else None
    result["found"] = _find(keep.root, [str(name) for name in call.args.get("names") or []])
    return result, b"".join(bodies)


def _workers(call: Call) -> List[Dict[str, Any]]:
    """Return the processes of a server: when each began, and which copy of the package it imports."""
    leader = call.number("pid", 0) or call.number("session")
    found = processes.members(leader, call.number("start_ticks"), call.number("session"))
    copy = loading.copy_of(call, leader, call.text("package", "")) if found else ""
    return [
        {
            "pid": one["pid"],
            "title": one["title"],
            "started_at": one.get("started_at"),
            "loads": copy if one["pid"] == leader or loading.alike(one["pid"], leader) else "",
        }
        for one in found
    ]


def _switches(entries: List[Dict[str, Any]]) -> Dict[str, List[List[Any]]]:
    """Return when each patch was switched, oldest first: what was on when a process began follows from it."""
    found: Dict[str, List[List[Any]]] = {}
    for entry in entries:
        for part in entry.get("parts") or [entry]:
            found.setdefault(str(part["name"]), []).append([entry.get("at"), part["verb"]])
    return found


def _recover(keep: Keep, operator: str) -> Any:
    if not keep.exists() or not pending(keep.entries()):
        return [], ""
    try:
        with Call.critical, keep.lock(operator):
            return recovery.recover(keep, operator), ""
    except Fault as fault:
        return [], "%s: %s" % (fault.kind, fault.message)
    except OSError as error:
        told = fault_of(error)
        return [], "%s: %s %s" % (told.kind, told.message, told.facts.get("path") or "")


def _file(keep: Keep, path: str, bodies: List[bytes]) -> Optional[Dict[str, Any]]:
    full = os.path.realpath(os.path.join(keep.root, path))
    if os.path.commonpath([full, keep.root]) != keep.root:
        return {"outside": full} if os.path.exists(full) else None
    if not os.path.isfile(full):
        return {"notfile": True} if os.path.exists(full) else None
    if os.path.getsize(full) > FILE_LIMIT:
        return {"toobig": os.path.getsize(full)}
    try:
        data = placing.content(full)
    except OSError as error:
        return {"error": error.strerror}
    if data is None:
        return None
    bodies.append(data)
    refusal = ""
    try:
        placing.refuse_unwritable(full)
    except Fault as fault:
        refusal = "%s: %s" % (os.path.relpath(fault.facts.get("path") or full, keep.base), fault.message)
    state = os.stat(full)
    return {
        "sha256": digest(data),
        "size": len(data),
        "mtime": state.st_mtime,
        "ctime": state.st_ctime,
        "real": full,
        "refusal": refusal,
        "links": state.st_nlink,
        "mode": stat.S_IMODE(state.st_mode),
    }


def _folders(root: str, absent: List[str]) -> List[str]:
    """Return the folders that are there of files that are not: a new file may belong into one."""
    parents = {os.path.dirname(path) for path in absent} - {""}
    return sorted(parent for parent in parents if os.path.isdir(os.path.join(root, parent)))


def _told(keep: Keep, entry: Dict[str, Any]) -> Dict[str, Any]:
    told = {key: entry.get(key) for key in ("id", "at", "name", "verb", "operator", "about", "phase")}
    told["files"] = _told_files(keep, entry["files"])
    told["parts"] = [
        {"name": part["name"], "verb": part["verb"], "files": _told_files(keep, part["files"])}
        for part in entry.get("parts") or []
    ]
    return told


def _told_files(keep: Keep, files: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    return [
        {
            "path": os.path.relpath(keep.absolute(file["path"]), keep.root),
            "before": file["before"],
            "after": file["after"],
            "mode": file.get("mode"),
            "mode_before": file.get("mode_before"),
            "present": _hash(keep.absolute(file["path"])),
        }
        for file in files
    ]


def _kept(keep: Keep, entries: List[Dict[str, Any]], bodies: List[bytes]) -> List[Dict[str, Any]]:
    told, seen = [], set()
    for entry in entries:
        for file in all_files(entry):
            for sha in (file["before"], file["after"]):
                data = keep.get(sha) if sha and sha not in seen else None
                if data is not None:
                    seen.add(sha)
                    bodies.append(data)
                    told.append({"sha256": sha, "size": len(data)})
    return told


def _hash(path: str) -> Optional[str]:
    with contextlib.suppress(OSError):
        data = placing.content(path)
        return None if data is None else digest(data)
    return None


def _head(root: str, paths: List[str]) -> Dict[str, str]:
    """Return git's blob of each path in HEAD; nothing outside a checkout or without git."""
    if not paths:
        return {}
    argv = ["git", "-C", root, "ls-tree", "-z", "HEAD", "--", *paths]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_SECONDS, check=False, env=_git_env()
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for row in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
        meta, tab, name = row.partition("\t")
        if tab and len(meta.split()) == 3:
            found[name] = meta.split()[2]
    return found


def _git_env() -> Dict[str, str]:
    return {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _capability() -> Optional[str]:
    """Return the compute capability of all GPUs, when they have one in common."""
    argv = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=GPU_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = {line.strip() for line in done.stdout.decode("ascii", "replace").splitlines()}
    found = {line for line in lines if re.match(r"^\d+\.\d+$", line)}
    return found.pop() if done.returncode == 0 and len(found) == 1 else None


def _find(root: str, names: List[str]) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {name: [] for name in names}
    if names:
        for folder, _, files in os.walk(root):
            for name in set(files) & found.keys():
                if len(found[name]) < FOUND_LIMIT:
                    found[name].append(os.path.relpath(os.path.join(folder, name), root))
    return found

"""Whether what a process imports is still what was there when it began: told by the times of the files."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

from . import loading, processes
from .calls import Call, Operation, Result

CODE = (".py", ".so", ".pyd", ".cu", ".cuh")
NAMED = 5
ASIDE = ("__pycache__", ".git", ".tokwatt")


def _loaded_since(call: Call) -> Result:
    """Tell which code of a package was written, or put there, since a process began.

    Arguments: `pid` and `start_ticks`; `package`, its import name. `folder` is the copy that the process imports,
    empty where that cannot be told. A file counts by the later of its two times: a copy keeps its content's time.
    """
    pid, ticks = call.number("pid"), call.number("start_ticks")
    began = processes.started_at(ticks)
    name = call.text("package", "")
    folder = loading.copy_of(call, pid, name) if name and processes.is_alive(pid, ticks) else ""
    found: Dict[str, Any] = {"folder": folder, "files": 0, "touched": 0, "names": []}
    if not folder or began is None:
        return {**found, "folder": ""}, b""
    late: List[Tuple[float, str]] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in ASIDE]
        for one in names:
            if not one.endswith(CODE):
                continue
            path = os.path.join(parent, one)
            try:
                state = os.stat(path)
            except OSError:
                continue
            found["files"] += 1
            touched = max(state.st_mtime, state.st_ctime)
            if touched >= began:
                late.append((touched, os.path.relpath(path, folder)))
    late.sort(reverse=True)
    return {**found, "touched": len(late), "names": [path for _, path in late[:NAMED]]}, b""


OPS: Dict[str, Operation] = {"loaded_since": _loaded_since}

"""Ending a writer of ours that holds a lock and does not come to its end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from typing import Any, Dict

from . import processes
from .calls import Fault

YOUNG_S = 30.0
"""A holder younger than this is at work, not stuck: a compile check alone may take longer than a moment."""
PATIENCE_S = 5.0


def marked(owner: str) -> bytes:
    """Return what a holder writes into the lock file, so that it can be told from any other process."""
    pid = os.getpid()
    mark = {
        "owner": owner,
        "since": time.time(),
        "pid": pid,
        "start_ticks": processes.start_ticks(pid),
        "boot": processes.boot_id(),
        "space": _pid_space(),
    }
    return json.dumps(mark).encode()


def take_over(path: str) -> None:
    """End the process that holds the lock at `path`, when it is this very one and has held it for long.

    The kill is what makes it safe: a lock that is only taken away leaves two writers.

    Raises:
        Fault: `locked`, with why it cannot be taken over.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _free(fd):
            return
        mark = _read(os.pread(fd, 4096, 0))
        _refuse(path, mark)
        pid, ticks = int(mark["pid"]), int(mark["start_ticks"])
        try:
            processes.send(pid, ticks, signal.SIGKILL)
        except PermissionError:
            raise Fault("locked", "process %d belongs to another login" % pid, path=path, **_facts(mark)) from None
        until = time.monotonic() + PATIENCE_S
        while not _free(fd):
            if time.monotonic() > until:
                raise Fault("locked", "process %d does not end" % pid, path=path, **_facts(mark))
            time.sleep(0.05)
    finally:
        os.close(fd)


def _refuse(path: str, mark: Dict[str, Any]) -> None:
    if not mark.get("pid") or not mark.get("start_ticks"):
        raise Fault("locked", "its holder did not say which process it is", path=path, **_facts(mark))
    age = max(0.0, time.time() - float(mark.get("since") or 0.0))
    if age < YOUNG_S:
        said = "it is at work since %.0f s only; a lock can be taken over after %.0f s" % (age, YOUNG_S)
        raise Fault("locked", said, path=path, **_facts(mark))
    if mark.get("boot") != processes.boot_id() or mark.get("space") != _pid_space():
        said = "its holder runs in another container or machine, where it has to be ended"
        raise Fault("locked", said, path=path, **_facts(mark))
    if int(mark["pid"]) == os.getpid():
        raise Fault("locked", "this very console is writing", path=path, **_facts(mark))
    if not processes.is_alive(int(mark["pid"]), int(mark["start_ticks"])):
        raise Fault("locked", "another process holds it than the one that is named there", path=path, **_facts(mark))


def _facts(mark: Dict[str, Any]) -> Dict[str, Any]:
    since = float(mark.get("since") or 0.0)
    return {"owner": str(mark.get("owner") or ""), "age_s": max(0.0, time.time() - since) if since else None}


def _read(data: bytes) -> Dict[str, Any]:
    try:
        mark = json.loads(data)
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}


def _free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""

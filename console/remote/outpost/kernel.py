"""What the kernel's log says of processes that it killed for want of memory."""

from __future__ import annotations

import re
import subprocess
import time
from typing import Any

from . import processes
from .calls import Call, Operation, Result

ASK_S = 5
MOST = 40

_STAMP = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]")
_KILLED = re.compile(
    r"Killed process (?P<pid>\d+) \((?P<name>[^)]*)\)|oom-kill:.*\btask=(?P<task>[^,]*),pid=(?P<task_pid>\d+)"
)


def kills(since: float, until: float) -> list[dict[str, Any]] | None:
    """Return the processes that the kernel killed between two moments; `None` when its log may not be read."""
    try:
        done = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    up = processes.lines_of("/proc/uptime")
    booted = time.time() - float(up[0].split()[0]) if up else 0.0
    found: list[dict[str, Any]] = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        match = _KILLED.search(line)
        if match is None:
            continue
        stamp = _STAMP.match(line)
        moment = booted + float(stamp.group(1)) if stamp else None
        if moment is not None and not since <= moment <= until:
            continue
        pid, name = match.group("pid") or match.group("task_pid"), match.group("name") or match.group("task")
        found.append({"time": moment, "pid": int(pid), "name": name or "", "line": line[:400]})
    return found[-MOST:]


def _kernel_kills(call: Call) -> Result:
    """Return what the kernel killed: `since` and `until` in seconds of the host's clock."""
    since, until = float(call.args.get("since") or 0.0), float(call.args.get("until") or time.time())
    return {"kills": kills(since, until)}, b""


OPS: dict[str, Operation] = {"kernel_kills": _kernel_kills}

"""The host's GPUs as `nvidia-smi` tells them: cards, and who holds their memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from . import processes
from .calls import Call, Operation, Result

SMI_S = 15
CARD = (
    "index",
    "uuid",
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "power.limit",
    "power.default_limit",
    "utilization.gpu",
    "compute_mode",
    "ecc.errors.uncorrected.volatile.total",
)
FIRST_NAMESPACE = "pid:[4026531836]"
"""What the kernel calls the pid namespace of the machine itself."""


def cards() -> list[dict[str, Any]] | None:
    """Return every card; `None` when `nvidia-smi` is missing or says nothing."""
    said = _ask("--query-gpu=" + ",".join(CARD))
    if said is None:
        return None
    found = []
    for line in said.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(CARD):
            continue
        told = {name: fields[place] for place, name in enumerate(CARD)}
        found.append(
            {
                "index": int(told["index"]) if told["index"].isdigit() else None,
                "uuid": told["uuid"],
                "name": told["name"],
                "driver": told["driver_version"],
                "memory_total_mib": number(told["memory.total"]),
                "memory_used_mib": number(told["memory.used"]),
                "power_limit_w": number(told["power.limit"]),
                "power_default_w": number(told["power.default_limit"]),
                "gpu_util_pct": number(told["utilization.gpu"]),
                "compute_mode": told["compute_mode"],
                "ecc_uncorrected": number(told["ecc.errors.uncorrected.volatile.total"]),
            }
        )
    return found or None


def memory() -> dict[str, float] | None:
    """Return MiB in use by card; `None` when it cannot be asked."""
    said = _ask("--query-gpu=uuid,memory.used")
    if said is None:
        return None
    found = {}
    for line in said.splitlines():
        uuid, _, used = line.partition(",")
        value = number(used.strip())
        if value is not None:
            found[uuid.strip()] = value
    return found or None


def holders() -> list[dict[str, Any]] | None:
    """Return who holds GPU memory; `None` when it cannot be asked.

    In a container the driver tells the machine's numbers of processes, which mean others here: one is
    looked up in our own table only where the names agree, or where there is no other namespace.
    """
    said = _ask("--query-compute-apps=gpu_uuid,pid,process_name,used_memory")
    if said is None:
        return None
    found = []
    outermost = _outermost()
    for line in said.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 4 or not fields[1].isdigit():
            continue
        name = ", ".join(fields[2:-1])
        seen = processes.table([int(fields[1])])
        owner = seen[0] if seen and (outermost or _alike(name, seen[0]["title"])) else None
        found.append(
            {
                "gpu": fields[0],
                "pid": int(fields[1]),
                "title": owner["title"] if owner else name,
                "user": owner["user"] if owner else "",
                "session": owner["session"] if owner else None,
                "start_ticks": owner["start_ticks"] if owner else None,
                "seen": owner is not None,
                "memory_mib": number(fields[-1]),
            }
        )
    return found


def held_mib(pids: set[int]) -> float | None:
    """Return the GPU memory that these processes hold together; `None` when it cannot be asked."""
    entries = holders()
    if entries is None:
        return None
    return sum(entry["memory_mib"] or 0.0 for entry in entries if entry["seen"] and entry["pid"] in pids)


def number(text: str) -> float | None:
    """Return a reading, `None` for `[N/A]` and the like."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None


def _ask(query: str) -> str | None:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return None
    try:
        done = subprocess.run(
            [smi, query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SMI_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace")


def _outermost() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == FIRST_NAMESPACE
    except OSError:
        return True


def _alike(name: str, title: str) -> bool:
    name = os.path.basename(name.split(" ")[0])
    return bool(name) and name in title


def _op_gpu_processes(_call: Call) -> Result:
    return {"gpu_processes": holders()}, b""


def _op_gpus(_call: Call) -> Result:
    return {"gpus": cards(), "gpu_processes": holders()}, b""


def _op_gpu_memory(_call: Call) -> Result:
    return {"memory_mib": memory()}, b""


OPS: dict[str, Operation] = {
    "gpu_processes": _op_gpu_processes,
    "gpus": _op_gpus,
    "gpu_memory": _op_gpu_memory,
}

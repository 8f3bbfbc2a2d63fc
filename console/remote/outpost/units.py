"""What a run can be wrapped in beside a plain process: a container of its own, a Slurm job, a systemd scope."""

from __future__ import annotations

import subprocess
from typing import Any

ASKED_S = 10


def roots(record: dict[str, Any]) -> list[int]:
    """Return processes of a run that are no descendants of what was started: a container's first one."""
    if record.get("via") != "docker-run":
        return []
    said = _ask([str(record.get("runtime") or "docker"), "inspect", "-f", "{{.State.Pid}}", unit_name(record)])
    return [int(said)] if said.isdigit() and int(said) > 1 else []


def end(record: dict[str, Any]) -> str:
    """End a wrapped run by force; return what was done, empty where signals reach all of it."""
    name = unit_name(record)
    ways = {
        "docker-run": [str(record.get("runtime") or "docker"), "kill", name],
        "slurm": ["scancel", "--signal=KILL", "--full", "--name=" + name],
    }
    argv = ways.get(str(record.get("via")))
    if argv is None:
        return ""
    _ask(argv)
    return " ".join(argv)


def unit_name(record: dict[str, Any]) -> str:
    """Return the name that a run's container, job or scope has."""
    return "tokwatt-%s" % record.get("id", "")


def _ask(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ASKED_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""

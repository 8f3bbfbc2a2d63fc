"""Whether this host can launch as a profile asks: the runtime, the queue or the service manager, looked at before."""

from __future__ import annotations

import os
import shutil
from typing import Any

from . import processes, units

TOOLS = {"docker-run": (), "slurm": ("squeue", "scancel"), "systemd-run": ("systemctl",)}
"""What is needed beside the launcher itself."""


def look(order: Any) -> dict[str, Any] | None:
    """Return what a launch would meet: `faults` that it cannot pass, `warnings`, `taken` (who has its name).

    `None` for a plain process.
    """
    if not isinstance(order, dict) or order.get("kind") not in TOOLS:
        return None
    tool = str(order.get("tool", ""))
    found: dict[str, Any] = {"path": shutil.which(tool), "faults": [], "warnings": [], "taken": None}
    missing = [name for name in (tool, *TOOLS[order["kind"]]) if shutil.which(name) is None]
    if missing:
        found["faults"].append("there is no %s" % " and no ".join(missing))
        return found
    {"docker-run": _docker, "slurm": _slurm, "systemd-run": _systemd}[order["kind"]](order, found)
    return found


def _docker(order: dict[str, Any], found: dict[str, Any]) -> None:
    tool, name, image = str(order["tool"]), str(order.get("name", "")), str(order.get("image", ""))
    code, _, fault = units.ask([tool, "version", "--format", "{{.Server.Version}}"])
    if code:
        found["faults"].append("%s does not answer: %s" % (tool, fault or "status %d" % code))
        return
    if name and "{run}" not in name:
        form = "{{.Id}}|{{.State.Status}}|{{.Config.Image}}|{{.Created}}"
        code, said, fault = units.ask([tool, "inspect", "--type", "container", "--format", form, name])
        fields = said.strip().split("|")
        if code == 0 and len(fields) == 4:
            found["taken"] = {
                "name": name,
                "id": fields[0],
                "state": fields[1],
                "image": fields[2],
                "created": fields[3],
            }
    code, said, _ = units.ask([tool, "image", "inspect", "--format", "{{.Id}}", image])
    if code:
        found["warnings"].append("the image %s is not on this host: it is fetched first" % image)
    else:
        found["image_id"] = said.strip()


def _slurm(order: dict[str, Any], found: dict[str, Any]) -> None:
    partition = str(order.get("partition", ""))
    only = ["--partition", partition] if partition else []
    code, said, fault = units.ask(["sinfo", "--noheader", *only, "--format", "%P|%a|%D|%t"])
    if code == 127:
        return  # no sinfo: nothing more can be asked
    if code:
        found["faults"].append("Slurm does not answer: %s" % (fault or "status %d" % code))
        return
    rows = [line.strip().split("|") for line in said.splitlines() if line.count("|") == 3]
    if partition and not rows:
        found["faults"].append("Slurm has no partition %s" % partition)
    elif rows and all(row[1] != "up" for row in rows):
        found["faults"].append("no partition is up%s" % (": %s is %s" % (rows[0][0], rows[0][1]) if partition else ""))
    elif rows and not any(row[3].rstrip("*~#!%$@^-") in ("idle", "mix") for row in rows):
        states = ", ".join("%s %s" % (row[2], row[3]) for row in rows)
        found["warnings"].append("no node is free now (%s): the job will wait in the queue" % states)


def _systemd(order: dict[str, Any], found: dict[str, Any]) -> None:
    user = order.get("manager") == "user"
    code, said, fault = units.ask(["systemctl", "--user" if user else "--system", "is-system-running"])
    state = said.strip()
    if state in ("offline", "unknown", "") or "Failed to connect" in fault:
        whose = "this login's service manager" if user else "the host's service manager"
        found["faults"].append("%s does not answer: %s" % (whose, fault or state or "status %d" % code))
        return
    if not user and os.geteuid() != 0:
        found["warnings"].append("the host's service manager may ask for a password: it is another login's")
    if user:
        name = processes.user_name(os.geteuid())
        code, said, _ = units.ask(["loginctl", "show-user", name, "--property=Linger", "--value"])
        if code == 0 and said.strip() == "no":
            found["warnings"].append(
                "the server ends when the last session of %s does: loginctl enable-linger %s keeps it" % (name, name)
            )

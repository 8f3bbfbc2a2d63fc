"""The container, job or scope that a run was launched in: how it stands, and why a launcher gave up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from console.domain.profile import DOCKER_RUN, SLURM, SYSTEMD_RUN
from console.domain.run import Unit
from console.domain.text import clean

WAITING = ("PENDING", "CONFIGURING")
"""States of a job that has not begun."""

_WORDS = {DOCKER_RUN: "container", SLURM: "job", SYSTEMD_RUN: "scope"}
_ID_LENGTH = 12

REFUSED = (125, 126, 127)
"""How a container's runtime ends when it has started nothing."""

_REFUSAL = re.compile(r"(?:docker: )?Error(?: response from daemon)?: ")

_FAULTS: tuple[tuple[str, str, str], ...] = (
    (
        r'container name "/?(?P<what>[^"]+)" is already in use',  # podman says it so, too
        "the container name {what} is already in use",
        "stop and remove that container, or leave name out of [launch.docker]",
    ),
    (r"Cannot connect to the Docker daemon[^.]*", "no Docker daemon answers", "start it, or ask who runs the host"),
    (
        r"(?:Unable to find image '(?P<what>[^']+)' locally(?=.*(?:denied|not found|unknown))|pull access denied for (?P<who>\S+?),"
        r"|initializing source docker://(?P<from>\S+?): )",
        "the image {what} can be had nowhere",
        "docker pull tells why; check image under [launch.docker]",
    ),
    (r"could not select device driver .*capabilities: \[\[gpu\]\]", "no GPU for containers on this host",
     "the NVIDIA container toolkit is missing or not configured"),
    (r"(?:Bind for|bind for) (?P<what>\S+) failed: port is already allocated", "{what} is published by another container",
     "docker ps names it"),
    (r"exec: \"(?P<what>[^\"]+)\": (?:executable file not found|stat [^:]+: no such file)", "the image has no {what}",
     "entrypoint under [launch.docker], or python and command under [engine]"),
    (r"srun: error: Unable to allocate resources: (?P<what>.+)", "Slurm gives no resources: {what}", "sinfo shows the partitions"),
    (r"srun: error: (?:Unable to confirm allocation|Unable to contact slurm controller|.*Connection refused)(?P<what>.*)",
     "Slurm's controller does not answer", "scontrol ping tells who should"),
    (r"CANCELLED AT \S+ DUE TO TIME LIMIT", "Slurm ended the job at its time limit", "--time under options of [launch.slurm]"),
    (r"CANCELLED AT \S+ DUE TO PREEMPTION", "Slurm preempted the job", "another partition or QOS is not preempted"),
    (r"CANCELLED AT \S+ DUE TO NODE FAILURE", "a node of the job failed", "sinfo -R tells why"),
    (r"(?:slurmstepd|srun)[\w.-]*: error: .*(?:oom[_-]kill|Out Of Memory)", "Slurm killed it: the job's memory is used up",
     "--mem under options of [launch.slurm]"),
    (r"(?:slurmstepd|srun)[\w.-]*: error: .*STEP \S+ ON \S+ CANCELLED|srun: Force Terminated", "Slurm cancelled the job", "sacct -j tells who"),
    (r"Failed to connect to bus: (?P<what>.+)", "the service manager does not answer: {what}",
     'loginctl enable-linger starts one for a login; manager = "system" takes the host\'s'),
    (r"Failed to start transient scope unit: (?P<what>.+)", "systemd refuses the scope: {what}", ""),
    (r"Unknown assignment: (?P<what>.+)", "a scope has no property {what}", "man systemd.resource-control has those of a scope"),
    (r"System has not been booted with systemd", "systemd does not run on this host", 'via = "process" needs none'),
)  # fmt: skip
"""What launchers say when they give up: pattern, cause, hint."""


def unit_of(state: Mapping[str, Any]) -> Unit | None:
    """Return what the host says of a run's unit."""
    told = state.get("unit")
    if not told:
        return None
    return Unit(
        kind=str(told["kind"]),
        id=clean(str(told.get("id") or "")),
        name=clean(str(told.get("name") or "")),
        state=clean(str(told.get("state") or "")),
        reason=clean(str(told.get("reason") or "")),
        node=clean(str(told.get("node") or "")),
        elsewhere=bool(told.get("elsewhere")),
        alive=told.get("alive"),
    )


def lives(state: Mapping[str, Any]) -> bool:
    """Return whether something of a run lives: a process that is seen, or its unit."""
    return bool(state.get("processes")) or (state.get("unit") or {}).get("alive") is True


def waits(unit: Unit | None) -> bool:
    """Return whether a launch waits for its unit: in a queue, or for an image."""
    return unit is not None and (unit.state in WAITING or (unit.kind == DOCKER_RUN and unit.state == "starting"))


def obstacle(unit: Unit | None) -> str:
    """Return what keeps a start from going on, or its server from being reached; empty when nothing does."""
    if unit is None:
        return ""
    if waits(unit):
        return word(unit)
    if unit.elsewhere:
        return f'{word(unit)}, another host: its port is reached with ssh = "{unit.node}" under [host]'
    return ""


def word(unit: Unit) -> str:
    """Return a unit as a clause: `job 4242, RUNNING on gpu07`."""
    number = unit.id[:_ID_LENGTH] if unit.kind == DOCKER_RUN else unit.id or unit.name
    where = f" on {unit.node}" if unit.node else ""
    why = f" ({unit.reason})" if unit.reason else ""
    return f"{_WORDS.get(unit.kind, unit.kind)} {number or unit.name}, {unit.state}{where}{why}"


def launcher_fault(via: str, status: int, lines: Sequence[str]) -> tuple[str, str] | None:
    """Return cause and hint where a run's launcher said why it gave up; `None` when it did not.

    Args:
        via: The way of launching.
        status: How the launcher ended.
        lines: The last ones of the log.
    """
    if via not in _WORDS:
        return None
    text = "\n".join(lines)
    for pattern, cause, hint in _FAULTS:
        match = re.search(pattern, text, re.DOTALL if "(?=" in pattern else 0)
        if match is not None:
            found = {name: value for name, value in match.groupdict().items() if value}
            what = next(iter(found.values()), "")
            return clean(cause.format(what=what.strip().rstrip(".")[:160])), hint
    said = [line for line in lines if _REFUSAL.match(line)]
    if via == DOCKER_RUN and status in REFUSED and said:
        return clean(f"no container was started: {_REFUSAL.sub('', said[-1])[:200]}"), ""
    return None

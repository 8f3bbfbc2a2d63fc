"""Who is behind a death, where the host can still tell: the owner of a taken port, the kernel that killed."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.domain.run import Failure, Run, RunPhase
from console.domain.text import clean
from console.errors import DeadlineError, RemoteError
from console.operations import owners
from console.operations.desk import Desk

BEFORE_S, AFTER_S = 1.0, 5.0
"""A kill belongs to a run from its start to its end; clocks of kernel log and wall differ by that much."""

KILLED = "killed by signal 9"

_PORT = re.compile(r"port (\d+) is taken")
_OURS = re.compile(r"python|sglang|vllm|llama|ray::", re.IGNORECASE)


async def named(desk: Desk, run: Run) -> Run:
    """Return a run whose failure names who is behind it; costs a round trip only where that can be known."""
    failure = run.failure
    if failure is None or run.phase not in (RunPhase.FAILED, RunPhase.LOST):
        return run
    try:
        if match := _PORT.search(failure.cause):
            told = await _owner_named(desk, failure, int(match[1]))
        elif failure.cause.startswith(KILLED):
            told = await _killer_named(desk, failure, run)
        else:
            return run
    except (RemoteError, DeadlineError):
        return run  # what the log says stands without it
    if run.left and told.hint != failure.hint:  # what is left of it has to be ended whoever is to blame
        told = replace(told, hint="; ".join(filter(None, (failure.hint, told.hint))))
    return replace(run, failure=told)


async def _owner_named(desk: Desk, failure: Failure, port: int) -> Failure:
    listeners = (await desk.link.call("ports", {"port": port})).result["listeners"]
    if not listeners:
        return replace(failure, hint=f"nobody holds port {port} any more: a new start may come up")
    owner: Mapping[str, Any] = listeners[0]
    who = owners.of_port(owner)
    way = "stop it, or change port under [launch]"
    if "rendezvous" in failure.cause:
        way = "stop it, or set another nccl-port or dist-init-addr: it is not the HTTP port"
    elif "internal" in failure.cause:
        way = "stop it, it may be left over from an earlier run: it is not the HTTP port"
    return replace(failure, hint=f"port {port} is held by {who}; {way}")


async def _killer_named(desk: Desk, failure: Failure, run: Run) -> Failure:
    """Tell a kill by the kernel from one by somebody, as far as the kernel's log may be read."""
    until = (run.ended_at or time.time()) + AFTER_S
    asked = {"since": run.started_at - BEFORE_S, "until": until}
    kills: Sequence[Mapping[str, Any]] | None = (await desk.link.call("kernel_kills", asked)).result["kills"]
    if kills is None:
        return failure
    pid = run.process.pid if run.process else 0
    mine = [kill for kill in kills if kill["pid"] == pid or _OURS.search(str(kill["name"]))]
    if mine:
        first = mine[0]
        cause = f"the kernel killed {first['name']} (pid {first['pid']}): the host ran out of memory"
        lines = tuple(clean(str(kill["line"])) for kill in mine[:4])
        return Failure(
            cause, lines, "less host memory (fewer workers, no other job), or a larger limit of the container"
        )
    cause = f"{failure.cause}, by somebody: the kernel's log names no out-of-memory kill meanwhile"
    return replace(failure, cause=cause, hint="")

"""Servers of a host as the shell tells them: JSON fields and lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from console.cli.run_text import moment
from console.domain.server import HostServer, Role

if TYPE_CHECKING:
    from console.operations.server_words import Stake


def server_fields(server: HostServer) -> dict[str, Any]:
    """Return a server as JSON."""
    from console.operations.server_words import ANSWERS

    return {
        "role": server.role.value,
        "engine": server.engine,
        "version": server.version or None,
        "model": server.model or None,
        "pid": server.process.pid,
        "start_ticks": server.process.start_ticks,
        "session": server.process.session,
        "user": server.user,
        "started_at": moment(server.started_at),
        "port": server.port,
        "ports": list(server.ports),
        "answers": ANSWERS[server.readiness][1] if server.readiness else None,
        "gpus": [
            {"index": one.index, "uuid": one.uuid, "memory_mib": one.memory_mib} for one in server.gpus
        ] if server.gpus_told else None,
        "held_mib": server.held_mib,
        "ours": server.ours,
        "run": server.run or None,
        "argv": list(server.argv),
        "cwd": server.cwd or None,
        "processes": [
            {"pid": one.pid, "start_ticks": one.start_ticks, "title": one.title} for one in server.members
        ],
        "log": server.log or None,
        "output": server.output or None,
        "output_why": server.output_why or None,
        "container": server.container or None,
        "unit": server.unit or None,
        "parent": server.parent or None,
        "may_signal": server.may_signal,
    }  # fmt: skip


def by_role(servers: Sequence[HostServer]) -> dict[str, list[dict[str, Any]]]:
    """Return servers as the JSON of `serve status --all` parts them."""
    return {
        name: [server_fields(each) for each in servers if each.role is role]
        for name, role in (("servers", Role.SERVER), ("left_over", Role.LEFT_OVER), ("embedded", Role.EMBEDDED))
    }


def server_lines(servers: Sequence[HostServer]) -> Iterator[str]:
    """Return servers as a table, what is left of others below."""
    from console.operations.server_words import ANSWERS, gpu_words, whose

    for each in servers:
        since = (moment(each.started_at) or "—")[:19]
        if each.role is Role.SERVER:
            what = f"{each.engine} {each.version}".strip()
            where = f"port {each.port}" if each.port else "no port"
            word = " ".join(ANSWERS[each.readiness])
        else:
            what, where = f"{each.engine} {each.role.value}", f"{len(each.members)} processes"
            word = "✗ no launcher" if each.role is Role.LEFT_OVER else "· no server"
        yield (
            f"{what:<18} {word:<15} {where:<11} pid {each.process.pid:<8} {each.user:<10} since {since}  "
            f"{gpu_words(each) or 'GPU —'}  {whose(each)}"
        )
        if each.model:
            yield f"    model    {each.model}"
        yield f"    command  {shlex.join(each.argv)[:400]}"
        if each.role is Role.LEFT_OVER:
            yield f"    ended by tokwatt serve stop {each.run if each.ours else f'--pid {each.process.pid}'}"
        elif each.role is Role.EMBEDDED:
            yield f"    inside   {each.parent}"
        if each.role is Role.SERVER:
            yield f"    log      {each.log or '—'}" + (f"  ({each.output_why})" if each.output_why else "")


def stake_fields(at_stake: Stake) -> dict[str, Any]:
    """Return a server and what ending it would interrupt, as JSON."""
    return {
        "server": server_fields(at_stake.server),
        "connections": [
            {"port": one.port, "peer": one.peer, "pid": one.pid, "command": one.title or None, "ours": one.ours}
            for one in at_stake.connections
        ],
        "connection_count": at_stake.connected,
        "requests_in_flight": at_stake.in_flight,
        "start_took_s": at_stake.again_s,
    }

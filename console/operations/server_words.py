"""Words for servers of a host: whose they are, what they hold, what ending them would interrupt."""

from __future__ import annotations

import time
from dataclasses import dataclass

from console.domain.server import Connection, HostServer, Role

CONNECTIONS_TOLD = 6
ANSWERS = {
    "ok": ("●", "ready"),
    "unwell": ("◑", "unwell"),
    "timeout": ("◐", "no answer"),
    "refused": ("◌", "not listening"),
    "": ("·", "not asked"),
}
"""Sign and word for what a server's cheap endpoint does (`domain.readiness`)."""

UNTOLD = "— (no nvidia-smi tells who holds GPU memory)"


@dataclass(frozen=True, slots=True)
class Stake:
    """A server with what ending it would interrupt."""

    server: HostServer
    connections: tuple[Connection, ...] = ()
    connected: int = 0
    """All of them, our own polls among them."""
    in_flight: int | None = None
    again_s: float | None = None
    """What its start took, as its log says."""

    @property
    def others(self) -> tuple[Connection, ...]:
        """Connections that are not our own polls."""
        return tuple(one for one in self.connections if not one.ours)


def gpu_words(server: HostServer) -> str:
    """Return what a server holds of the GPUs; empty when nothing is known."""
    if not server.gpus_told:
        return ""
    if not server.gpus:
        return "no GPU"
    names = ", ".join(str(one.index) if one.index is not None else one.uuid[:12] for one in server.gpus)
    return f"GPU{'s'[: len(server.gpus) > 1]} {names}: {server.held_mib:,.0f} MiB"


def whose(server: HostServer) -> str:
    """Return who started a server, in a few words."""
    if server.ours:
        return f"run {server.run}"
    if server.run:
        return f"run {server.run} of another tokwatt"
    return "not ours"


def stake_lines(at_stake: Stake) -> list[str]:
    """Return owner, command, connections and GPUs of a server, and what ending it costs, a line each."""
    found = at_stake.server
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.started_at)) if found.started_at else "—"
    what = (
        "left over from"
        if found.role is Role.LEFT_OVER
        else "inside a program of"
        if found.role is Role.EMBEDDED
        else ""
    )
    lines = [
        f"owner        {found.user}, {whose(found)}, since {since}" + (f" ({what} a server)" if what else ""),
        f"command      {' '.join(found.argv)}",
        f"processes    {len(found.members)}: {_named(found)}",
        f"holds        {gpu_words(found) or UNTOLD}",
    ]
    if found.role is Role.SERVER:
        lines.insert(2, f"port         {found.port or '—'}" + _beside(found))
        lines.append(f"connections  {connected(at_stake)}")
        lines.append(f"interrupts   {blast(at_stake)}")
    return lines


def _beside(found: HostServer) -> str:
    rest = [str(port) for port in found.ports if port != found.port]
    more = f" and {len(rest) - 6} more" if len(rest) > 6 else ""
    return f" (and {', '.join(rest[:6])}{more} between its processes)" if rest else ""


def _named(found: HostServer) -> str:
    shown = [f"{one.pid} {short(one.title)}" for one in found.members[:4]]
    return ", ".join(shown) + (f" and {len(found.members) - 4} more" if len(found.members) > 4 else "")


def short(title: str) -> str:
    """Return what a process is in a few letters: its title, or its program with what that runs."""
    words = title.split(" ")
    words[:2] = [word.rpartition("/")[2] for word in words[:2]]  # an interpreter and the script that it runs
    return " ".join(words[:3])[:32].strip()


def connected(at_stake: Stake) -> str:
    """Return who is connected, clients of this host by their process; our own polls are told apart."""
    ours = sum(one.ours for one in at_stake.connections)
    count = at_stake.connected - ours
    if not count:
        return "nobody" + (" but this console" if ours else "")
    shown = [str(one.peer) + (f" (pid {one.pid}: {one.title[:40]})" if one.pid else "") for one in at_stake.others]
    more = f" and {count - CONNECTIONS_TOLD} more" if count > CONNECTIONS_TOLD else ""
    return f"{count}: {', '.join(shown[:CONNECTIONS_TOLD])}{more}"


def blast(at_stake: Stake) -> str:
    """Return what stopping costs: requests in flight, time to be ready again."""
    count = at_stake.in_flight
    flight = "requests in flight unknown" if count is None else f"{count} request{'s'[: count != 1]} in flight"
    if at_stake.again_s is None:
        return f"{flight} · how long it takes to be ready again is not known"
    return f"{flight} · ready again in about {span(at_stake.again_s)}, as its last start took"


def span(seconds: float) -> str:
    """Return a duration in words."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

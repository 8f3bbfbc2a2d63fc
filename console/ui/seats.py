"""Seats: one place of work for each host of the cockpit, with its desk, what is known of it, and its screen."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

from console.domain.host import Host, Link, LinkState
from console.errors import LinkLostError
from console.state.store import Snapshot
from console.ui.options import Options

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.ui.screens.cockpit import CockpitScreen

AT: ContextVar[Seat] = ContextVar("seat")
"""The seat that a worker was started at: it stays there although the operator goes on to another host."""

FIRST = "host"
"""The stack of screens that the app begins with."""


class Seat:
    """One host of the cockpit.

    Args:
        number: Its place among the tabs, from 0.
        options: What the command line said, for this host alone.
    """

    def __init__(self, number: int, options: Options) -> None:
        self.number = number
        self.options = options
        self.target = options.target
        self.desk: Desk | None = None
        self.reasons: dict[str, str] = {}
        """Why a reading is not there, by its name."""
        self.name = options.hosts[0] if options.hosts else ""
        badge = str(getattr(options.target, "badge", ""))
        self.snapshot = Snapshot(host=Host(self.name, badge=badge), readonly=options.readonly)
        """All that is known of the host, as the store says."""

    cockpit: CockpitScreen

    def group(self, name: str) -> str:
        """Return the name of a group of workers: those of two hosts never end each other."""
        return f"{name} {self.number + 1}" if self.number else name

    @property
    def mode(self) -> str:
        """The name of the stack of screens of this host."""
        return self.group(FIRST)

    def screen(self) -> CockpitScreen:
        """Return the lowest screen of the stack."""
        return self.cockpit

    @property
    def link(self) -> LinkState:
        """The state of the connection now."""
        return self.desk.link.state if self.desk is not None else self.snapshot.link

    def need_desk(self) -> Desk:
        """Return the desk, or say that there is no connection."""
        if self.desk is None:
            host = self.snapshot.host.name or "no host"
            raise LinkLostError(f"{host}: not connected", hint="ctrl+r tries again")
        return self.desk

    def link_fault(self) -> LinkLostError | None:
        """Return why nothing can be asked of the host now, if so: nothing is queued silently."""
        state = self.link
        if state.link is Link.UP:
            return None
        host = self.snapshot.host.name or "no host"
        if self.desk is None:
            said = "is being connected" if state.link is Link.CONNECTING else "is not connected"
            return LinkLostError(f"{host} {said}: this needs the host", state.error, "ctrl+r tries again")
        return LinkLostError(f"{host}: link lost, this needs the host", state.error, "ctrl+r tries now")


def seats_of(options: Options) -> list[Seat]:
    """Return a seat for each host that was named, or the one of nobody yet."""
    hosts = tuple(dict.fromkeys(options.hosts))
    if len(hosts) < 2:
        return [Seat(0, options)]
    return [
        Seat(number, replace(options, hosts=(host,), target=options.target if host == "demo" else None))
        for number, host in enumerate(hosts)
    ]

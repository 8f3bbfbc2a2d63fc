"""A server found on a host, whoever started it: its process, where it listens, what it holds, where its output goes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from console.domain.run import ProcessId
from console.domain.text import SafeText


class Role(StrEnum):
    """What was found."""

    SERVER = "server"
    LEFT_OVER = "left over"
    """Workers whose launcher is gone: they hold GPUs and serve nobody."""
    EMBEDDED = "embedded"
    """An engine inside another program, such as a notebook: no server."""


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a server."""

    pid: int
    start_ticks: int
    title: SafeText


@dataclass(frozen=True, slots=True)
class GpuShare:
    """What a server's processes hold of one GPU."""

    uuid: str
    index: int | None = None
    memory_mib: float | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """An established connection to a server's port."""

    port: int
    peer: SafeText
    pid: int | None = None
    """Process at the other end, where that is on the host."""
    title: SafeText = SafeText("")
    ours: bool = False
    """The console's own polls."""


@dataclass(frozen=True, slots=True)
class HostServer:
    """A server, or what is left of one, as its host's process table tells it."""

    engine: str
    role: Role
    process: ProcessId
    user: str
    argv: tuple[str, ...] = ()
    """Secrets redacted."""
    started_at: float | None = None
    """Host's wall clock."""
    cwd: str = ""
    port: int | None = None
    """Of its HTTP, as it is reached from the host."""
    ports: tuple[int, ...] = ()
    """All that its processes listen on."""
    version: str = ""
    model: str = ""
    readiness: str = ""
    """What its cheap endpoint does (`domain.readiness`); empty when it was not asked."""
    gpus: tuple[GpuShare, ...] = ()
    gpus_told: bool = False
    """Whether the host can tell who holds GPU memory."""
    members: tuple[Member, ...] = ()
    """All its processes, itself among them."""
    run: str = ""
    """Number of the run of tokwatt that it is; empty for a server that was started otherwise."""
    ours: bool = False
    """Whether that run is of this login."""
    parent: SafeText = SafeText("")
    """Program that started it, or that it lives in."""
    log: str = ""
    """File or address that its output can be read at; empty where it cannot."""
    output: str = ""
    """`file`, `deleted`, `container`, `journal`, `pipe`, `terminal`, `nowhere`, `hidden`, …"""
    output_why: SafeText = SafeText("")
    container: str = ""
    unit: str = ""
    may_signal: bool = True
    """Whether this login may end it."""

    @property
    def held_mib(self) -> float | None:
        """GPU memory that it holds; `None` when that cannot be told."""
        if not self.gpus_told:
            return None
        return sum(share.memory_mib or 0.0 for share in self.gpus)

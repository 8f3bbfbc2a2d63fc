"""A host: one machine reached by SSH, or this one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from console.domain.text import SafeText


@dataclass(frozen=True, slots=True)
class Host:
    """What the operator named, and where that leads."""

    name: str
    """As given: alias, user@host:port, `local` or `demo`."""
    address: str = ""
    """Resolved host name; empty for this machine."""
    port: int = 22
    user: str = ""
    badge: str = ""
    """A word that every screen and record must carry, such as DEMO."""

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine, reached without SSH."""
        return self.name == "local"


class Link(StrEnum):
    """What the connection is doing."""

    IDLE = "idle"
    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"
    """Down, and being tried again."""
    REFUSED = "refused"
    """Down, and not tried again: login or host key."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of a connection, as the status line tells it."""

    link: Link = Link.IDLE
    rtt_ms: float | None = None
    """Round-trip time of the last small request."""
    heard_at: float | None = None
    """Console's `time.monotonic()` of the last reply."""
    since: float | None = None
    """Console's `time.monotonic()` when this state began."""
    retry_at: float | None = None
    """Console's `time.monotonic()` of the next attempt, while lost."""
    degraded: str = ""
    """Why operations are done by `sh` commands instead of the outpost; empty when they are not."""
    error: str = ""
    """Title of the error that ended the last attempt."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the outpost said of its host when it started."""

    hostname: SafeText
    user: str
    uid: int
    home: str
    system: str
    """`uname -sr`."""
    python: str
    """Version and path of the interpreter that runs the outpost; empty when degraded."""
    state_home: str
    """`${XDG_STATE_HOME:-~/.local/state}/tokwatt` on the host."""
    boot_id: str = ""
    clock_offset_s: float | None = None
    """Host's wall clock minus ours."""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package as the launching interpreter resolves it, nothing imported."""

    name: str
    folder: str
    """Absolute path of the package folder (`…/sglang`)."""
    version: str | None
    origin: str = "site-packages"
    """`site-packages`, `editable`, `path` (PYTHONPATH or cwd) or `folder` (given with --package)."""
    interpreter: str = ""
    """Path of the interpreter that was asked; empty when a folder was given."""
    version_from: str = ""
    """Metadata folder or source file that states the version."""
    also: tuple[str, ...] = ()
    """Other copies on the interpreter's search path, which are not the one imported."""
    real: str = ""
    """`folder` with its links followed."""
    layer: str = ""
    """`container layer` where it lies on a container's own overlay, which goes with the container."""


@dataclass(frozen=True, slots=True)
class GitState:
    """The git checkout that a folder lies in."""

    top: str
    commit: str
    branch: SafeText
    dirty: tuple[str, ...] = ()
    """Paths relative to `top` with uncommitted changes (untracked ones excluded)."""
    untracked: int = 0


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """One remote operation or program, for the command log."""

    at: float
    """Wall clock, seconds since the epoch."""
    host: str
    text: SafeText
    """Operation and arguments, or argv; secrets redacted."""
    ms: float
    exit: int | None
    """0 done, other numbers as the program said, `None` for no answer."""
    error: SafeText = field(default=SafeText(""))

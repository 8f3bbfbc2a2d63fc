"""A run: one launch of a server under a profile, from process start to process end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from console.domain.text import SafeText


class RunPhase(StrEnum):
    """Where a server is in its life."""

    NONE = "none"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    """Does not answer, yet its log goes on."""
    DEGRADED = "degraded"
    """Its process lives, and it says that it is unwell, or refuses to be asked."""
    STOPPING = "stopping"
    EXITED = "exited"
    """Ended as asked."""
    FAILED = "failed"
    """Ended by itself, or never became ready."""
    LOST = "lost"
    """The process is gone and left no exit status."""


LIVING = (RunPhase.STARTING, RunPhase.READY, RunPhase.BUSY, RunPhase.DEGRADED, RunPhase.STOPPING)
"""Phases of a server whose processes are there."""

UP = (RunPhase.STARTING, RunPhase.READY, RunPhase.BUSY, RunPhase.DEGRADED)
"""Phases of a server that nobody has asked to end."""


class Readiness(StrEnum):
    """Whether a server can be used, in one word for every phase."""

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    BUSY = "busy"
    STOPPING = "stopping"
    STOPPED = "stopped"
    CRASHED = "crashed"
    """Ended by itself, or left no exit status."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that cannot be mistaken for another: pid and start time."""

    pid: int
    start_ticks: int
    """Field 22 of `/proc/PID/stat`."""
    session: int = 0


@dataclass(frozen=True, slots=True)
class FileHash:
    """A file as it was when a server started."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the start-up ladder."""

    name: str
    started_s: float | None = None
    """Seconds after launch."""
    ended_s: float | None = None
    note: SafeText = SafeText("")
    progress: float | None = None
    """0 to 1, from the engine's own bar."""
    usual_s: float | None = None
    """What earlier starts of this profile on this host took."""
    done: int | None = None
    total: int | None = None
    eta_s: float | None = None
    """Seconds left, as the engine's bar says."""
    ranks_begun: int = 0
    ranks_ended: int = 0


@dataclass(frozen=True, slots=True)
class Stall:
    """A step of a start that takes far longer than usual, or says nothing for minutes."""

    rung: str
    text: str
    """One sentence: `stalled in distributed init since 09:40:13`."""
    since: float
    """Host's wall clock."""
    silent_s: float = 0.0
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server died: the first cause, not the loudest line."""

    cause: str
    """One sentence for the operator."""
    lines: tuple[SafeText, ...] = ()
    """The log lines that prove it."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """The container, Slurm job or systemd scope that a run was launched in."""

    kind: str
    """`docker-run`, `slurm` or `systemd-run`."""
    id: str = ""
    """Of the container, the number of the job, the scope with its suffix; empty while there is none yet."""
    name: str = ""
    state: str = ""
    """As its runtime calls it, or `starting`, `gone`, `unknown`."""
    reason: str = ""
    """Why it is in that state: what a job waits for."""
    node: str = ""
    """Where a job runs."""
    elsewhere: bool = False
    """Whether that is another host than the one it was launched on."""
    alive: bool | None = None
    """`None` where its runtime does not answer."""


@dataclass(frozen=True, slots=True)
class Run:
    """One launch, as it stands in its folder on the host."""

    id: str
    """`YYYY-MM-DD-N` on its host."""
    profile: str
    engine: str
    folder: str
    log: str
    port: int
    started_at: float
    """Host's wall clock, seconds since the epoch."""
    process: ProcessId | None = None
    argv: tuple[str, ...] = ()
    """Secrets redacted."""
    phase: RunPhase = RunPhase.NONE
    ready_at: float | None = None
    ended_at: float | None = None
    exit_status: int | None = None
    ladder: tuple[Rung, ...] = ()
    failure: Failure | None = None
    hashes: tuple[FileHash, ...] = ()
    """Of the files that the profile's and the known patches touch, at launch."""
    patches_on: tuple[str, ...] = ()
    """Names that were on at launch, by content."""
    resolved: Mapping[str, object] = field(default_factory=dict)
    """Arguments in force, as the server says."""
    versions: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the profile at launch; secrets are by name only, their value empty."""
    adopted: bool = True
    """False for a server that we did not launch: read-only."""
    operator: str = ""
    evidence: tuple[str, ...] = ()
    """`[evidence] log` texts of the known patches that this run's log has shown."""
    utc_offset_s: int | None = None
    """Of the host's local time when it was launched: what the log's stamps mean."""
    reason: str = ""
    """Why it is in its phase, where that needs a word."""
    usual_ready_s: float | None = None
    """From launch to ready, as earlier starts of this profile on this host took."""
    stall: Stall | None = None
    left: int = 0
    """Processes of a run that live on although its launcher is gone."""
    held_mib: float | None = None
    """GPU memory that those hold."""
    machine: Mapping[str, object] = field(default_factory=dict)
    """Fingerprint of the machine at launch (`domain.machine`); empty where none was taken."""
    unit: Unit | None = None
    """What it was launched in; `None` for a plain process."""
    launched: bool = True
    """False for a server that was adopted: what it has loaded was not written down at its start."""
    loaded: str = ""
    """What is known of the bytes that a server which was not launched here had loaded, in words."""
    members: tuple[ProcessId, ...] = ()
    """Processes of a server without a run folder, as they were found."""
    log_why: str = ""
    """Why its output cannot be read, or not for long."""
    stopped_by: str = ""
    """Who asked a console to stop it; empty while nobody has."""

    @property
    def key(self) -> str:
        """What tells it from every other that is shown: its number, or the process of one that has none."""
        if self.id or self.process is None:
            return self.id
        return f"pid {self.process.pid}.{self.process.start_ticks}"

    @property
    def readiness(self) -> Readiness:
        """Whether it can be used."""
        words = {
            RunPhase.EXITED: Readiness.STOPPED,
            RunPhase.FAILED: Readiness.CRASHED,
            RunPhase.LOST: Readiness.CRASHED,
        }
        return words.get(self.phase) or Readiness(self.phase.value)


NOTHING: Mapping[str, object] = MappingProxyType({})


class LogKind(StrEnum):
    """What a log record is about (design section 10)."""

    DECODE = "decode"
    PREFILL = "prefill"
    PHASE = "phase"
    PROGRESS = "progress"
    ACCESS = "access"
    FAILURE = "failure"
    OTHER = "other"


class LogRecord(NamedTuple):
    """One record of an engine's log; tracebacks and bars are one record each.

    A tuple: it is made for every line of a flood, and a frozen dataclass takes three times as long to make.
    """

    kind: LogKind
    raw: str
    """As it stands in the log; to be cleaned before it is drawn."""
    time: str | None = None
    """ISO 8601 with zone, or `None` when zone or date is unknown."""
    clock: str = ""
    """The stamp as the log printed it."""
    source: Mapping[str, object] = NOTHING
    """container, process, ranks…"""
    values: Mapping[str, object] = NOTHING
    severity: str = ""
    """`warning`, `error` or empty."""
    cause: str = ""
    lines: tuple[str, ...] = ()
    offset: int = 0
    """Byte offset of the record's first byte in its file."""

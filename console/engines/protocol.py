"""What the console must know of an inference server: one protocol, one adapter per engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from console.domain.profile import Profile
from console.domain.run import NOTHING, Failure, LogKind, LogRecord, Rung
from console.engines.flags import Flag, FlagFault


class Sense(NamedTuple):
    """What one message means; a tuple, since it is made for every line of a flood."""

    kind: LogKind = LogKind.OTHER
    values: Mapping[str, object] = NOTHING
    severity: str = ""
    cause: str = ""
    lines: tuple[str, ...] = ()


class Grammar(Protocol):
    """The messages of an engine, prefixes taken off; one object per log, since some lines need their past."""

    own: frozenset[str]
    """Families of prefixes, beside SGLang's stamp, that are this engine's own (`prefixes.Peeled.foreign`)."""
    flood: str
    """Matches, from their beginning, most lines that are decode, prefill or access records and no problem: what a search
    of a whole log for others may leave out. For bytes, and Python 3.9."""
    flood_words: str
    """Found in every line that is a decode, prefill or access record."""

    def sense(self, message: str, ranks: Mapping[str, int], clock: str, stamped: bool) -> Sense:
        """Return what a message, with its continuation lines, means."""


class Watch(Protocol):
    """Follows one run through its log records: ladder, readiness, failure."""

    def see(self, record: LogRecord) -> None:
        """Take the next record."""

    @property
    def ready(self) -> bool:
        """Whether the engine said that it is ready, and nothing said since that it is not."""

    @property
    def ready_clock(self) -> str:
        """The log's stamp of the line that said so."""

    @property
    def ready_s(self) -> float | None:
        """Seconds after the launch at which it said so, where a log counts its own time and has no stamps."""

    @property
    def first_clock(self) -> str:
        """The first stamp of the log: where the ladder's times begin."""

    @property
    def stopping(self) -> bool:
        """Whether the log shows that an end was asked for."""

    @property
    def ended(self) -> bool:
        """Whether the log shows an end."""

    def ladder(self) -> tuple[Rung, ...]:
        """Return the start-up steps with times in seconds after the first stamp."""

    def failure_record(self, *, ended: bool = False) -> LogRecord | None:
        """Return the record of the first cause."""

    def failure(self, *, ended: bool = False) -> Failure | None:
        """Return the first cause, when the log shows one.

        Args:
            ended: Whether the process is gone: then an exception that nothing followed counts.
        """


@dataclass(frozen=True, slots=True)
class Difference:
    """One argument that was asked for and is not in force as asked."""

    name: str
    requested: object
    resolved: object


class Engine(Protocol):
    """One inference server."""

    kind: str
    package: str
    """Import name of its package."""
    default_port: int
    ready_path: str
    """A cheap GET that answers only when it serves; never one that generates tokens."""
    info_path: str
    """GET: resolved arguments as JSON."""
    loads_paths: tuple[str, ...]
    """GETs that tell requests in flight, the best first."""
    abort: tuple[str, Mapping[str, object]]
    """POST that ends every request: path and body; an empty path where there is none."""
    flush_path: str
    """POST that empties the prefix cache; empty where there is none."""
    unlocks: str
    """Variable without which `abort` and `flush_path` are not there; empty where they always are."""
    key_places: tuple[str, ...]
    """Flags and variables of a launch that set the key which clients must send as a bearer token."""
    admin_key_places: tuple[str, ...]
    """The same of the key for `abort` and `flush_path`, where that is another one."""
    identity_path: str
    """GET whose JSON tells what is served; cheap, and there as soon as the server is ready."""
    older: Mapping[str, str]
    """Paths to what versions before called them: asked for where there is none of the newer name."""
    ready_by_http: bool
    """Whether its log need not say when it is ready: then `ready_path` decides."""
    titles: tuple[str, ...]
    """Regular expressions of what launches it, from its beginning: `-m module …`, `script …`, `folder/script …`."""
    workers: tuple[str, ...]
    """Regular expressions of the titles that its worker processes give themselves, from their beginning."""
    version_path: str
    """GET whose JSON tells its version; empty where there is none."""

    def command(self, profile: Profile) -> tuple[str, ...]:
        """Return the exact argument list."""

    def redacted(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return an argument list as it may be shown: the values of secret flags taken out."""

    def model_paths(self, profile: Profile) -> tuple[str, ...]:
        """Return the absolute paths that a launch needs."""

    def grammar(self) -> Grammar:
        """Return a reader of messages for one log."""

    def watch(self) -> Watch:
        """Return a follower of one run."""

    def version(self, reply: Mapping[str, object]) -> str:
        """Return the version from a reply of `version_path`; empty when it does not tell."""

    def side_ports(self, profile: Profile) -> Mapping[int, str]:
        """Return the ports beside the one of HTTP that a launch will open, each with the flag that moves it."""

    def resolved(self, info: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments in force from the reply of `info_path`."""

    def resolved_from_log(self, message: str) -> Mapping[str, object]:
        """Return the arguments in force from the log line that tells them; empty when it is none."""

    def differences(self, profile: Profile, resolved: Mapping[str, object]) -> Sequence[Difference]:
        """Return what was asked for and is in force otherwise."""

    def in_flight(self, loads: object) -> int | None:
        """Return running plus waiting requests from a reply of one of `loads_paths`: JSON, or the text of metrics."""

    def flag_sources(self) -> tuple[str, ...]:
        """Return the files of its package, `*` for any name, whose source declares its flags."""

    def flags_in_source(self, sources: Mapping[str, bytes]) -> Mapping[str, Flag]:
        """Return the flags that source files declare, by name; empty when their shape is not known."""

    def help_command(self, profile: Profile) -> tuple[str, ...]:
        """Return the command that makes the install itself tell its flags; empty where there is none."""

    def check(self, profile: Profile, known: Mapping[str, Flag]) -> tuple[FlagFault, ...]:
        """Return what the install would say of the arguments of a profile."""

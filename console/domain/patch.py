"""A patch: named edits to files of an installed engine, and the states it can be in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.domain.host import GitState, Package
from console.domain.text import SafeText


class EditKind(StrEnum):
    """What an edit does."""

    REPLACE = "replace"
    INSERT_BEFORE = "insert_before"
    """`replace` holds whole lines to be put above the line where `find` begins."""
    INSERT_AFTER = "insert_after"
    """The same, below the line where `find` ends."""
    CREATE = "create"
    """`replace` is the whole of a new file; there is no `find`."""
    DELETE = "delete"
    """The file goes; there is neither `find` nor `replace`."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Find and replace once in one file, or one of the other kinds."""

    file: str
    """Relative to the engine package."""
    find: str
    replace: str
    within: str = ""
    """Name of the def or class that the search is limited to."""
    count: int = 1
    """How often `find` must be there."""
    line: int = 0
    """Line of the patch file where the edit stands, for messages."""
    kind: EditKind = EditKind.REPLACE


@dataclass(frozen=True, slots=True)
class Applies:
    """`[applies_to]`: what the patch is written for; unknown facts exclude nothing."""

    engine: str = ""
    version: str = ""
    """PEP 440 specifier set."""
    upstream_from: str = ""
    compute_capability: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requires:
    """`[requires]`: what a profile must say for the patched code to be reached."""

    args: Mapping[str, object] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch file."""

    name: str
    path: str = ""
    title: str = ""
    why: str = ""
    applies_to: Applies = field(default_factory=Applies)
    requires: Requires = field(default_factory=Requires)
    evidence_log: str = ""
    edits: tuple[Edit, ...] = ()
    diff: str | None = None
    """Text of the unified or git diff, when the patch has one."""
    diff_path: str = ""
    skip: tuple[str, ...] = ()
    """Files or folders of the diff that are left out, such as `tests/`."""
    after: tuple[str, ...] = ()
    """Patches that must be on before this one."""
    conflicts_with: tuple[str, ...] = ()
    """Patches that must not be on beside it."""
    fault: str = ""
    """Why the patch file itself is wrong; empty when it is not."""


class DiskState(StrEnum):
    """What the files say: the table of design section 5."""

    OFF = "off"
    ON = "on"
    DRIFTED = "drifted"
    CONFLICT = "conflict"
    ALREADY_UPSTREAM = "already_upstream"
    NOT_APPLICABLE = "not_applicable"
    INVALID = "invalid"
    UNKNOWN = "unknown"
    """Not looked at yet, or the host cannot be asked."""


class ProcessState(StrEnum):
    """What the running server has of it."""

    NO_SERVER = "no_server"
    NEEDS_RESTART = "needs_restart"
    LOADED = "loaded"
    """The file had its present bytes when the server started."""
    PROVEN = "proven"
    """Loaded, and the evidence line is in this run's log."""
    NOT_REACHED = "not_reached"
    """Loaded, but the profile never reaches the patched code."""
    NOT_LOADED = "not_loaded"
    """Off on disk and off in the process."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a plan: present bytes and the bytes wanted."""

    path: str
    """Absolute, or relative to the package folder that the write names as its root."""
    shown: str
    """Relative to the engine package."""
    before: bytes | None
    """`None`: the file does not exist."""
    after: bytes | None
    """`None`: the file is to be removed."""
    before_sha256: str = ""
    after_sha256: str = ""
    mode: int | None = None
    """Wanted, where the patch says."""
    like: str = ""
    """File whose mode a new one takes: the one that it was renamed from."""
    mode_before: int | None = None
    """Present mode, where the mode is part of the change."""


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """One patch against one host: both columns of state with their evidence."""

    name: str
    title: str
    disk: DiskState
    loaded: ProcessState = ProcessState.UNKNOWN
    reason: str = ""
    """Why it is in this state: offset, fuzz, version, the lines that differ."""
    process_reason: str = ""
    """Evidence for `loaded`."""
    files: tuple[str, ...] = ()
    """Relative to the engine package."""
    diff: tuple[SafeText, ...] = ()
    """Unified diff of what `space` would do now (to `on`, or back to `off`)."""
    version: str | None = None
    needs_fuzz: bool = False
    ours: bool = False
    """Whether the host's patch journal says that we wrote it."""
    seen: tuple[tuple[str, str], ...] = ()
    """(file, sha256 or empty for no file) as this status saw them: handed back to `apply`, drift refuses."""
    asks: tuple[str, ...] = ()
    """What has to be confirmed before a write: drift, fuzz, uncommitted changes that are not ours."""
    conflict: tuple[SafeText, ...] = ()
    """What was expected, what is there and what is wanted, where it does not fit."""
    warnings: tuple[str, ...] = ()
    """What an operator should know before a write, and need not confirm: another interpreter's copy."""
    changes: tuple[FileChange, ...] = ()
    """What `space` would write now, whole: for the compare view."""
    own: tuple[str, ...] = ()
    """Files that are as committed once the patches that we wrote are off: their changes are all ours."""


def dirty_of_ours(git: GitState, package: Package | None, patches: Iterable[PatchStatus]) -> tuple[str, ...]:
    """Return which of a checkout's changed files hold nothing but our own patches."""
    if package is None:
        return ()
    top = git.top.rstrip("/")
    folders = [folder.rstrip("/") for folder in (package.folder, package.real) if folder]
    own = {f"{folder}/{file}" for status in patches for file in status.own for folder in folders}
    return tuple(path for path in git.dirty if f"{top}/{path}" in own)


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """What a verified write did."""

    name: str
    """Patch name, or the file for a plain edit."""
    verb: str
    """`apply` or `revert`."""
    files: tuple[tuple[str, str, str, int, int], ...]
    """(file, sha256 before, sha256 after, lines added, lines removed)."""
    compiled_by: str
    """Interpreter that compiled the new bytes; empty when none could."""
    round_trips: int
    ms: float
    notes: tuple[str, ...] = ()

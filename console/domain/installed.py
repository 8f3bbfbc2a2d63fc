"""Installed packages against what they were installed as."""

from __future__ import annotations

from dataclasses import dataclass

from console.domain.host import Package


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file that is not as it was installed or committed."""

    path: str
    """Absolute."""
    shown: str
    """From the package's name on; a path of its wheel where it came from one."""
    kind: str
    """`changed`, `missing`, `added` or `unreadable`."""
    expected: str = ""
    """SHA-256 that RECORD has; empty for git."""
    found: str = ""
    """SHA-256 now; empty when it was not needed."""
    patch: str = ""
    """Name of the patch of ours that left it so; empty when nobody told us."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PackageCheck:
    """One package and its files that differ."""

    package: Package
    against: str = ""
    """`RECORD` or `git`; empty when there is nothing to compare with."""
    checked: int = 0
    """Files that were compared."""
    files: tuple[ChangedFile, ...] = ()
    reason: str = ""
    """Why it could not be checked, or what was left out."""
    distributions: tuple[str, ...] = ()
    """Metadata folders whose RECORD lists it; more than one means that two installs share it."""
    commit: str = ""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Original:
    """Bytes as they were, and where they were found."""

    data: bytes | None
    source: str = ""
    """Empty when they are no longer to be had."""

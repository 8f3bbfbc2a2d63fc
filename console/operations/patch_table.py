"""Patches over several hosts and versions: which state where, and that in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from console.domain.patch import DiskState, PatchStatus

WORDS = {
    DiskState.OFF: "applies to",
    DiskState.ON: "applies to",
    DiskState.DRIFTED: "drifted on",
    DiskState.CONFLICT: "conflicts on",
    DiskState.ALREADY_UPSTREAM: "upstream from",
    DiskState.NOT_APPLICABLE: "not written for",
    DiskState.INVALID: "invalid on",
    DiskState.UNKNOWN: "unknown on",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The state of one patch in one place."""

    host: str
    package: str
    """Folder that was named; empty where the interpreter was asked."""
    status: PatchStatus


@dataclass(frozen=True, slots=True)
class Span:
    """Versions in a row on which a patch stands alike."""

    says: str
    """`applies to`, `upstream from`, `conflicts on`, …"""
    first: str
    last: str
    versions: tuple[str, ...]

    @property
    def told(self) -> str:
        """The span in words: `applies to 0.5.7–0.5.12`."""
        alone = self.first == self.last or self.says == WORDS[DiskState.ALREADY_UPSTREAM]
        return f"{self.says} {self.first}" if alone else f"{self.says} {self.first}–{self.last}"


def spans(rows: Sequence[Checked]) -> tuple[Span, ...]:
    """Return how one patch stands over the versions that were looked at, oldest first.

    Two places with one version that stand differently are two spans; a version that cannot be
    read stands at the end by itself.
    """
    ordered = sorted(rows, key=lambda row: _key(row.status.version))
    found: list[Span] = []
    for row in ordered:
        version, says = row.status.version or "an unknown version", WORDS[row.status.disk]
        last = found[-1] if found else None
        if last is not None and last.says == says and row.status.version:
            versions = last.versions if version in last.versions else (*last.versions, version)
            found[-1] = Span(says, last.first, version, versions)
        else:
            found.append(Span(says, version, version, (version,)))
    return tuple(found)


def sentence(rows: Sequence[Checked]) -> str:
    """Return the spans of one patch as a sentence, what applies first."""
    found = sorted(spans(rows), key=lambda span: list(WORDS.values()).index(span.says))
    return ", ".join(span.told for span in found)


def _key(version: str | None) -> tuple[int, Version]:
    try:
        return 0, Version(version or "")
    except InvalidVersion:
        return 1, Version("0")

"""Is this the version, engine and GPU that a patch is written for? What is unknown excludes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from console.domain.patch import Applies


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the host's engine; `None` where it cannot be read."""

    engine: str = ""
    version: str | None = None
    compute_capability: str | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """How the facts stand to `[applies_to]`."""

    other_engine: str = ""
    outside: str = ""
    """Why the version is outside the range; empty when it is inside or unknown."""
    upstream: str = ""
    """Set when upstream has the change from this version on."""
    other_gpu: str = ""
    unknown: tuple[str, ...] = ()
    """Facts that would have been asked and could not be read."""


def fit(applies: Applies, facts: Facts) -> Fit:
    """Compare the facts with what a patch is written for."""
    engine = facts.engine.lower()
    other = bool(applies.engine and engine and applies.engine.lower() != engine)
    unknown: list[str] = []
    version = _version(facts.version)
    outside = upstream = ""
    if version is None and (applies.version or applies.upstream_from):
        said = f"version {facts.version} is not reliable" if facts.version else "version unknown"
        unknown.append(said)
    elif version is not None:
        base = Version(version.public)
        if applies.upstream_from and base >= Version(applies.upstream_from):
            upstream = f"{applies.engine or 'the engine'} has it since {applies.upstream_from}, here is {facts.version}"
        if applies.version and not SpecifierSet(applies.version).contains(base, prereleases=True):
            outside = f"written for {applies.version}, here is {facts.version}"
    gpu = ""
    if applies.compute_capability:
        if facts.compute_capability is None:
            unknown.append("GPU unknown")
        elif facts.compute_capability not in applies.compute_capability:
            wanted = " or ".join(applies.compute_capability)
            gpu = f"written for compute capability {wanted}, here is {facts.compute_capability}"
    wrong = f"written for {applies.engine}, here is {facts.engine}" if other else ""
    return Fit(wrong, outside, upstream, gpu, tuple(unknown))


def _version(text: str | None) -> Version | None:
    """Return a version that can be compared; a development version is a guess of its checkout's tags."""
    if not text:
        return None
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    return None if version.is_devrelease or version.release == (0, 0, 0) else version

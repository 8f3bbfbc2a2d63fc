"""Engine packages of one interpreter: which copy each is, what of it was changed, the bytes it had before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.domain.host import Package
from console.domain.installed import ChangedFile, Original, PackageCheck
from console.inventory.packages import ASK_DEADLINE_S, described
from console.remote.link import HostLink
from console.remote.outpost import originals as finding

ENGINE_PACKAGES = ("sglang", "vllm", "flashinfer", "sgl_kernel", "triton", "torch")
"""What makes a number: the engines and the kernels under them, by the names that are imported."""

FIND_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which packages, and which interpreter says where they are."""

    names: tuple[str, ...] = ENGINE_PACKAGES
    folders: tuple[str, ...] = ()
    """Package folders that are given: no interpreter is asked for them."""
    containing: tuple[str, ...] = ()
    """Files whose packages are meant."""
    python: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""

    def told(self) -> dict[str, Any]:
        """Return it as the outpost takes it."""
        return {
            "names": list(self.names),
            "folders": list(self.folders),
            "containing": list(self.containing),
            "python": self.python,
            "env": dict(self.env),
            "cwd": self.cwd,
        }


async def which(link: HostLink, lookup: Lookup) -> tuple[tuple[Package, ...], tuple[str, ...]]:
    """Return the packages as they would be imported, and the names that would not be found: one round trip."""
    reply = await link.call("which", lookup.told(), deadline_s=ASK_DEADLINE_S)
    facts = list(reply.result["packages"])
    there = tuple(described(item) for item in facts if item.get("regular"))
    return there, tuple(str(item["name"]) for item in facts if not item.get("regular"))


async def changed(link: HostLink, lookup: Lookup, *, added: bool = True) -> AsyncIterator[PackageCheck]:
    """Yield each package with its files that are not as installed, as soon as it is checked: one round trip.

    Args:
        link: The host.
        lookup: Which packages.
        added: Whether files that no RECORD lists are told.
    """
    stream = link.stream("changed", {**lookup.told(), "added": added})
    try:
        async for reply in stream:
            if reply.more:
                yield _check(reply.result)
    finally:
        await stream.aclose()


def _check(facts: Mapping[str, Any]) -> PackageCheck:
    files = tuple(
        ChangedFile(**{key: str(item.get(key) or "") for key in ChangedFile.__slots__}) for item in facts["files"]
    )
    return PackageCheck(
        described(facts["package"]),
        str(facts["against"]),
        int(facts["checked"]),
        files,
        str(facts["reason"]),
        tuple(map(str, facts["distributions"])),
        str(facts.get("commit") or ""),
        float(facts["ms"]),
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A content to be found by its hash."""

    sha256: str = ""
    """Empty takes what is there now, or in `rev`."""
    path: str = ""
    """Where it is or was on the host."""
    member: str = ""
    """Its path in the wheel."""
    distribution: str = ""
    """`name-version`."""
    root: str = ""
    """Package folder."""
    rev: str = ""
    """Git revision that is meant, whatever its hash."""

    def told(self) -> dict[str, str]:
        """Return it as the outpost takes it."""
        return {key: str(getattr(self, key)) for key in self.__slots__}


async def contents(
    link: HostLink, wanted: Sequence[Wanted], *, wheels: Sequence[str] = (), wheels_here: Sequence[str] = ()
) -> tuple[Original, ...]:
    """Return contents by their hash: kept on the host, in its git, wheels or caches, else in the console's.

    Args:
        link: The host.
        wanted: What to find.
        wheels: Wheel files, or folders of them, on the host.
        wheels_here: The same on this machine.
    """
    args = {"wanted": [item.told() for item in wanted], "wheels": list(wheels)}
    reply = await link.call("contents", args, deadline_s=FIND_DEADLINE_S)
    found: list[Original] = []
    at = 0
    for item in reply.result["found"]:
        size = int(item["size"])
        found.append(Original(reply.body[at : at + size], str(item["source"])) if size >= 0 else Original(None))
        at += max(0, size)
    missing = [
        number
        for number, one in enumerate(found)
        if one.data is None and wanted[number].sha256 and wanted[number].distribution
    ]
    if missing and not link.host.is_local:
        here = [finding.Wanted({**wanted[number].told(), "path": "", "root": ""}) for number in missing]
        await asyncio.to_thread(finding.find, here, list(wheels_here))
        for number, item in zip(missing, here, strict=True):
            if item.data is not None:
                found[number] = Original(item.data, f"here: {item.source}")
    return tuple(found)


async def tree_hashes(link: HostLink, folder: str) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path from there: one round trip."""
    reply = await link.call("tree_hashes", {"path": folder}, deadline_s=FIND_DEADLINE_S)
    return {str(path): str(sha) for path, sha in json.loads(reply.body).items()}

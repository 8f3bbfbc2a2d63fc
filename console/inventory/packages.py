"""Engine packages: where an interpreter imports one from, or what a given folder is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.domain.host import Package
from console.remote.link import HostLink

ASK_DEADLINE_S = 60.0
"""A cold interpreter with a thousand packages on a slow disk takes its time."""


async def resolved_package(
    link: HostLink, name: str, *, python: str = "", env: Mapping[str, str] | None = None, cwd: str = ""
) -> Package:
    """Return the package that `python` would import under `name`; nothing of it is imported.

    Args:
        link: The host.
        name: Top-level package.
        python: Path of the interpreter, or a name on the login's PATH; empty means `python3`.
        env: Added to the login's environment (`PYTHONPATH`).
        cwd: Folder that the server is launched in, which is on its search path.

    Raises:
        RemoteError: Kind `no_python` or `no_package`, with what was looked through.
    """
    args = {"python": python, "name": name, "env": dict(env or {}), "cwd": cwd}
    reply = await link.call("package", args, deadline_s=ASK_DEADLINE_S)
    return described(reply.result)


async def package_in(link: HostLink, folder: str) -> Package:
    """Return the package in a folder, its version from the metadata beside it or its own source.

    Raises:
        RemoteError: Kind `no_package`, or there is no such folder.
    """
    reply = await link.call("package_at", {"folder": folder})
    return described({**reply.result, "origin": "folder"})


def described(facts: Mapping[str, Any]) -> Package:
    """Return the package that the outpost's facts describe."""
    return Package(
        name=str(facts["name"]),
        folder=str(facts["folder"]),
        version=None if facts["version"] is None else str(facts["version"]),
        origin=str(facts["origin"]),
        interpreter=str(facts.get("interpreter") or ""),
        version_from=str(facts.get("version_from") or ""),
        also=tuple(map(str, facts.get("also") or ())),
        real=str(facts.get("real") or ""),
        layer=str(facts.get("layer") or ""),
    )

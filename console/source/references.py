"""Definitions and uses of a name in a tree of the host."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from console.domain.source import Reference, References
from console.remote.link import HostLink
from console.source.search import shown

DEADLINE_S = 180.0
_FIRST = ("class", "def", "async def", "assign", "parameter", "import")


async def references(link: HostLink, paths: Sequence[str], name: str) -> References:
    """Return where a name stands below the first of `paths` that is there: one round trip.

    Raises:
        RemoteError: Kind `usage` (not a name), `enoent`, `no_grep`.
    """
    reply = await link.call(
        "references", {"name": name, "path": paths[0], "instead": list(paths[1:])}, deadline_s=DEADLINE_S
    )
    files = [str(file) for file in reply.result["files"]]
    found: list[Reference] = []
    at = 0
    for number, line, column, kind, last, scope, size in reply.result["rows"]:
        raw = reply.body[at : at + size]
        at += size
        found.append(Reference(files[number], line, column, kind, scope, shown(raw, size), last, raw))
    found.sort(key=_order)
    return References(name, tuple(found), bool(reply.result["limited"]), tuple(map(str, reply.result["unparsed"])))


def _order(one: Reference) -> tuple[bool, int, str, int]:
    kind = _FIRST.index(one.kind) if one.defines else 0
    return not one.defines, kind, one.file, one.line


def definitions(found: References, file: str = "") -> tuple[Reference, ...]:
    """Return the definitions, the likeliest for a reader of `file` first: its own, then the nearest folders'."""
    near = posixpath.dirname(file).split("/")

    def distance(one: Reference) -> tuple[bool, bool, int, str]:
        folders = posixpath.dirname(one.file).split("/")
        same = 0
        while same < min(len(near), len(folders)) and near[same] == folders[same]:
            same += 1
        return one.file != file, one.kind == "assign", len(near) + len(folders) - 2 * same, one.file

    return tuple(sorted((one for one in found.found if one.defines), key=distance))

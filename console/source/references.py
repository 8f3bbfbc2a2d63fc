"""Definitions and uses of a name in a tree of the host."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Sequence

from console.domain.source import Reference, References
from console.errors import DeadlineError
from console.remote.client import Reply
from console.remote.link import HostLink
from console.source.search import shown

DEADLINE_S = 180.0
_FIRST = ("class", "def", "async def", "assign", "parameter", "import")


async def references(
    link: HostLink, paths: Sequence[str], name: str, reading: Callable[[int, int], None] = lambda read, files: None
) -> References:
    """Return where a name stands below the first of `paths` that is there: one round trip.

    Args:
        link: The host.
        paths: Where to look.
        name: What to look for.
        reading: Told how many of how many files were parsed, while the answer is not kept from before.

    Raises:
        RemoteError: Kind `usage` (not a name), `enoent`, `no_grep`.
        DeadlineError: The host needs too long.
    """
    stream = link.stream("references", {"name": name, "path": paths[0], "instead": list(paths[1:])})
    last: Reply | None = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for reply in stream:
                last = reply
                if reply.more:
                    reading(int(reply.result["read"]), int(reply.result["files"]))
    except TimeoutError:
        raise DeadlineError(f"{link.host.name}: references of {name} took longer than {DEADLINE_S:.0f} s") from None
    finally:
        await stream.aclose()
    assert last is not None
    return _told(name, last)


def _told(name: str, reply: Reply) -> References:
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

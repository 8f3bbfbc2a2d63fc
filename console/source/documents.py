"""Files of the host as documents: whole or by lines, in one round trip."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.domain.source import Document, TreeEntry
from console.remote.client import Reply
from console.remote.link import HostLink

WHOLE_LIMIT = 16 << 20
"""Bytes up to which a file is opened whole; of a longer one as many lines as fit."""

READ_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Spot:
    """One path to try, and which of its lines are wanted."""

    path: str
    first: int = 1
    """Negative: the last lines, as many as it says."""
    count: int | None = None

    def told(self) -> dict[str, Any]:
        """Return it as the outpost takes it."""
        return {"path": self.path, "first": self.first, "count": self.count}


async def open_document(
    link: HostLink,
    spots: Sequence[Spot],
    *,
    rather: Sequence[Spot] = (),
    max_bytes: int = WHOLE_LIMIT,
    window: int = 0,
    line: int = 0,
) -> Document:
    """Open the first of `rather`, else of `spots`, that is there: content, hash and git letter of one moment.

    Args:
        link: The host.
        spots: Where it may be.
        rather: Where it is looked for before.
        max_bytes: Up to which it is opened whole.
        window: Bytes of a bigger one, 0 for `max_bytes`.
        line: Which the window shall hold; negative means the last.

    Raises:
        RemoteError: Kind `enoent`, `eacces`, `eisdir`, `special` (no regular file), …
    """
    args = {**_told(spots, rather), "max_bytes": max_bytes, "window": window, "line": line}
    return document_of(await link.call("read", args, deadline_s=READ_DEADLINE_S))


def _told(spots: Sequence[Spot], rather: Sequence[Spot]) -> dict[str, Any]:
    first, *others = spots
    return {**first.told(), "rather": [spot.told() for spot in rather], "instead": [spot.told() for spot in others]}


def document_of(reply: Reply) -> Document:
    """Return the document in an answer to `read`."""
    facts: Mapping[str, Any] = reply.result
    lines = reply.body.split(b"\n")
    if not facts["binary"] and lines[-1] == b"":
        lines.pop()
    if facts["crlf"]:
        lines = [line.removesuffix(b"\r") for line in lines]
    return Document(
        path=str(facts["path"]),
        size=int(facts["size"]),
        mtime=float(facts["mtime"]),
        sha256=str(facts["sha256"]),
        first_line=int(facts["first"]),
        lines=tuple(lines),
        total_lines=facts["total_lines"],
        final_newline=bool(facts["final_newline"]),
        crlf=bool(facts["crlf"]),
        binary=bool(facts["binary"]),
        git=str(facts["git"]),
        mixed_ends=bool(facts["mixed_ends"]),
        cut=bool(facts["cut"]),
        changing=bool(facts["changing"]),
    )


def content(document: Document) -> bytes:
    """Return the bytes that a document shows, line ends as in the file."""
    if document.binary:
        return b"\n".join(document.lines)
    end = b"\r\n" if document.crlf else b"\n"
    joined = end.join(document.lines)
    last = document.first_line + len(document.lines) - 1
    at_end = document.total_lines is None or last >= document.total_lines
    bare = not document.lines or document.cut or (at_end and not document.final_newline)
    return joined if bare else joined + end


async def raw_bytes(link: HostLink, spots: Sequence[Spot], *, rather: Sequence[Spot] = ()) -> AsyncIterator[bytes]:
    """Yield the bytes of the first of `rather`, else of `spots`, that is there, of any size, in parts."""
    async for reply in link.stream("fetch", _told(spots, rather)):
        if reply.body:
            yield reply.body


@dataclass(frozen=True, slots=True)
class Folder:
    """The names in a folder, folders first."""

    path: str
    entries: tuple[TreeEntry, ...]
    total: int
    """How many there are; more than `entries` when it is huge."""


async def folder(link: HostLink, paths: Sequence[str], *, offset: int = 0, limit: int = 20000) -> Folder:
    """Return the names in the first of `paths` that is there: folders first, then by name.

    Args:
        link: The host.
        paths: Where it may be.
        offset: Names to leave out at the beginning.
        limit: Names at most.

    Raises:
        RemoteError: Kind `enoent`, `eacces`, `enotdir`, …
    """
    reply = await link.call(
        "list", {"path": paths[0], "instead": list(paths[1:]), "offset": offset, "limit": limit}, deadline_s=60
    )
    base = str(reply.result["path"])
    entries = [_entry(base, item) for item in json.loads(reply.body)]
    entries.sort(key=lambda entry: ("dir" not in (entry.kind, entry.target_kind), entry.name))
    return Folder(base, tuple(entries), int(reply.result["total"]))


def _entry(base: str, item: Mapping[str, Any]) -> TreeEntry:
    name = str(item["name"])
    return TreeEntry(
        name=name,
        path=f"{base.rstrip('/')}/{name}",
        kind=str(item["kind"]),
        size=int(item["size"]),
        mtime=float(item["mtime"]),
        target=str(item.get("target", "")),
        git=str(item["git"]),
        target_kind=str(item.get("target_kind", "")),
    )

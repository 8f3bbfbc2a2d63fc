"""Reading code on the host: trees, documents, search, outlines, diffs."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from console.domain import diff
from console.domain.source import Document, GrepHit, Place, Reference, References, Symbol, TreeEntry
from console.domain.text import SafeText
from console.errors import ConsoleError, UsageError
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.source import diffs, documents, search, symbols
from console.source import names as finding
from console.source import references as naming
from console.source.documents import Folder, Spot
from console.source.names import Finder, Names
from console.source.places import parse_place
from console.source.symbols import named, outline

__all__ = ["Finder", "Folder", "Names", "named", "outline", "parse_place", "place_wanted"]

place_wanted = finding.place

COMPLAINTS_TOLD = 3

PAGE = 1000
"""Names of a folder that are read at once on screen."""

WINDOW = 4 << 20
"""Bytes that are fetched at once of a file that is too big to be opened whole."""

NAMES_FRESH_S = 300.0
"""How long the names below a folder are believed without asking again."""

_names: WeakKeyDictionary[HostLink, dict[tuple[str, ...], tuple[float, Names]]] = WeakKeyDictionary()


def resolve(desk: Desk, path: str) -> str:
    """Return the absolute path that an operator's `path` means first."""
    return candidates(desk, path)[0]


def candidates(desk: Desk, path: str) -> tuple[str, ...]:
    """Return the absolute paths that `path` can mean, best first.

    Absolute ones stay; relative ones are below the engine package, else beside it, else below the
    git checkout, else below this shell's folder (host `local`) or the login's home.
    """
    facts = desk.store.snapshot.facts
    home = facts.home if facts else desk.link.facts.home
    if path.startswith("/"):
        return (path,)
    if path == "~" or path.startswith("~/"):
        return (posixpath.join(home, path[2:]),)
    bases = []
    if desk.package is not None:
        bases += [desk.package.folder, posixpath.dirname(desk.package.folder)]
    if (state := desk.store.snapshot.git) is not None:
        bases.append(state.top)
    bases.append(os.getcwd() if desk.link.host.is_local else home)
    return tuple(dict.fromkeys(posixpath.normpath(posixpath.join(base, path)) for base in bases))


async def page(desk: Desk, path: str = "", *, offset: int = 0, limit: int = PAGE) -> Folder:
    """Return some of the names in a folder, folders first, and how many there are: one round trip."""
    return await documents.folder(desk.link, candidates(desk, path or "."), offset=offset, limit=limit)


async def tree(desk: Desk, path: str = "") -> tuple[TreeEntry, ...]:
    """Return the names in a folder, folders first; the engine package when none is named."""
    folder = await documents.folder(desk.link, candidates(desk, path or "."))
    if folder.total > len(folder.entries):
        desk.say(f"{folder.path}: only {len(folder.entries):,} of {folder.total:,} names are shown")
    return folder.entries


def names_known(desk: Desk, path: str = "") -> Names | None:
    """Return the names below a folder as they were asked for before, however long ago."""
    known = _names.get(desk.link, {}).get(candidates(desk, path or "."))
    return known[1] if known is not None else None


async def names(desk: Desk, path: str = "", *, again: bool = False) -> AsyncIterator[Names]:
    """Yield every file below a folder by name, more of them each time, the last time complete.

    The host is asked once: one round trip; afterwards they are known for some minutes.

    Args:
        desk: The desk.
        path: As for `resolve`; the engine package when none is named.
        again: Ask although they are known.
    """
    _must_have_tree(desk, path)
    paths = candidates(desk, path or ".")
    kept = _names.setdefault(desk.link, {})
    if not again and paths in kept and time.monotonic() - kept[paths][0] < NAMES_FRESH_S:
        yield kept[paths][1]
        return
    parts = finding.names(desk.link, paths)
    try:
        async for found in parts:
            if found.complete:
                kept[paths] = (time.monotonic(), found)
            yield found
    finally:
        await parts.aclose()  # type: ignore[attr-defined]


async def open_document(desk: Desk, path: str, *, first: int = 1, count: int | None = None, line: int = 0) -> Document:
    """Open a file in one round trip: content, hash and git letter of one moment.

    Args:
        desk: The desk.
        path: As for `resolve`.
        first: First line wanted; negative means the last lines, as many as it says.
        count: How many lines; `None` for the whole file, or as much of a big one as fits.
        line: Line that the part of a big file shall hold; negative means the last.
    """
    spots = [Spot(name, first, count) for name in candidates(desk, path)]
    return await documents.open_document(desk.link, spots, window=WINDOW, line=line)


async def open_place(desk: Desk, place: Place, *, around: int = 0, whole: bool = False) -> Document:
    """Open what a place names: a file of just that name first, else its lines, in one round trip.

    Args:
        desk: The desk.
        place: From `parse_place`.
        around: Lines to add before and after those named.
        whole: Open the whole file whatever lines are named (symbols always do).
    """
    first, count = 1, None
    if place.first is not None and not whole:
        first = max(1, place.first - around)
        count = None if place.last is None else place.last + around - first + 1
    spots = [Spot(name, first, count) for name in candidates(desk, place.path)]
    return await documents.open_document(desk.link, spots, rather=_literal(desk, place))


def _literal(desk: Desk, place: Place) -> list[Spot]:
    """Return where a file would be whose very name looks like a place."""
    odd = place.text not in ("", place.path)
    return [Spot(name) for name in candidates(desk, place.text)] if odd else []


def raw_bytes(desk: Desk, place: Place) -> AsyncIterator[bytes]:
    """Yield the bytes of a whole file, of any size, in parts."""
    spots = [Spot(name) for name in candidates(desk, place.path)]
    return documents.raw_bytes(desk.link, spots, rather=_literal(desk, place))


async def grep(
    desk: Desk,
    pattern: str,
    paths: Sequence[str] = (),
    *,
    fixed: bool = False,
    extended: bool = False,
    ignore_case: bool = False,
    word: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    context: int = 0,
    limit: int = 0,
    clip: int = search.CLIP,
) -> AsyncIterator[GrepHit]:
    """Yield the lines that the host's `grep -rnI` finds, as they are found; closing it stops the search there.

    Args:
        desk: The desk.
        pattern: A basic regular expression, as grep's own default.
        paths: Files and folders; the engine package when none is named.
        fixed: The pattern is plain text.
        extended: The pattern is an extended regular expression (`a|b`, `x+`).
        ignore_case: Take small and capital letters as equal.
        word: Whole words only.
        include: Globs of file names to search only.
        exclude: Globs of file names to leave out; with a `/` at the end, of folders.
        context: Lines around each hit.
        limit: Hits after which the search stops; 0 for all.
        clip: Bytes of one line that are fetched.
    """
    names = tuple(paths) or (".",)
    _must_have_tree(desk, "".join(paths))
    query = search.Query(
        pattern,
        tuple(candidates(desk, name) for name in names),
        fixed=fixed,
        extended=extended,
        ignore_case=ignore_case,
        word=word,
        include=tuple(include),
        exclude=tuple(exclude),
        context=context,
        limit=limit,
        clip=clip,
    )
    hits = search.grep(desk.link, query, lambda facts: _told(desk, facts))
    try:
        async for hit in hits:
            yield hit
    finally:
        await hits.aclose()  # type: ignore[attr-defined]


async def references(
    desk: Desk, name: str, path: str = "", reading: Callable[[int, int], None] = lambda read, files: None
) -> References:
    """Return where a name is defined and used below a folder, definitions first: one round trip.

    Args:
        desk: The desk.
        name: What to look for.
        path: As for `resolve`.
        reading: Told how many of how many files were parsed, as long as that goes on.

    Raises:
        UsageError: It is no name, or there is nothing to search.
    """
    if not name.isidentifier():
        raise UsageError(f"{name!r} is not a name", hint="grep finds any text")
    _must_have_tree(desk, path)
    return await naming.references(desk.link, candidates(desk, path or "."), name, reading)


def definitions(found: References, file: str = "") -> tuple[Reference, ...]:
    """Return the definitions, the likeliest for a reader of `file` first."""
    return naming.definitions(found, file)


def _must_have_tree(desk: Desk, path: str) -> None:
    if not path and desk.package is None and not desk.link.host.is_local:
        raise UsageError(
            "nothing to search: the engine package is not known",
            desk.store.snapshot.package_reason,
            "name a folder, a profile or --package DIR",
        )


def _told(desk: Desk, facts: Mapping[str, Any]) -> None:
    complaints = facts["complaints"]
    for complaint in complaints[:COMPLAINTS_TOLD]:
        desk.say(complaint)
    if len(complaints) > COMPLAINTS_TOLD:
        desk.say(f"grep: {len(complaints) - COMPLAINTS_TOLD} more files or folders could not be searched")


def enclosing(document: Document, line: int) -> Symbol | None:
    """Return the innermost def or class that holds a line, its decorators included."""
    return symbols.enclosing(outline(document), line)


def content(document: Document) -> bytes:
    """Return the bytes that a document shows, line ends as in the file."""
    return documents.content(document)


def part(document: Document, first: int, last: int) -> Document:
    """Return some lines of a document as a document."""
    at = document.first_line
    if not at <= first <= last <= at + len(document.lines) - 1:
        raise ConsoleError(f"{document.path} has no lines {first}-{last}", f"it has {document.total_lines} lines")
    return replace(document, first_line=first, lines=document.lines[first - at : last - at + 1], cut=False)


async def diff_head_bytes(desk: Desk, path: str = "") -> bytes:
    """Return git's unified diff, work tree against HEAD, as `git apply` takes it."""
    return await diffs.head_diff(desk.link, candidates(desk, path or "."))


async def diff_head(desk: Desk, path: str = "") -> tuple[SafeText, ...]:
    """Return the unified diff, work tree against HEAD, as lines that may be drawn."""
    return diff.shown(await diff_head_bytes(desk, path))

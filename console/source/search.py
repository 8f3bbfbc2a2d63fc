"""Lines that match, as the host's `grep -rnI` finds them, streamed with their context."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.domain.source import GrepHit
from console.domain.text import LINE_LIMIT, SafeText, clean
from console.errors import RemoteError, UsageError
from console.remote.client import Reply
from console.remote.link import HostLink

CLIP = 8192
"""Bytes of one line that travel; the length of the whole line is told."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to search, as grep means it: a basic regular expression unless told otherwise."""

    pattern: str
    paths: tuple[tuple[str, ...], ...]
    """Each with stand-ins for when it is not there."""
    fixed: bool = False
    extended: bool = False
    ignore_case: bool = False
    word: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Globs of file names; with a `/` at the end, of folder names."""
    context: int = 0
    limit: int = 0
    """Hits after which the search stops; 0 for all."""
    clip: int = CLIP

    def told(self) -> dict[str, Any]:
        """Return it as the outpost takes it."""
        return {
            "pattern": self.pattern,
            "paths": [names[0] for names in self.paths],
            "instead": {names[0]: list(names[1:]) for names in self.paths},
            "fixed": self.fixed,
            "extended": self.extended,
            "ignore_case": self.ignore_case,
            "word": self.word,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "context": self.context,
            "limit": self.limit,
            "clip": self.clip,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One line of grep's output."""

    file: str
    line: int
    match: bool
    raw: bytes
    size: int


async def grep(link: HostLink, query: Query, ended: Callable[[Mapping[str, Any]], None]) -> AsyncIterator[GrepHit]:
    """Yield hits while the search runs; closing the iterator stops it on the host.

    Args:
        link: The host.
        query: What to search.
        ended: Given the search's last word: `hits`, `files`, `limited`, `complaints`.

    Raises:
        UsageError: The pattern is not understood.
        RemoteError: Kind `enoent`, `no_grep`.
    """
    gathering = Gathering(query.context)
    stream = link.stream("grep", query.told())
    try:
        async for reply in stream:
            if not reply.more:
                ended(reply.result)
                continue
            for line in lines_of(reply):
                for hit in gathering.take(line):
                    yield hit
    except RemoteError as error:
        if error.kind == "usage":
            raise UsageError(error.title, error.detail) from error
        raise
    finally:
        await stream.aclose()
    for hit in gathering.rest():
        yield hit


def lines_of(reply: Reply) -> Iterator[Line]:
    """Yield the lines in one part of an answer to `grep`."""
    files = reply.result["files"]
    at = 0
    for file, line, match, length, size in reply.result["lines"]:
        yield Line(files[file], line, bool(match), reply.body[at : at + length], size)
        at += length


@dataclass(slots=True)
class Gathering:
    """Gives each match the lines around it; a match may stand in its neighbour's context."""

    context: int
    _before: deque[Line] = field(default_factory=deque)
    _open: deque[tuple[Line, tuple[Line, ...], list[Line]]] = field(default_factory=deque)

    def take(self, line: Line) -> Iterator[GrepHit]:
        """Take the next line and yield the hits that are complete by now."""
        if not self.context:
            yield GrepHit(line.file, line.line, shown(line.raw, line.size), raw=line.raw, size=line.size)
            return
        last = self._before[-1] if self._before else None
        if last is None or last.file != line.file or last.line + 1 != line.line:
            yield from self.rest()
        for _, _, after in self._open:
            after.append(line)
        while self._open and len(self._open[0][2]) >= self.context:
            yield _hit(*self._open.popleft())
        if line.match:
            self._open.append((line, tuple(self._before), []))
        self._before.append(line)
        if len(self._before) > self.context:
            self._before.popleft()

    def rest(self) -> Iterator[GrepHit]:
        """Yield the hits whose context ends here."""
        while self._open:
            yield _hit(*self._open.popleft())
        self._before.clear()


def _hit(line: Line, before: Sequence[Line], after: Sequence[Line]) -> GrepHit:
    return GrepHit(
        file=line.file,
        line=line.line,
        text=shown(line.raw, line.size),
        before=tuple(shown(near.raw, near.size) for near in before),
        after=tuple(shown(near.raw, near.size) for near in after),
        raw=line.raw,
        size=line.size,
        raw_before=tuple(near.raw for near in before),
        raw_after=tuple(near.raw for near in after),
    )


def shown(raw: bytes, size: int) -> SafeText:
    """Return a line that may be clipped as it may be drawn, with the count of what is missing."""
    kept = raw[:LINE_LIMIT]
    text = clean(kept)
    return text if size <= len(kept) else SafeText(f"{text} … [+{size - len(kept)} bytes]")

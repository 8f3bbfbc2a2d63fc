"""Files below a folder by name: all names in one round trip, and those that some letters mean, best first. Pure but for `names`."""

from __future__ import annotations

import heapq
import posixpath
import re
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from console.domain.source import TreeEntry
from console.remote.link import HostLink

Match = tuple[str, tuple[int, ...]]
"""A name, and which of its characters were asked for."""

POOLS_KEPT = 100

_LINE = re.compile(r":(\d{1,12})$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Names:
    """Every file below a folder, relative to it, as it was at one time."""

    root: str
    names: tuple[str, ...] = ()
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Where links lead, and to what kind of thing; empty where nothing is there."""
    limited: bool = False
    """There are more than are told."""
    unreadable: int = 0
    """Folders that could not be looked into."""
    complete: bool = False

    def path(self, name: str) -> str:
        """Return the absolute path of a name."""
        return f"{self.root.rstrip('/')}/{name}"

    def entry(self, name: str) -> TreeEntry:
        """Return a name as a row of the tree."""
        target, kind = self.links.get(name, ("", ""))
        base = posixpath.basename(name)
        is_link = name in self.links
        return TreeEntry(base, self.path(name), "link" if is_link else "file", target=target, target_kind=kind)


async def names(link: HostLink, paths: Sequence[str]) -> AsyncIterator[Names]:
    """Yield all names below the first of `paths` that is there, more of them each time: one round trip.

    Raises:
        RemoteError: Kind `enoent`, `eacces`, `enotdir`.
    """
    found: list[str] = []
    links: dict[str, tuple[str, str]] = {}
    stream = link.stream("names", {"path": paths[0], "instead": list(paths[1:])})
    try:
        async for reply in stream:
            facts = reply.result
            if not reply.more:
                told = (bool(facts["limited"]), int(facts["unreadable"]))
                yield Names(str(facts["path"]), tuple(found), links, *told, complete=True)
                continue
            part = zlib.decompress(reply.body).decode("utf-8", "surrogateescape").split("\0")
            links |= {part[number]: (str(target), str(kind)) for number, target, kind in facts["links"]}
            found += part
            yield Names(str(facts["path"]), tuple(found), links)
    finally:
        await stream.aclose()


def place(wanted: str) -> tuple[str, int | None]:
    """Return the letters and the line of `some letters:LINE`."""
    line = _LINE.search(wanted)
    return (wanted[: line.start()], int(line[1])) if line else (wanted, None)


class Finder:
    """Names to be found by some of their letters, in order; words apart by a blank must all be there.

    Best first: the whole name of the file, its beginning, the beginning of a word in it, a part of it, first letters
    of its words (`mr` for `model_runner.py`), a part of the path, letters in order; shorter before longer.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._low = [name.lower() for name in names]
        self._bases = [name[name.rfind("/") + 1 :] for name in self._low]
        self._pools: dict[str, list[int]] = {}

    def find(self, wanted: str, most: int = 200) -> list[Match]:
        """Return the best names; for nothing wanted, the first."""
        words = wanted.lower().split()
        if not words:
            return [(name, ()) for name in self.names[:most]]
        numbers: Sequence[int] = range(len(self.names))
        for word in words[1:]:  # the first word ranks, the others narrow
            pool = set(self._pool(word))
            numbers = [number for number in numbers if number in pool]
        found: list[Match] = []
        seen: set[int] = set()
        for tier in self._tiers(words[0], numbers):
            fresh = [number for number in tier if number not in seen]
            best = heapq.nsmallest(most - len(found), fresh, key=lambda number: (tier[number], len(self._low[number])))
            found += [(self.names[number], _spots(words, self._low[number])) for number in best]
            seen.update(best)
            if len(found) >= most:
                break
        return found

    def count(self, wanted: str) -> int:
        """Return how many names match at all."""
        words = wanted.lower().split()
        pools = [set(self._pool(word)) for word in words]
        return len(set.intersection(*pools)) if pools else len(self.names)

    def _tiers(self, word: str, numbers: Sequence[int]) -> Iterator[dict[int, int]]:
        """Yield ever worse matches, each with how far its letters are apart."""
        low, bases = self._low, self._bases
        inside = [number for number in numbers if word in bases[number]]
        yield dict.fromkeys((n for n in inside if word in (bases[n], bases[n].partition(".")[0])), 0)
        yield dict.fromkeys((n for n in inside if bases[n].startswith(word)), 0)
        begins = re.compile(rf"(?:^|[^a-z0-9]){re.escape(word)}")
        yield dict.fromkeys((n for n in inside if begins.search(bases[n])), 0)
        yield dict.fromkeys(inside, 0)
        among = set(numbers)
        pool = [number for number in self._pool(word) if number in among]
        test = _in_order(word)
        scattered = _apart(pool, bases, test)
        initials = re.compile("^" + r"(?:.*?[_.\-])?".join(map(re.escape, word)))
        yield {n: wide for n, wide in scattered.items() if len(word) > 1 and initials.search(bases[n])}
        yield dict.fromkeys((n for n in pool if word in low[n]), 0)
        yield scattered
        yield _apart(pool, low, test)

    def _pool(self, word: str) -> list[int]:
        """Return the names with the letters of a word in order; what was typed before narrows it."""
        known = self._pools.get(word)
        if known is None:
            shorter = next(
                (self._pools[word[:end]] for end in range(len(word), 0, -1) if word[:end] in self._pools), None
            )
            low, search = self._low, _in_order(word).search
            known = [number for number in (range(len(low)) if shorter is None else shorter) if search(low[number])]
            if len(self._pools) > POOLS_KEPT:
                self._pools.clear()
            self._pools[word] = known
        return known


def _apart(numbers: Iterable[int], texts: Sequence[str], test: re.Pattern[str]) -> dict[int, int]:
    """Return those that match, with how many characters the letters are spread over."""
    found = ((number, test.search(texts[number])) for number in numbers)
    return {number: match.end() - match.start() for number, match in found if match is not None}


def _in_order(word: str) -> re.Pattern[str]:
    """Return what finds letters in order; no step back is ever needed."""
    parts = [re.escape(word[0]), *(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in word[1:])]
    return re.compile("".join(parts), re.DOTALL)


def _spots(words: Sequence[str], low: str) -> tuple[int, ...]:
    """Return which characters of a name the words mean, in the file's name where they are all there."""
    base = low.rfind("/") + 1
    found: set[int] = set()
    for word in words:
        at = low.find(word, base)
        at = at if at >= 0 else low.find(word)
        if at >= 0:
            found.update(range(at, at + len(word)))
            continue
        start = base if _in_order(word).search(low, base) else 0
        for letter in word:
            start = low.find(letter, start) + 1
            found.add(start - 1)
    return tuple(sorted(found))

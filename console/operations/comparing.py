"""One way to compare: working tree and HEAD, two places, two hosts, two runs; the rows of all are alike."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence

from console.domain.comparison import Comparison, FilePair
from console.domain.host import Package
from console.domain.installed import Original
from console.domain.patch import FileChange
from console.domain.run import FileHash
from console.errors import ConsoleError, RemoteError, UsageError
from console.inventory import installed
from console.inventory.installed import Wanted
from console.operations.desk import Desk
from console.operations.installed import top_package
from console.operations.source import candidates, resolve
from console.source import diffs
from console.source.compare import flat, patch_text, rows, words

__all__ = ["flat", "of_changes", "patch_text", "rows", "two_places", "two_runs", "visiting", "with_head", "words"]

TREE_LIMIT = 400
"""Differing files of two trees whose bytes are fetched."""


async def with_head(desk: Desk, path: str = "", rev: str = "HEAD") -> Comparison:
    """Return what git says differs between a revision and the work tree, of a file or below a folder: one round trip.

    Raises:
        RemoteError: Kind `no_git`, `no_git_program`, `git_ownership`, `git_failed`.
    """
    found = await diffs.head_pairs(desk.link, candidates(desk, path or "."), rev)
    notes = (f"{found.left_out:,} more files are left out",) if found.left_out else ()
    return Comparison(f"{rev} {found.commit[:12]}", "working tree", found.files, notes)


def of_changes(changes: Sequence[FileChange], left: str = "now", right: str = "with the patch") -> Comparison:
    """Return what a plan would write."""
    files = tuple(FilePair(one.shown, one.before, one.after, path=one.path) for one in changes)
    return Comparison(left, right, files)


async def two_places(left: Desk, left_path: str, right: Desk, right_path: str) -> Comparison:
    """Return a file beside another, or a folder beside another, on one host or two.

    Both hosts are asked at the same time, twice; folders are compared by hash first.
    """
    one, other = resolve(left, left_path), resolve(right, right_path)
    kinds = [
        reply.result
        for reply in await asyncio.gather(
            *(
                desk.link.call("stat", {"paths": list(candidates(desk, path))})
                for desk, path in ((left, left_path), (right, right_path))
            )
        )
    ]
    one, other = (_first(facts, path) for facts, path in zip(kinds, (one, other), strict=True))
    words = (_place(left, one, right), _place(right, other, left))
    folders = [_kind(facts.get(path)) == "dir" for facts, path in zip(kinds, (one, other), strict=True)]
    if folders[0] != folders[1]:
        raise UsageError(f"{one} and {other}: a file and a folder cannot be compared")
    if folders[0]:
        return await _trees(left, one, right, other, words)
    (before,), (after,) = await asyncio.gather(
        installed.contents(left.link, [Wanted(path=one)]), installed.contents(right.link, [Wanted(path=other)])
    )
    for path, found, desk in ((one, before, left), (other, after, right)):
        if found.data is None:
            raise ConsoleError(f"{desk.link.host.name}: {path} is not there, or cannot be read")
    name = posixpath.basename(other)
    pair = FilePair(name, before.data, after.data, path=other)
    same = before.data == after.data
    return Comparison(*words, () if same else (pair,), same=int(same))


@contextlib.asynccontextmanager
async def visiting(
    desk: Desk, host: str, *, accept_key: str | None = None, package_dirs: Sequence[str] = ()
) -> AsyncIterator[Desk]:
    """Hold a desk on another host, to read there only, under the same profile.

    Args:
        desk: The desk that is compared from.
        host: ssh alias, `user@host:port` or `local`.
        accept_key: Fingerprint of a new host's key that may be accepted.
        package_dirs: `--package` folders there.
    """
    from console.operations.host import known_package
    from console.operations.opening import open_desk

    other = await open_desk(
        host=host,
        profile=desk.profile.path or None if desk.profile is not None else None,
        readonly=True,
        accept_key=accept_key,
        package_dirs=tuple(package_dirs),
        say=desk.say,
    )
    try:
        await known_package(other)
        yield other
    finally:
        await other.link.close()


def _place(desk: Desk, path: str, beside: Desk) -> str:
    return path if desk.link is beside.link else f"{desk.link.host.name}:{path}"


def _first(facts: Mapping[str, object], path: str) -> str:
    return next((name for name, fact in facts.items() if fact is not None), path)


def _kind(facts: object) -> str:
    if not isinstance(facts, Mapping):
        return ""
    return str(facts.get("target_kind") or facts.get("kind") or "")


async def _trees(left: Desk, one: str, right: Desk, other: str, words: tuple[str, str]) -> Comparison:
    before, after = await asyncio.gather(
        installed.tree_hashes(left.link, one), installed.tree_hashes(right.link, other)
    )
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    chosen = names[:TREE_LIMIT]
    sides = []
    for desk, folder, hashes in ((left, one, before), (right, other, after)):
        there = [name for name in chosen if name in hashes]
        wanted = [Wanted(hashes[name], posixpath.join(folder, name)) for name in there]
        found = await installed.contents(desk.link, wanted) if wanted else ()
        sides.append(dict(zip(there, found, strict=True)))
    files = []
    for name in chosen:
        old, new = sides[0].get(name), sides[1].get(name)
        lost = [side for side in (old, new) if side is not None and side.data is None]
        note = "differs; too big to be shown, or changed meanwhile" if lost else ""
        path = posixpath.join(other if new else one, name)
        data = [side.data if side is not None else None for side in (old, new)]
        files.append(FilePair(name, data[0], data[1], note, path))
    notes = (f"{len(names) - len(chosen):,} more files differ",) if len(names) > len(chosen) else ()
    return Comparison(
        *words, tuple(files), notes, len(before.keys() & after.keys()) - len(set(names) & set(before) & set(after))
    )


async def two_runs(desk: Desk, a: str, b: str, *, wheels: Sequence[str] = ()) -> Comparison:
    """Return the files whose bytes differ between what two runs had loaded.

    Each run's hashes are in its folder on the host and in the journal. The bytes are looked for by hash: in the
    file as it is, among the originals that we keep, in git, in wheels and caches; what is gone is told as such.

    Raises:
        UsageError: There is no such run.
    """
    sides = [await _loaded(desk, name) for name in (a, b)]
    (left, root), (right, _) = sides
    paths = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
    only = [path for path in paths if (path in left) != (path in right)]
    both = [path for path in paths if path in left and path in right]
    package = await top_package(desk, both[0]) if both else None
    wanted = [_wanted(path, hashes[path], package) for path in both for hashes in (left, right)]
    found = await installed.contents(desk.link, wanted, wheels=wheels, wheels_here=wheels) if wanted else ()
    files = []
    for number, path in enumerate(both):
        before, after = found[2 * number], found[2 * number + 1]
        files.append(
            FilePair(_short(path, root), before.data, after.data, _gone(before, after, left[path], right[path]), path)
        )
    notes = [f"{_short(path, root)}: only {a if path in left else b} says what it had loaded of it" for path in only]
    same = len(left.keys() & right.keys()) - len(both)
    if not left or not right:
        which = a if not left else b
        notes.append(f"run {which} has no hashes: nothing was known to be patched when it was launched")
    return Comparison(f"run {a}", f"run {b}", tuple(files), tuple(notes), same)


async def _loaded(desk: Desk, name: str) -> tuple[dict[str, str], str]:
    """Return path → SHA-256 of what a run had loaded, and its package folder."""
    from console.operations import compare, server

    hashes: Sequence[FileHash] = ()
    try:
        run = await server.find_run(desk, name.rpartition(":")[2])
        hashes = run.hashes
    except (UsageError, RemoteError):
        entry = await compare.find_run(name)
        told = entry.identity.get("hashes")
        hashes = [FileHash(str(path), str(sha)) for path, sha in told.items()] if isinstance(told, Mapping) else []
    table = {one.path: one.sha256 for one in hashes}
    root = desk.package.folder if desk.package is not None else ""
    if table and not (root and all(path.startswith(f"{root}/") for path in table)):
        root = posixpath.commonpath([posixpath.dirname(path) for path in table])
    return table, root


def _wanted(path: str, sha256: str, package: Package | None) -> Wanted:
    if package is None:
        return Wanted(sha256, path)
    info = posixpath.basename(package.version_from)
    distribution = info.removesuffix(".dist-info") if info.endswith(".dist-info") else ""
    member = posixpath.join(package.name, _short(_short(path, package.folder), package.real))
    return Wanted(sha256, path, member, distribution, package.folder)


def _short(path: str, root: str) -> str:
    return path.removeprefix(f"{root}/") if root else path


def _gone(before: Original, after: Original, left: str, right: str) -> str:
    lost = [sha[:12] for found, sha in ((before, left), (after, right)) if found.data is None]
    return f"differs, and {' and '.join(lost)} is no longer to be had" if lost else ""

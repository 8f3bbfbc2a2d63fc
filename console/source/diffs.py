"""What differs from the checkout's last commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.domain.comparison import FilePair
from console.remote.link import HostLink


async def head_diff(link: HostLink, paths: Sequence[str], *, context: int = 3) -> bytes:
    """Return git's unified diff of the work tree against HEAD, of one file or all below a folder.

    Args:
        link: The host.
        paths: The first one that is there is meant; else the first, which may be a removed file.
        context: Equal lines around each change.

    Raises:
        RemoteError: Kind `no_git`, `no_git_program`, `git_ownership`, `git_failed`.
    """
    return (
        await link.call("git_diff", {"path": paths[0], "instead": list(paths[1:]), "context": context}, deadline_s=120)
    ).body


async def head_bytes(link: HostLink, path: str, rev: str = "HEAD") -> bytes:
    """Return a file as it is in a revision."""
    return (await link.call("git_show", {"path": path, "rev": rev})).body


@dataclass(frozen=True, slots=True)
class Pairs:
    """Files that differ from a revision, both sides whole."""

    commit: str
    files: tuple[FilePair, ...]
    left_out: int = 0


async def head_pairs(link: HostLink, paths: Sequence[str], rev: str = "HEAD") -> Pairs:
    """Return every tracked file that differs from a revision, with the bytes of both sides: one round trip."""
    reply = await link.call("git_pairs", {"path": paths[0], "instead": list(paths[1:]), "rev": rev}, deadline_s=120)
    files: list[FilePair] = []
    at = 0
    for path, shown, before, after in reply.result["files"]:
        sides: list[bytes | None] = []
        for size in (before, after):
            sides.append(reply.body[at : at + size] if size >= 0 else None)
            at += max(0, size)
        files.append(FilePair(str(shown), sides[0], sides[1], path=str(path)))
    return Pairs(str(reply.result["commit"]), tuple(files), int(reply.result["left_out"]))

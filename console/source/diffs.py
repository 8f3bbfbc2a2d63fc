"""What differs from the checkout's last commit."""

from __future__ import annotations

from collections.abc import Sequence

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

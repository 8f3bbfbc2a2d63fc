"""The git checkout around a folder of the host."""

from __future__ import annotations

from console.domain.host import GitState
from console.domain.text import clean
from console.errors import RemoteError
from console.remote.link import HostLink

NO_CHECKOUT = ("no_git", "no_git_program", "enoent")
"""Faults that mean: nothing is known to git here."""


async def git_state(link: HostLink, folder: str) -> GitState | None:
    """Return the state of the checkout that tracks a folder; `None` when none does.

    A checkout that ignores the folder (a virtual environment inside a project) does not count.

    Raises:
        RemoteError: Kind `git_ownership` (git refuses another login's checkout) or `git_failed`.
    """
    try:
        facts = (await link.call("git_state", {"path": folder})).result
    except RemoteError as error:
        if error.kind in NO_CHECKOUT:
            return None
        raise
    if facts["ignored"]:
        return None
    return GitState(
        top=str(facts["top"]),
        commit=str(facts["commit"]),
        branch=clean(str(facts["branch"])),
        dirty=tuple(map(str, facts["dirty"])),
        untracked=int(facts["untracked"]),
    )

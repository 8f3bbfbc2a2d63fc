"""What to dial: the operator's words for a host, resolved as far as no network is needed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A host to be reached by SSH."""

    name: str
    """Shown everywhere: alias, `user@host:port`, `demo`."""
    address: str = ""
    """Host name or address; empty lets `~/.ssh/config` say it for `name`."""
    port: int = 0
    """0 lets `~/.ssh/config` say it."""
    user: str = ""
    key_files: tuple[str, ...] = ()
    """Private keys to offer instead of the login's own."""
    known_hosts: str = ""
    """Another file than `~/.ssh/known_hosts`."""
    read_config: bool = True
    """Whether `~/.ssh/config` and the agent are looked at."""
    badge: str = ""

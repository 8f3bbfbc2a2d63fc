"""What the command line said to the cockpit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    hosts: tuple[str, ...] = ()
    profile: str | None = None
    readonly: bool = False
    accept_key: str | None = None
    target: object | None = None

    def desk(self, accept: str | None) -> dict[str, Any]:
        """Return the arguments of `open_desk`."""
        return {
            "host": self.target if self.target is not None else self.hosts[0] if self.hosts else "",
            "profile": self.profile,
            "readonly": self.readonly,
            "accept_key": accept,
        }

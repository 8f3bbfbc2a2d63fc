"""The desk: what every operation needs at hand: link, profile, store, command log."""

from __future__ import annotations

import getpass
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from console.domain.host import CommandRecord, Package
from console.domain.profile import Profile
from console.errors import ConsoleError, ReadOnlyError, UsageError
from console.remote.link import HostLink
from console.state.store import Store

COMMANDS_KEPT = 2000


@dataclass(slots=True)
class Hold:
    """The host's measuring is ours: told there, and renewed while it lasts."""

    token: str
    total: bool
    """Whether nobody else may change the host meanwhile, or only not measure."""
    fault: ConsoleError | None = None
    """Who took it over; nothing more is done under it then."""


@dataclass(slots=True)
class Desk:
    """One host and one profile being worked on."""

    link: HostLink
    store: Store = field(default_factory=Store)
    profile: Profile | None = None
    readonly: bool = False
    package_dirs: tuple[str, ...] = ()
    """`--package DIR`: engine packages where no interpreter is to be asked."""
    commands: deque[CommandRecord] = field(default_factory=lambda: deque(maxlen=COMMANDS_KEPT))
    say: Callable[[str], None] = lambda text: None
    """Narration: stderr in a shell, a toast on screen."""
    package: Package | None = None
    """Engine package once it has been asked for."""
    hold: Hold | None = None
    """Ours of this host, while we are at its experiments or measure."""

    @property
    def claim(self) -> dict[str, str]:
        """Who asks for a change, for the host to hold against whoever measures there."""
        from console.journal.holding import console_id

        return {"console": console_id(), "token": self.hold.token if self.hold is not None else ""}

    def must_write(self, what: str) -> None:
        """Raise when the console may only look, or another one is at an experiment on this host."""
        from console.journal.holding import holder, under_way

        if self.readonly:
            raise ReadOnlyError(f"{what}: refused, the console was started with --readonly")
        host = self.link.host.name
        if (pid := holder(host)) not in (None, os.getpid()):
            raise under_way(host, pid or 0, what)

    def must_profile(self) -> Profile:
        """Return the profile, or say that one is needed."""
        if self.profile is None:
            raise UsageError("no profile", hint="name one with --profile NAME-or-FILE (tokwatt profile list)")
        return self.profile

    @property
    def operator(self) -> str:
        """Login here and there, for journal and lock: `ada@laptop as root`."""
        try:
            here = getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            here = str(os.getuid())
        there = self.link.facts.user
        return f"{here}@{os.uname().nodename} as {there}"

"""The exception tree: every fault an operator can meet, with a title, a detail and a hint.

ConsoleError                exit 1   something failed
├── UsageError              exit 2   wrong command line
│   └── FormatError         exit 2   a profile, patch or other file is wrong (file, key, line)
├── RefusedError            exit 3   we will not do this
│   ├── ReadOnlyError               --readonly
│   ├── DriftError                  the file is not as it was last seen
│   ├── ConflictError               the text is not found, or found twice
│   ├── FuzzError                   only with fuzz
│   └── NotApplicableError          another version, engine or GPU
├── ConnectError            exit 4   host unreachable
│   ├── LoginRefusedError           no key or password was accepted
│   ├── HostKeyUnknownError         first contact: fingerprint to be confirmed
│   ├── HostKeyChangedError         the key is another one than known_hosts says
│   └── LinkLostError               the connection went away during a call
├── InconclusiveError       exit 5   not enough evidence
├── AlreadySoError          exit 6   nothing to change
└── RemoteError             exit 1   the host answered with a fault (kind, path)
    └── DeadlineError               the host did not answer in time
"""

from __future__ import annotations

from typing import ClassVar


class ConsoleError(Exception):
    """A fault to be told to the operator: what, why, and what to do.

    Args:
        title: One sentence: what happened, naming the file, key, line or host.
        detail: Why, or the evidence. May be empty.
        hint: What to do next. May be empty.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, title: str, detail: str = "", hint: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.detail = detail
        self.hint = hint

    def one_line(self) -> str:
        """Return title, detail and hint as one line for a shell's stderr."""
        parts = [self.title, self.detail, self.hint]
        return " · ".join(" ".join(part.split()) for part in parts if part)


class UsageError(ConsoleError):
    """The command line, a key or an argument is wrong."""

    exit_code = 2


class FormatError(UsageError):
    """A file is not what it should be; the title starts with `file:line: key`."""


class RefusedError(ConsoleError):
    """The operation was understood and will not be done."""

    exit_code = 3


class ReadOnlyError(RefusedError):
    """The console was started with --readonly."""


class DriftError(RefusedError):
    """A file is not as it was last seen."""


class ConflictError(RefusedError):
    """The text of an edit is not found, found twice, or overlapped by another edit."""


class FuzzError(ConflictError):
    """A hunk matches only when some of its context is ignored."""


class NotApplicableError(RefusedError):
    """The patch is written for another version, engine or GPU."""


class ConnectError(ConsoleError):
    """The host cannot be reached."""

    exit_code = 4


class LoginRefusedError(ConnectError):
    """The host answered and did not let us in."""


class HostKeyUnknownError(ConnectError):
    """The host's key is in no known_hosts file; it has to be confirmed.

    Args:
        host: Host name as it would stand in known_hosts.
        port: TCP port.
        fingerprint: `SHA256:…` of the key that was offered.
        key_type: Algorithm name of that key.
        line: The known_hosts line that accepting would append.
    """

    def __init__(self, host: str, port: int, fingerprint: str, key_type: str, line: str) -> None:
        super().__init__(
            f"{host}:{port} is not known yet",
            f"its {key_type} key is {fingerprint}",
            f"compare it with the host's own, then --accept-new-host-key {fingerprint}",
        )
        self.host = host
        self.port = port
        self.fingerprint = fingerprint
        self.key_type = key_type
        self.line = line
        self.known_hosts = ""
        """File that accepting would append to; empty lets the login's own stand."""


class HostKeyChangedError(ConnectError):
    """The host's key differs from the one in known_hosts, or is revoked there."""


class LinkLostError(ConnectError):
    """The connection ended while the host was working for us."""


class InconclusiveError(ConsoleError):
    """There is not enough evidence for a verdict."""

    exit_code = 5


class AlreadySoError(ConsoleError):
    """Everything is as asked already; nothing was changed."""

    exit_code = 6


class RemoteError(ConsoleError):
    """The host answered an operation with a fault.

    Args:
        kind: Short name of the fault: an errno name in lower case (`enoent`, `eacces`,
            `erofs`, `enospc`, …) or one that the operation documents (`changed`, `locked`, …).
        facts: What else the host said (path, hashes, …).
    """

    def __init__(
        self,
        title: str,
        detail: str = "",
        hint: str = "",
        *,
        kind: str = "failed",
        facts: dict[str, object] | None = None,
    ) -> None:
        super().__init__(title, detail, hint)
        self.kind = kind
        self.facts = facts or {}


class DeadlineError(RemoteError):
    """The host did not answer in the time given; the work there was told to stop."""

"""One request in progress on the host, and the faults that its answer can carry."""

from __future__ import annotations

import errno
import threading
from typing import Any, Callable, Dict, Tuple

Result = Tuple[Dict[str, Any], bytes]
"""What an operation returns: facts for the header, bytes for the body."""

Operation = Callable[["Call"], Result]


class Fault(Exception):
    """An operation's refusal or failure, as it travels in a reply.

    `kind` is an errno name in lower case or a word that the operation documents.
    """

    def __init__(self, kind: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.facts = facts


def fault_of(error: OSError) -> Fault:
    """Return the fault that tells an `OSError`."""
    kind = errno.errorcode.get(error.errno or 0, "EIO").lower()
    path = error.filename
    if isinstance(path, bytes):
        path = path.decode("utf-8", "replace")
    return Fault(kind, error.strerror or str(error), path=path if isinstance(path, str) else None)


class Call:
    """Arguments and body of one request, and the way to answer in parts.

    A long operation looks at `cancelled` between steps. What must not be cut in half (a
    transaction) holds `critical`: the outpost ends only when no call holds it.
    """

    critical = threading.RLock()

    def __init__(self, args: dict[str, Any], body: bytes, send: Callable[[dict[str, Any], bytes], None]) -> None:
        self.args = args
        self.body = body
        self.cancelled = threading.Event()
        self.window: threading.Semaphore | None = None
        """Parts that may be sent before the reader has taken earlier ones; `None` is no limit."""
        self._send = send
        self._stops: list[Callable[[], None]] = []

    def emit(self, result: dict[str, Any], body: bytes = b"") -> None:
        """Send one part of a streamed answer; waits while the reader is far behind."""
        while self.window is not None and not self.window.acquire(timeout=0.5):
            if self.cancelled.is_set():
                return
        self._send(result, body)

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Have `stop` called when the request is cancelled (to end a child process)."""
        self._stops.append(stop)
        if self.cancelled.is_set():
            stop()

    def cancel(self) -> None:
        """Tell the operation that nobody waits for it any more."""
        self.cancelled.set()
        for stop in list(self._stops):
            stop()

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string argument."""
        value = self.args.get(name, default)
        if not isinstance(value, str):
            raise Fault("usage", "argument %r must be a string" % name)
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """Return an integer argument."""
        value = self.args.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Fault("usage", "argument %r must be an integer" % name)
        return value

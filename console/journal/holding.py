"""Which console of this machine is at a host's experiments: one, and its hold ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from console.errors import RefusedError
from console.journal.book import default_path

PATIENCE_S = 0.5
"""A look at who holds takes the lock for an instant; longer than that it is a holder."""


@contextlib.contextmanager
def held(host: str, *, measuring: bool = False) -> Iterator[None]:
    """Hold a host's experiments.

    Args:
        host: Its name.
        measuring: Keep others from measuring only.

    Raises:
        RefusedError: Another console does.
    """
    path = _path(host, measuring)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    said = under_way(host, _written(path), kind="a measurement" if measuring else "an experiment")
                    raise said from error
            time.sleep(0.01)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def holder(host: str) -> int | None:
    """Return the process of the console that is at an experiment on a host; 0 where it is not told."""
    try:
        with _path(host).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _written(_path(host))
    except OSError:  # no such file: nobody ever did
        return None
    return None


def console_id() -> str:
    """Return what tells this machine's consoles, those that share its journal, from all others."""
    return _id_in(default_path().parent / "console-id")


@cache  # it goes with every change of a host
def _id_in(path: Path) -> str:
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), tempfile.NamedTemporaryFile("w", dir=path.parent) as new:
            new.write(os.urandom(8).hex())
            new.flush()
            os.link(new.name, path)  # whole, or another console's that was first
    try:
        return path.read_text().strip()
    except OSError:
        return hashlib.sha256(f"{os.uname().nodename} {os.getuid()} {path}".encode()).hexdigest()[:16]


def under_way(host: str, pid: int, what: str = "experiment", *, kind: str = "an experiment") -> RefusedError:
    """Return the refusal of what would disturb the experiment that a console is at."""
    return RefusedError(
        f"{what}: {kind} is under way on {host}, in the console with pid {pid or 'unknown'}",
        "two at one server would spoil each other's numbers",
        "wait, or stop it there first (t on its screen, ctrl+c in a shell)",
    )


def _path(host: str, measuring: bool = False) -> Path:
    name = f"{hashlib.sha256(host.encode()).hexdigest()[:16]}{'.measuring' * measuring}.lock"
    return default_path().parent / "holds" / name


def _written(path: Path) -> int:
    text = path.read_text().strip()
    return int(text) if text.isdigit() else 0

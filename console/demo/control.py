"""Starting the pretend host, joining the one that runs, ending it with everything on it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from console.demo import layout, processes
from console.demo.keys import Keys, keys_in
from console.errors import ConsoleError

if TYPE_CHECKING:
    from console.demo.server import DemoServer

STARTS_WITHIN_S = 30.0


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: of two starters one starts and the other joins."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def demo_folder() -> Path:
    """Return where the demo host lives on this machine."""
    named = os.environ.get("TOKWATT_DEMO_HOME")
    if named:
        return Path(named).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state).absolute() / "tokwatt-demo"


@dataclass(frozen=True, slots=True)
class Door:
    """How to log in to a running demo host."""

    port: int
    key_file: str
    known_hosts: str
    address: str = "127.0.0.1"
    user: str = "demo"


def _door(keys: Keys, port: int) -> Door:
    return Door(port, str(keys.user_key), str(keys.known_hosts))


def running(folder: Path) -> tuple[processes.Proc, int] | None:
    """Return the host's process and port; `None` unless the very process of the run file is alive."""
    try:
        said = json.loads((folder / "host.json").read_text())
        found = processes.Proc(int(said["pid"]), int(said["start_ticks"]))
        port = int(said["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (found, port) if found.alive else None


def join(folder: Path | None = None) -> Door:
    """Return the door of the running host, started now when none runs.

    Raises:
        ConsoleError: It does not come up; the detail is what it said.
    """
    folder = folder or demo_folder()
    if not Path("/proc/self/stat").is_file():
        raise ConsoleError("the demo host needs Linux", "it looks at processes through /proc")
    with _locked(folder):
        keys = keys_in(folder)
        found = running(folder)
        port = found[1] if found else _start(folder)
        return _door(keys, port)


def _start(folder: Path) -> int:
    env = {name: value for name, value in os.environ.items() if name != layout.MARKER}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with (folder / "host.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "console.demo.host", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=env,
            start_new_session=True,
        )
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        found = running(folder)
        if found is not None and found[0].pid == process.pid:
            process.returncode = 0  # it is not ours to wait for any more
            return found[1]
        time.sleep(0.02)
    said = (folder / "host.log").read_text("utf-8", "replace").strip().splitlines()
    process.kill()
    process.wait()
    raise ConsoleError("the demo host did not start", said[-1] if said else "", f"see {folder / 'host.log'}")


def stop(folder: Path | None = None) -> bool:
    """End the host and every process on it; return whether there was anything to end.

    Its files go, so that the next start is a fresh host; its keys stay.
    """
    folder = folder or demo_folder()
    if not (folder / "id").is_file():
        return False
    with _locked(folder):
        keys = keys_in(folder)
        found = running(folder)
        ended = processes.end_marked(keys.marker)
        for engine in processes.engines(folder):  # one whose environment was emptied on the way
            engine.kill()
        if found is not None:
            _end(found[0])
        (folder / "host.json").unlink(missing_ok=True)
        layout.clear(folder)
        return bool(found or ended)


def _end(host: processes.Proc) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(host.pid, signal.SIGTERM)
    until = time.monotonic() + 5
    while host.alive and time.monotonic() < until:
        time.sleep(0.02)
    host.kill()


@contextlib.asynccontextmanager
async def demo_server(folder: Path) -> AsyncIterator[DemoServer]:
    """Be the host in this process, for tests: its server has the faults as methods.

    Leaving ends every process that was started on it.
    """
    from console.demo.server import DemoServer

    keys = await asyncio.to_thread(keys_in, folder)
    await asyncio.to_thread(layout.build, folder)
    server = DemoServer(folder, keys)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        await asyncio.to_thread(processes.end_marked, keys.marker)


@contextlib.asynccontextmanager
async def demo_host(folder: Path) -> AsyncIterator[Door]:
    """Be the host in this process and yield how to log in."""
    async with demo_server(folder) as server:
        yield _door(server.keys, server.port)

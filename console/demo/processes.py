"""Processes of the pretend host: found by the marker in their environment, ended by pid and start time."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from console.demo.layout import MARKER


@dataclass(frozen=True, slots=True)
class Proc:
    """A process that cannot be mistaken for another."""

    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.start_ticks != 0 and start_ticks(self.pid) == self.start_ticks

    def kill(self) -> None:
        """Kill it, if it is still the same."""
        if self.alive:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


def start_ticks(pid: int) -> int:
    """Return a process's start time in clock ticks, 0 when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def proc(pid: int) -> Proc:
    """Return a process as it is now."""
    return Proc(pid, start_ticks(pid))


def engines(folder: Path) -> list[Proc]:
    """Return the living engines of a demo folder, as their state files say."""
    found = []
    for path in sorted((folder / "machine").glob("engine-*.json")):
        try:
            said = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        one = Proc(int(said["pid"]), int(said["start_ticks"]))
        if one.alive:
            found.append(one)
    return found


def marked(marker: str) -> list[Proc]:
    """Return every process that a login on this host started, directly or not."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        one = proc(int(entry.name))
        try:
            environ = Path(f"/proc/{entry.name}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environ.split(b"\0") and one.alive:
            found.append(one)
    return found


def end_marked(marker: str, within_s: float = 5.0) -> int:
    """End every process of the host and return how many there were; waits until they are gone."""
    ended: set[Proc] = set()
    until = time.monotonic() + within_s
    while living := marked(marker):
        for one in living:
            one.kill()
        ended.update(living)
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return len(ended)

"""Where the output of a process goes, and how it is read: a file, a container's log, the journal; else why not.

What only a program tells (`docker logs`, `journalctl`) is kept in a file without a name for as long as the
outpost lives, so that it is read and followed as any other file.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from typing import Any, BinaryIO

from . import processes
from .calls import Fault

CONTAINER = re.compile(r"(docker|libpod|cri-containerd|kubepods)[^\n]*?([0-9a-f]{64})")
UNIT = re.compile(r"/([^/\n]+\.service)(?=/|$)", re.MULTILINE)
RUNTIMES = {"docker": "docker", "libpod": "podman", "cri-containerd": "crictl", "kubepods": "crictl"}
ADDRESS = re.compile(r"(docker|podman|crictl|journal|journal-user):([^@/]+)(?:@(\d+))?")
LINES_TAKEN = 200000
"""How much of a container's or a unit's past is asked for."""

QUIET_S = 0.4
CATCH_UP_S = 15.0

KEEP = '"$@" & child=$!; cat >/dev/null; kill "$child" 2>/dev/null'
"""Ends a program when our end of its standard input closes, however we end."""


def place_of(pid: int, entries: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return where a process writes: `log` to be followed, empty where there is none; `output` and `output_why`."""
    cgroup = "\n".join(processes.lines_of("/proc/%d/cgroup" % pid))
    container, runtime, unit, user_unit = belongs_to(cgroup)
    since = int(entries[pid]["started_at"] or 0)
    told = {"container": container, "unit": unit, "log": "", "output": "hidden", "output_why": ""}
    links = [processes.link_of("/proc/%d/fd/%d" % (pid, number)) for number in (1, 2)]
    for number, link in enumerate(links, 1):
        if link.startswith("/") and not link.startswith("/dev/"):
            return {**told, **_file(pid, number, link)}
    link = next((one for one in links if one and one != "/dev/null"), links[0])
    if container and (not link or _is_first_output(pid, container, links, entries)):
        return {**told, "log": "%s:%s@%d" % (runtime, container, since), "output": "container"}
    if unit and (not link or link.startswith("socket:")):
        kind = "journal-user" if user_unit else "journal"
        return {**told, "log": "%s:%s@%d" % (kind, unit, since), "output": "journal"}
    if not link:
        return {**told, "output_why": "its open files can be seen by its own login and root only"}
    if link == "/dev/null":
        return {**told, "output": "nowhere", "output_why": "its output is thrown away (/dev/null)"}
    if link.startswith("/dev/"):
        return {
            **told,
            "output": "terminal",
            "output_why": "it writes to the terminal %s, where nobody else can read" % link,
        }
    if link.startswith("pipe:"):
        return {**told, **_pipe(link, entries)}
    return {**told, "output": "socket", "output_why": "it writes to a socket of whoever started it"}


def belongs_to(cgroup: str) -> tuple[str, str, str, bool]:
    """Return container, its runtime, systemd unit, and whether that is a login's own, from `/proc/PID/cgroup`."""
    container = CONTAINER.search(cgroup)
    units = [unit for unit in UNIT.findall(cgroup) if not unit.startswith("user@")]
    runtime = RUNTIMES[container[1]] if container else ""
    return (container[2] if container else ""), runtime, (units[-1] if units else ""), "/user@" in cgroup


def _file(pid: int, number: int, link: str) -> dict[str, Any]:
    open_file = "/proc/%d/fd/%d" % (pid, number)
    try:
        there = os.stat(open_file)
    except OSError:
        return {"log": link, "output": "file", "output_why": ""}
    if not stat.S_ISREG(there.st_mode):
        return {"output": "fifo", "output_why": "it writes to %s, which is no file" % link}
    for path in (link, "/proc/%d/root%s" % (pid, link)):
        try:
            here = os.stat(path)
        except OSError:
            continue
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            return {"log": path, "output": "file", "output_why": ""}
    name = link[: -len(" (deleted)")] if link.endswith(" (deleted)") else link
    why = "%s was deleted while it is written; it can be read until the process ends" % name
    return {"log": open_file, "output": "deleted", "output_why": why}


def _is_first_output(pid: int, container: str, links: list[str], entries: dict[int, dict[str, Any]]) -> bool:
    """Whether a process writes where its container's first process does: only that is in the container's log."""
    first, parent = pid, entries[pid]["ppid"]
    while parent in entries and container in "\n".join(processes.lines_of("/proc/%d/cgroup" % parent)):
        first, parent = parent, entries[parent]["ppid"]
    theirs = [processes.link_of("/proc/%d/fd/%d" % (first, number)) for number in (1, 2)]
    return any(link and link in theirs for link in links)


def _pipe(link: str, entries: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return what reads a pipe; behind `tee` the file that it writes."""
    for pid, entry in entries.items():
        if processes.link_of("/proc/%d/fd/0" % pid) != link:
            continue
        name = os.path.basename(entry["argv"][0]) if entry["argv"] else ""
        if name == "tee":
            for number in range(3, 16):
                target = processes.link_of("/proc/%d/fd/%d" % (pid, number))
                if target.startswith("/") and not target.startswith("/dev/"):
                    return _file(pid, number, target)
        why = "it writes to a pipe that pid %d reads: %s" % (pid, entry["title"][:120])
        return {"output": "pipe", "output_why": why}
    return {"output": "pipe", "output_why": "it writes to a pipe of whoever started it"}


class Spool:
    """The output of a program, kept in a file without a name."""

    def __init__(self, argv: list[str]) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile()
        self.path = "/proc/self/fd/%d" % self._file.fileno()
        self._child = subprocess.Popen(
            ["/bin/sh", "-c", KEEP, "tokwatt-log", *argv],
            stdin=subprocess.PIPE,
            stdout=self._file,
            stderr=self._file,
            start_new_session=True,
        )

    def size(self) -> int:
        """Return how much it has said."""
        return os.fstat(self._file.fileno()).st_size

    def catch_up(self, least: int = 0) -> None:
        """Wait until the past has come: so many bytes, or silence."""
        end, quiet, seen = time.monotonic() + CATCH_UP_S, time.monotonic(), -1
        while time.monotonic() < end:
            size = self.size()
            if least and size >= least:
                return
            if size != seen:
                seen, quiet = size, time.monotonic()
            elif (size and time.monotonic() - quiet >= QUIET_S) or time.monotonic() - quiet >= 3 * QUIET_S:
                return
            time.sleep(0.05)


_spools: dict[str, Spool] = {}
_lock = threading.Lock()


def spool_of(address: str) -> Spool | None:
    """Return the spool of an address such as `docker:ID@SINCE`; `None` for the path of a file."""
    told = ADDRESS.fullmatch(address)
    if told is None:
        return None
    with _lock:
        spool = _spools.get(address)
        if spool is None:
            argv = command(told[1], told[2], told[3] or "")
            if shutil.which(argv[0]) is None:
                raise Fault("enoent", "%s is not on this host's PATH" % argv[0], path=address)
            spool = _spools[address] = Spool(argv)
    return spool


def command(kind: str, name: str, since: str) -> list[str]:
    """Return the argument list that tells a log from its past on."""
    if kind.startswith("journal"):
        unit = "--user-unit=" if kind == "journal-user" else "--unit="
        asked = [
            "journalctl",
            unit + name,
            "--output=cat",
            "--all",
            "--no-pager",
            "--follow",
            "--lines=%d" % LINES_TAKEN,
        ]
        return [*asked, *(["--since=@" + since] if since else [])]
    asked = [kind, "logs", "--follow", "--tail", str(LINES_TAKEN)]
    return [*asked, *(["--since", since] if since else []), name]


def readable(path: str) -> str:
    """Return the path that is opened for a log, its past there."""
    spool = spool_of(path)
    if spool is None:
        return path
    spool.catch_up()
    return spool.path


def size_of(log: str) -> dict[str, Any]:
    """Return log, size, inode and time of the last change; of a spool only when it is open."""
    found = {"log": log, "log_size": 0, "log_inode": 0, "log_mtime": 0.0, "time": time.time()}
    spool = _spools.get(log)
    try:
        status = os.stat(spool.path if spool else log) if log else None
    except OSError:
        status = None
    if status is not None:
        found.update(log_size=status.st_size, log_inode=status.st_ino, log_mtime=status.st_mtime)
    return found

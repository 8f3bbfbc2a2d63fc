"""The host's own side, from /proc once a second: cores, load, memory, NUMA, and the processes that hold GPUs."""

from __future__ import annotations

import os
import pwd
import threading
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from .lines import say

PERIOD_S = 1.0

FAMILY_S = 10.0
"""Every process is looked at so seldom: a thousand of them cost milliseconds."""

MOST = 64
TITLE = 200


class Host:
    """Watches /proc in a thread of its own; the readers tell it which pids hold a GPU."""

    def __init__(self) -> None:
        self._pids: Set[int] = set()
        self._family: Set[int] = set()
        self._looked = 0.0
        self._cores: List[Tuple[int, int]] = []
        self._spent: Dict[Tuple[int, int], Tuple[float, int]] = {}
        self._devices: Dict[Tuple[int, int], Optional[str]] = {}
        self._tick = float(os.sysconf("SC_CLK_TCK"))
        self._page_mib = os.sysconf("SC_PAGE_SIZE") / 1048576.0
        self._numa = _numa()

    def start(self) -> None:
        """Begin; a host without /proc says so once."""
        threading.Thread(target=self._watch, daemon=True, name="host").start()

    def holders(self, pids: Set[int]) -> None:
        """Take the pids that hold memory of a GPU now."""
        if pids - self._pids:
            self._looked = 0.0
        self._pids = set(pids)

    def _watch(self) -> None:
        while True:
            began = time.monotonic()
            try:
                say("host", **self.read(began))
            except (OSError, ValueError, IndexError) as error:
                say("host", reason="/proc: %s" % error)
                return
            time.sleep(max(0.2, PERIOD_S - (time.monotonic() - began)))

    def read(self, now: float) -> Dict[str, Any]:
        """Return everything once; shares of time are those since the last reading."""
        if now - self._looked >= FAMILY_S or not self._looked:
            self._looked = now
            self._family = self._relatives()
        found: List[Dict[str, Any]] = []
        living: Set[Tuple[int, int]] = set()
        for pid in sorted(self._pids | self._family)[:MOST]:
            one = self._process(pid, now, living)
            if one is not None:
                found.append(one)
        for gone in set(self._spent) - living:
            self._spent.pop(gone, None)
            self._devices.pop(gone, None)
        memory = _meminfo()
        with open("/proc/loadavg") as file:
            load = float(file.read().split()[0])
        return {
            "cores": self._busy(),
            "load_1m": load,
            "memory_total_mib": memory.get("MemTotal"),
            "memory_available_mib": memory.get("MemAvailable"),
            "numa": self._numa,
            "processes": found,
        }

    def _busy(self) -> List[int]:
        rows: List[Tuple[int, int]] = []
        with open("/proc/stat") as file:
            for line in file:
                if not line.startswith("cpu"):
                    break
                if line[3] == " ":
                    continue
                ticks = [int(word) for word in line.split()[1:9]]
                rows.append((sum(ticks), ticks[3] + ticks[4]))
        before, self._cores = self._cores, rows
        if len(before) != len(rows):
            return []
        shares = []
        for (total, idle), (total_before, idle_before) in zip(rows, before):  # noqa: B905 - as long as each other; `strict` is newer than 3.9
            span = total - total_before
            shares.append(0 if span <= 0 else round(100 * (span - (idle - idle_before)) / span))
        return shares

    def _relatives(self) -> Set[int]:
        """Return every process in a session of a holder: launcher, front, detokenizer."""
        sessions = {stat[0] for pid in self._pids for stat in [_stat(pid)] if stat is not None and stat[0] > 1}
        if not sessions:
            return set()
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit():
                stat = _stat(int(name))
                if stat is not None and stat[0] in sessions:
                    found.add(int(name))
        return found

    def _process(self, pid: int, now: float, living: Set[Tuple[int, int]]) -> Optional[Dict[str, Any]]:
        stat = _stat(pid)
        if stat is None:
            return None
        session, ticks, start, pages = stat
        key = (pid, start)
        living.add(key)
        before = self._spent.get(key)
        self._spent[key] = (now, ticks)
        share = None
        if before is not None and now > before[0]:
            share = round(100 * (ticks - before[1]) / self._tick / (now - before[0]), 1)
        if key not in self._devices:
            self._devices[key] = _visible_devices(pid)
        return {
            "pid": pid,
            "title": _title(pid),
            "cpu_pct": share,
            "session": session,
            "start_ticks": start,
            "rss_mib": round(pages * self._page_mib, 1),
            "user": _user(pid),
            "devices": self._devices[key],
        }


def _stat(pid: int) -> Optional[Tuple[int, int, int, int]]:
    """Return session, ticks spent, start time and pages in memory."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return int(words[3]), int(words[11]) + int(words[12]), int(words[19]), int(words[21])
    except (OSError, ValueError, IndexError):
        return None


def _title(pid: int) -> str:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            text = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
        if not text:
            with open("/proc/%d/comm" % pid, "rb") as file:
                text = file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return _without_secrets(text)[:TITLE]


def _without_secrets(text: str) -> str:
    """Return a command line without the values of keys: other people's processes are shown, too."""
    words = text.split(" ")
    for place, word in enumerate(words):
        name = word.lstrip("-").replace("-", "_").lower().partition("=")[0]
        if word.startswith("-") and name.endswith(("key", "token", "password", "secret")):
            if "=" in word:
                words[place] = word.partition("=")[0] + "=***"
            elif place + 1 < len(words):
                words[place + 1] = "***"
    return " ".join(words)


def _user(pid: int) -> str:
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _visible_devices(pid: int) -> Optional[str]:
    """Return that one variable of a process; the rest of its environment is nobody's business."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            for item in file.read().split(b"\0"):
                if item.startswith(b"CUDA_VISIBLE_DEVICES="):
                    return item.partition(b"=")[2].decode("utf-8", "replace")[:TITLE]
    except OSError:
        return None
    return None


def _meminfo() -> Dict[str, float]:
    found: Dict[str, float] = {}
    with open("/proc/meminfo") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(rest.split()[0]) / 1024.0
    return found


def _numa() -> Dict[str, str]:
    found: Dict[str, str] = {}
    try:
        for name in os.listdir("/sys/devices/system/node"):
            if name.startswith("node") and name[4:].isdigit():
                with open("/sys/devices/system/node/%s/cpulist" % name) as file:
                    found[name[4:]] = file.read().strip()
    except OSError:
        return found
    return found


def numa_node(bus_id: str) -> Optional[int]:
    """Return the NUMA node of a PCI device, `None` where the kernel tells none."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        with open("/sys/bus/pci/devices/%s:%s/numa_node" % (domain[-4:], rest)) as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None

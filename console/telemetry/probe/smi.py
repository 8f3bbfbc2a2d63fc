"""`nvidia-smi` as the second source: one child streaming CSV, its rows passed on a tick at a time."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from .host import Host
from .lines import say

FIELDS = (
    "timestamp,index,uuid,name,pci.bus_id,power.draw.instant,power.draw.average,power.draw,power.limit,"
    "power.default_limit,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,clocks.sm,"
    "clocks.mem,clocks.max.sm,clocks_throttle_reasons.active,pcie.link.gen.current,pcie.link.width.current,"
    "pcie.link.gen.max,pcie.link.width.max,compute_cap,persistence_mode,ecc.mode.current,mig.mode.current"
).split(",")
"""Asked for at first; names that this driver does not know are left out one by one."""

QUIET_S = 0.06
"""Silence after which the rows of one tick are complete."""

APPS_S = 5.0
"""Between two looks at who holds a GPU: each is a start of nvidia-smi."""

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
_LOST = re.compile(r"device handle for GPU\s?([0-9A-Fa-f:.]+)")


class Smi:
    """The child and what is known of the GPUs that it showed."""

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms
        self._fields = list(FIELDS)
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._links: Optional[subprocess.Popen[bytes]] = None
        self._seen: Dict[str, str] = {}
        self._lost: Set[str] = set()
        self._host = Host()
        self._beside = False

    def end(self) -> None:
        """End the children by their pids; they would otherwise go on until their next row."""
        for child in (self._child, self._links):
            if child is not None and child.poll() is None:
                try:
                    os.kill(child.pid, signal.SIGKILL)
                except OSError:
                    pass

    def stream(self) -> None:
        """Run children until one cannot be started at all; each failure is said and waited out."""
        tries = 0
        self._host.start()
        while True:
            began = time.monotonic()
            reason, retry_now = self._one_child()
            if retry_now:
                continue
            tries = 0 if time.monotonic() - began > 20 else tries + 1
            say("unavailable", source="nvidia-smi", reason=reason, lost=sorted(self._lost))
            time.sleep(BACKOFF_S[min(max(tries - 1, 0), len(BACKOFF_S) - 1)])

    def _one_child(self) -> Tuple[str, bool]:
        """Return why the child ended, and whether another query may do better at once."""
        argv = ["nvidia-smi", "--query-gpu=" + ",".join(self._fields), "--format=csv,noheader,nounits"]
        healthy = [uuid for bus, uuid in self._seen.items() if not self._is_lost(bus)]
        if self._lost and healthy:
            argv.append("--id=" + ",".join(healthy))
        try:
            self._child = subprocess.Popen(
                [*argv, "-lms", str(self._period_ms)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, LC_ALL="C"),
            )
        except OSError as error:
            return "nvidia-smi: %s" % (error.strerror or error), False
        lines: queue.Queue[Optional[str]] = queue.Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()
        other = self._pass_on(lines)
        status = self._child.wait()
        text = "\n".join(other)
        bad = _BAD_FIELD.search(text)
        if bad and bad.group(1) in self._fields:
            self._fields.remove(bad.group(1))
            return "", True
        lost = _LOST.search(text)
        if lost:
            known = len(self._lost)
            self._lost.add(lost.group(1).rstrip(".:"))
            if len(self._lost) > known and self._seen:
                say("unavailable", source="nvidia-smi", reason=text, lost=sorted(self._lost))
                return "", True
        return (text or "nvidia-smi ended with status %s and said nothing" % status), False

    def _watch_links(self) -> None:
        """Pass on what crosses the links: `--query-gpu` has no field for it, `dmon` has."""
        try:
            self._links = subprocess.Popen(
                ["nvidia-smi", "dmon", "-s", "t", "-d", "1"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(os.environ, LC_ALL="C"),
            )
        except OSError:
            return
        assert self._links.stdout is not None
        rows: Dict[int, List[Optional[float]]] = {}
        columns: List[str] = []
        for raw in self._links.stdout:
            words = raw.decode("ascii", "replace").split()
            if words[:2] == ["#", "gpu"]:
                columns = words[2:]
            elif words and words[0].isdigit() and "rxpci" in columns and "txpci" in columns:
                index = int(words[0])
                if index in rows:  # the next second began
                    say("links", gpus=rows)
                    rows = {}
                cells = dict(zip(columns, words[1:]))  # noqa: B905 - `strict` is newer than 3.9
                rows[index] = [_number(cells.get("rxpci")), _number(cells.get("txpci"))]
        self._links.wait()

    def _watch_apps(self) -> None:
        """Pass on who holds memory of which GPU, for as long as nvidia-smi tells."""
        argv = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"]
        while True:
            try:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=30, check=False)
            except (OSError, subprocess.SubprocessError):
                return
            held: Dict[str, List[List[Any]]] = {uuid: [] for uuid in self._seen.values()}
            for line in done.stdout.decode("utf-8", "replace").splitlines():
                cells = [cell.strip() for cell in line.split(",")]
                if len(cells) == 3 and cells[1].isdigit():
                    held.setdefault(cells[0], []).append([int(cells[1]), _number(cells[2])])
            if done.returncode == 0:
                self._host.holders({pid for each in held.values() for pid, _ in each})
                say("apps", held=held)
            time.sleep(APPS_S)

    def _is_lost(self, bus: str) -> bool:
        return any(bus.lower().endswith(lost.lower()) for lost in self._lost)

    def _read(self, lines: queue.Queue[Optional[str]]) -> None:
        assert self._child is not None and self._child.stdout is not None
        for raw in self._child.stdout:
            lines.put(raw.decode("utf-8", "replace").rstrip("\r\n"))
        lines.put(None)

    def _pass_on(self, lines: queue.Queue[Optional[str]]) -> List[str]:
        """Say the rows of each tick; return the last lines that were none."""
        other: List[str] = []
        tick: List[str] = []
        last = -1
        while True:
            try:
                line = lines.get(timeout=QUIET_S if tick else None)
            except queue.Empty:
                line, last = "", -1
                self._say(tick)
                tick = []
                continue
            if line is None:
                self._say(tick)
                return other[-20:]
            index = self._index(line)
            if index is None:
                if line.strip():
                    other.append(line)
                continue
            if index <= last:
                self._say(tick)
                tick = []
            tick.append(line)
            last = index

    def _say(self, tick: List[str]) -> None:
        if tick:
            if not self._beside:  # a nvidia-smi that does not answer is not asked for more
                self._beside = True
                threading.Thread(target=self._watch_links, daemon=True, name="links").start()
                threading.Thread(target=self._watch_apps, daemon=True, name="apps").start()
            say("smi", fields=self._fields, lines=tick, lost=sorted(self._lost))

    def _index(self, line: str) -> Optional[int]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(self._fields):
            return None
        try:
            index = int(cells[self._fields.index("index")])
        except ValueError:
            return None
        if "uuid" in self._fields and "pci.bus_id" in self._fields:
            self._seen[cells[self._fields.index("pci.bus_id")]] = cells[self._fields.index("uuid")]
        return index


def _number(text: Optional[str]) -> Optional[float]:
    try:
        return float(text or "")
    except ValueError:
        return None

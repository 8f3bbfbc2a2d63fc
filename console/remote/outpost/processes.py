"""The process table, signals by pid and start time, ports."""

from __future__ import annotations

import os
import pwd
import re
import signal as signals
import socket
import struct
import sys
import time
from typing import Any, Iterable, Iterator

from .calls import Call, Fault, Operation, Result

TITLE_LIMIT = 2000
ENVIRON_LIMIT = 1024 * 1024
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


def start_ticks(pid: int) -> int | None:
    """Return field 22 of `/proc/PID/stat`; `None` when there is no such process, or only its zombie."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in ("Z", "X") else None


def is_alive(pid: int, ticks: int) -> bool:
    """Return whether this very process still runs."""
    return start_ticks(pid) == ticks


def parent_of_zombie(pid: int, ticks: int) -> int | None:
    """Return the parent of a process that has ended and is not reaped yet; `None` when it is no such."""
    fields = _stat(pid)
    return int(fields[1]) if fields and fields[0] == "Z" and int(fields[19]) == ticks else None


def boot_id() -> str:
    """Return what tells one boot of the host from another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def table(pids: Iterable[int] | None = None) -> list[dict[str, Any]]:
    """Return every living process, or those of `pids`."""
    found = []
    for pid in pids if pids is not None else _all_pids():
        entry = _entry(pid)
        if entry is not None:
            found.append(entry)
    return found


def members(leader: int, ticks: int, session: int, mark: str = "", roots: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Return the processes of a run: those of its session, what its leader has started elsewhere, and
    those that carry its mark in their environment.

    A leader whose number lives under another start time belongs to somebody else: its number was
    used again, and nothing of that session is ours. Who used it may be gone, too, as a daemon's first
    process is: then a process of that session whose environment lacks the mark is somebody else's.

    Args:
        leader: Process that was started.
        ticks: Its start time.
        session: Session of its own; 0 where it had none, as a server that was adopted.
        mark: Value of `TOKWATT_MARK` at launch.
        roots: More processes whose descendants are the run's: a container's first one.
    """
    now = start_ticks(leader)
    foreign = now is not None and now != ticks
    parents, ours, later = {}, set(roots), []
    if foreign and not ours:
        return []
    if now == ticks:
        ours.add(leader)
    for pid in _all_pids():
        fields = _stat(pid)
        if fields and fields[0] not in ("Z", "X"):
            parents[pid] = int(fields[1])
            if int(fields[19]) >= ticks and not foreign:
                if session and int(fields[3]) == session and not (now is None and mark and _is_unmarked(pid, mark)):
                    ours.add(pid)
                later.append(pid)
    grow(ours, parents)
    if mark:
        ours |= {pid for pid in later if pid not in ours and _has_mark(pid, mark)}
        grow(ours, parents)
    return table(sorted(ours))


def grow(ours: set[int], parents: dict[int, int]) -> None:
    """Add the descendants of processes to them, by the parent of each."""
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in ours and pid not in ours}
        ours |= more
        grown = bool(more)


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return b"TOKWATT_MARK=%s\0" % mark.encode() in file.read(ENVIRON_LIMIT) + b"\0"
    except OSError:
        return False  # another login's


def _is_unmarked(pid: int, mark: str) -> bool:
    """Whether a process tells its environment, and the mark is not in it; a worker that set its title tells none."""
    words = words_of(pid, "environ")
    return bool(words) and _VARIABLE.match(words[0]) is not None and "TOKWATT_MARK=" + mark not in words


def listeners(port: int) -> list[dict[str, Any]]:
    """Return who listens on a TCP port, over IPv4 and IPv6, with the process where it can be seen."""
    return listeners_of([port])


def listeners_of(ports: Iterable[int]) -> list[dict[str, Any]]:
    """Return who listens on any of these TCP ports."""
    wanted, sockets = set(ports), {}
    for inode, entry in tcp_listeners().items():
        if entry["port"] in wanted:
            uid = entry.pop("uid")
            sockets[inode] = {**entry, "uid": uid, "user": user_name(uid), "pid": None, "title": ""}
    if sockets:
        for inode, pid in _socket_owners(set(sockets)).items():
            seen = _entry(pid)
            sockets[inode].update(pid=pid, title=seen["title"] if seen else "")
    return list(sockets.values())


def tcp_listeners(pid: int | None = None) -> dict[str, dict[str, Any]]:
    """Return the listening TCP sockets by inode, of our own network or of that of a process."""
    found: dict[str, dict[str, Any]] = {}
    for address, _, number, state, uid, inode in _tcp_sockets(pid):
        if state == "0A":
            found[inode] = {"address": address, "port": number, "uid": uid}
    return found


def connections_to(ports: Iterable[int], pid: int | None = None) -> list[dict[str, Any]]:
    """Return who is connected to these ports, with the process at the other end where that is on this host."""
    wanted, here = set(ports), {}
    found: list[dict[str, Any]] = []
    for address, remote, number, state, _, inode in _tcp_sockets(pid):
        if state == "01":
            here["%s:%d" % (_plain(address), number)] = inode
            if number in wanted:
                found.append({"port": number, "peer": _plain(remote), "pid": None, "title": ""})
    owners = _socket_owners({here[one["peer"]] for one in found if here.get(one["peer"], "0") != "0"})
    for one in found:
        owner = owners.get(here.get(one["peer"], ""))
        entry = _entry(owner) if owner is not None else None
        if entry is not None:
            one.update(pid=entry["pid"], title=entry["title"][:200])
    return found


def _plain(address: str) -> str:
    """Return an IPv4 address that a socket of IPv6 tells as such."""
    return address[7:] if address.startswith("::ffff:") else address


def _tcp_sockets(pid: int | None) -> Iterator[tuple[str, str, int, str, int, str]]:
    base = "/proc/%d/net" % pid if pid else "/proc/net"
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in lines_of("%s/%s" % (base, name))[1:]:
            fields = line.split()
            if len(fields) >= 10:
                address, _, number = fields[1].rpartition(":")
                there, _, there_number = fields[2].rpartition(":")
                remote = "%s:%d" % (_address(there, family), int(there_number, 16))
                yield _address(address, family), remote, int(number, 16), fields[3], int(fields[7]), fields[9]


def user_name(uid: int) -> str:
    """Return a login name, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def send(pid: int, ticks: int, number: int) -> bool:
    """Signal exactly this process; false when it is gone, `changed` when its number is another's."""
    if hasattr(os, "pidfd_open") and hasattr(signals, "pidfd_send_signal"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:
            return _send_plain(pid, ticks, number)  # a kernel before 5.3
        try:
            if _gone_or_other(pid, ticks):
                return False
            signals.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True
    return _send_plain(pid, ticks, number)


def _send_plain(pid: int, ticks: int, number: int) -> bool:
    if _gone_or_other(pid, ticks):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _gone_or_other(pid: int, ticks: int) -> bool:
    now = start_ticks(pid)
    if now is not None and now != ticks:
        raise Fault("changed", "pid %d is another process by now" % pid, pid=pid, start_ticks=now)
    return now is None


def _op_processes(call: Call) -> Result:
    if "session" in call.args:
        session = call.number("session")
        return {"processes": members(session, call.number("start_ticks"), session)}, b""
    pids = call.args.get("pids")
    return {"processes": table([int(pid) for pid in pids] if pids is not None else None)}, b""


def _op_alive(call: Call) -> Result:
    return {"alive": is_alive(call.number("pid"), call.number("start_ticks"))}, b""


def _op_signal(call: Call) -> Result:
    number = _signal_number(call.text("signal"))
    return {"sent": send(call.number("pid"), call.number("start_ticks"), number)}, b""


def _op_signal_session(call: Call) -> Result:
    """Signal every process of a run, looked up anew; also those named in `others` as [pid, start ticks].

    Arguments: `session` with `start_ticks`; `leader` where that is not the session's number; `mark`.
    """
    number = _signal_number(call.text("signal"))
    session = call.number("session")
    found = members(call.number("leader", session), call.number("start_ticks"), session, call.text("mark", ""))
    targets = [(entry["pid"], entry["start_ticks"]) for entry in found]
    targets += [(int(pid), int(ticks)) for pid, ticks in call.args.get("others", [])]
    sent, refused = [], []
    for pid, ticks in dict.fromkeys(targets):
        try:
            if send(pid, ticks, number):
                sent.append(pid)
        except Fault:
            continue  # that number is another process by now: ours is gone
        except PermissionError:
            refused.append(pid)
    return {"sent": sent, "refused": refused}, b""


def _op_ports(call: Call) -> Result:
    return {"listeners": listeners(call.number("port"))}, b""


def _signal_number(name: str) -> int:
    if name not in ("SIGTERM", "SIGINT", "SIGKILL", "SIGQUIT", "SIGHUP", "SIGUSR1"):
        raise Fault("usage", "signal %r is not one that is sent here" % name)
    return int(getattr(signals, name))


def _stat(pid: int) -> list[str] | None:
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            raw = file.read()
    except (OSError, ValueError):
        return None
    return raw[raw.rfind(b")") + 2 :].decode("ascii", "replace").split()


def _entry(pid: int) -> dict[str, Any] | None:
    fields = _stat(pid)
    if not fields or fields[0] in ("Z", "X"):
        return None
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            command = file.read(TITLE_LIMIT)
    except OSError:
        return None
    title = command.rstrip(b"\0 ").replace(b"\0", b" ").decode("utf-8", "replace")
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "group": int(fields[2]),
        "session": int(fields[3]),
        "start_ticks": int(fields[19]),
        "started_at": started_at(int(fields[19])),
        "rss_mib": int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1048576,
        "uid": uid,
        "user": user_name(uid),
        "title": title or _name(pid),
    }


def argv_of(pid: int) -> list[str]:
    """Return the words of a command line."""
    return words_of(pid, "cmdline")


def words_of(pid: int, name: str) -> list[str]:
    """Return the words of `cmdline` or `environ`; none where they cannot be read."""
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            raw = file.read(ENVIRON_LIMIT)
    except OSError:
        return []
    raw = raw.rstrip(b"\0 ") if name == "cmdline" else raw  # a title that was set is padded to the old length
    return [word.decode("utf-8", "replace") for word in raw.split(b"\0")] if raw else []


def link_of(path: str) -> str:
    """Return where a link leads; empty where that cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def started_at(ticks: int) -> Any:
    """Return the wall clock of a start time in ticks after boot; `None` where the clock cannot be read."""
    try:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError):
        return None


def _name(pid: int) -> str:
    lines = lines_of("/proc/%d/comm" % pid)
    return "[%s]" % lines[0] if lines else ""


def _all_pids() -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return []


def lines_of(path: str) -> list[str]:
    """Return the lines of a file of `/proc`; none where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _socket_owners(inodes: set[str]) -> dict[str, int]:
    wanted = {"socket:[%s]" % inode: inode for inode in inodes}
    owners: dict[str, int] = {}
    for pid in _all_pids():
        folder = "/proc/%d/fd" % pid
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                inode = wanted.get(os.readlink("%s/%s" % (folder, name)))
            except OSError:
                continue
            if inode is not None:
                owners.setdefault(inode, pid)
        if len(owners) == len(wanted):
            break
    return owners


def _address(text: str, family: int) -> str:
    raw = bytes.fromhex(text)
    order = "<" if sys.byteorder == "little" else ">"
    words = struct.unpack("%s%dI" % (order, len(raw) // 4), raw)
    return socket.inet_ntop(family, struct.pack(">%dI" % len(words), *words))


OPS: dict[str, Operation] = {
    "processes": _op_processes,
    "alive": _op_alive,
    "signal": _op_signal,
    "signal_session": _op_signal_session,
    "ports": _op_ports,
}

"""Inference servers that run on the host, whoever started them, and what is left of those whose launcher is gone."""

from __future__ import annotations

import os
import re
from typing import Any

from . import gpus, outputs, processes
from .calls import Call, Fault, Operation, Result

CONNECTIONS_SHOWN = 50
PYTHON = re.compile(r"(?:python|pypy)[\d.]*[a-z]?")
ADOPTERS = re.compile(
    r"(?:systemd|init|tini|dumb-init|docker-init|catatonit|s6-svscan|runsvdir|conmon|containerd-shim\S*)"
)
"""What the children of a process that died get for a parent."""

Table = dict[int, dict[str, Any]]


def what_runs(argv: list[str]) -> list[str]:
    """Return what a command line runs, in the spellings that patterns are matched against from their beginning.

    An interpreter and its options are taken off: `-m module …`, `script …` and `folder/script …`; of anything
    else the program's name and its words. So a name that only stands in an argument, as of an editor, a search
    or a shell, never makes a server.
    """
    if not argv or not argv[0]:
        return []
    name = os.path.basename(argv[0])
    if not PYTHON.fullmatch(name):
        return [" ".join([name, *argv[1:]])]
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        flags, at = argv[at][1:], at + 1
        if flags.startswith("-"):
            at += flags == "-check-hash-based-pycs"
            continue
        for place, flag in enumerate(flags):
            rest = flags[place + 1 :]
            if flag == "m":
                return [" ".join(["-m", *([rest] if rest else []), *argv[at:]])]
            if flag == "c":
                return []
            if flag in "XW":
                at += not rest
                break
    if at >= len(argv):
        return []
    parts = argv[at].rsplit("/", 2)
    return [" ".join([script, *argv[at + 1 :]]) for script in dict.fromkeys([parts[-1], "/".join(parts[-2:])])]


def _servers(call: Call) -> Result:
    """Return every server, and workers without one.

    Arguments: `titles` and `workers`, {kind: regular expressions} of what launches a server and of the titles
    that its workers give themselves. `role` of each that is found: `server`; `left over`, workers whose
    launcher is gone, those of one session together; `embedded`, an engine inside another program.
    """
    titles, workers = _patterns(call, "titles"), _patterns(call, "workers")
    entries = _entries()
    kinds: dict[int, str] = {}
    launched: set[int] = set()
    for pid, entry in entries.items():
        runs = what_runs(entry["argv"])
        kind = _kind(runs, titles)
        if kind:
            launched.add(pid)
        kind = kind or _kind(runs, workers)
        if kind:
            kinds[pid] = kind
    roots = [pid for pid in kinds if not _has_server_above(pid, entries, kinds)]
    held = _Held()
    found = [_told(entries[pid], kinds[pid], "server", {pid}, entries, held) for pid in roots if pid in launched]
    groups: dict[tuple[str, int, str], list[int]] = {}
    for pid in roots:
        if pid not in launched:
            role = "left over" if _is_orphan(entries[pid], entries) else "embedded"
            groups.setdefault((kinds[pid], entries[pid]["session"], role), []).append(pid)
    for (kind, _, role), pids in groups.items():
        found.append(_told(entries[min(pids)], kind, role, set(pids), entries, held))
    return {"servers": found, "gpus_told": held.told, "uid": os.geteuid()}, b""


def _entries() -> Table:
    return {entry["pid"]: {**entry, "argv": processes.argv_of(entry["pid"])} for entry in processes.table()}


def _patterns(call: Call, name: str) -> dict[str, list[re.Pattern[str]]]:
    try:
        return {kind: [re.compile(one) for one in many] for kind, many in dict(call.args.get(name) or {}).items()}
    except (re.error, TypeError) as error:
        raise Fault("usage", "%s: %s" % (name, error)) from None


def _kind(runs: list[str], patterns: dict[str, list[re.Pattern[str]]]) -> str:
    for kind, many in patterns.items():
        if any(pattern.match(one) for pattern in many for one in runs):
            return kind
    return ""


def _has_server_above(pid: int, entries: Table, kinds: dict[int, str]) -> bool:
    seen = {pid}
    parent = entries[pid]["ppid"]
    while parent in entries and parent not in seen:
        if kinds.get(parent) == kinds[pid]:
            return True
        seen.add(parent)
        parent = entries[parent]["ppid"]
    return False


def _is_orphan(entry: dict[str, Any], entries: Table) -> bool:
    """Whether a process was given another parent, since its own is gone."""
    parent = entries.get(entry["ppid"])
    if parent is None:
        return True
    name = parent["title"].split(" ", 1)[0].rsplit("/", 1)[-1]
    if parent["pid"] == 1:
        # Of a container it may be the very program that the engine is a part of.
        return PYTHON.fullmatch(name) is None or parent["session"] != entry["session"]
    return ADOPTERS.fullmatch(name) is not None and parent["session"] != entry["session"]


class _Held:
    """GPU memory by process, asked for once."""

    def __init__(self) -> None:
        entries = gpus.holders()
        self.told = entries is not None
        self._entries = [entry for entry in entries or [] if entry["seen"]]
        places = gpus.cards() if self._entries else None
        self._index = {card["uuid"]: card["index"] for card in places or []}

    def of(self, tree: set[int]) -> list[dict[str, Any]]:
        """Return what processes hold of each GPU."""
        shares: dict[str, dict[str, Any]] = {}
        for entry in self._entries:
            if entry["pid"] in tree:
                gpu = entry["gpu"]
                share = shares.setdefault(gpu, {"uuid": gpu, "index": self._index.get(gpu), "memory_mib": None})
                if entry["memory_mib"] is not None:
                    share["memory_mib"] = (share["memory_mib"] or 0.0) + entry["memory_mib"]
        return sorted(shares.values(), key=lambda share: (share["index"] is None, share["index"], share["uuid"]))


def _told(root: dict[str, Any], kind: str, role: str, roots: set[int], entries: Table, held: _Held) -> dict[str, Any]:
    pid = root["pid"]
    tree = set(roots)
    processes.grow(tree, {one: entry["ppid"] for one, entry in entries.items()})
    environment = _environment(pid)
    parent = entries.get(root["ppid"])
    return {
        **root,
        "kind": kind,
        "role": role,
        "parent": parent["title"][:200] if parent else "",
        "cwd": processes.link_of("/proc/%d/cwd" % pid),
        **_ports(tree, root, entries),
        **outputs.place_of(pid, entries),
        "run": environment.get("TOKWATT_RUN", ""),
        "processes": [
            {"pid": one, "start_ticks": entries[one]["start_ticks"], "title": entries[one]["title"][:200]}
            for one in sorted(tree)
        ],
        "gpus": held.of(tree),
    }


def _ports(tree: set[int], server: dict[str, Any], entries: Table) -> dict[str, Any]:
    """Return where a server listens: ports of its own process, then of its children, and how they are reached.

    Sockets of another login's process cannot be told apart: then every port that this login listens on.
    """
    root = server["pid"]
    listening = processes.tcp_listeners(root)
    ports: list[int] = []
    readable = True
    for pid in sorted(tree, key=lambda one: one != root):
        try:
            names = os.listdir("/proc/%d/fd" % pid)
        except OSError:
            readable = readable and pid != root
            continue
        mine = set()
        for name in names:
            target = processes.link_of("/proc/%d/fd/%s" % (pid, name))
            if target.startswith("socket:[") and target[8:-1] in listening:
                mine.add(int(listening[target[8:-1]]["port"]))
        ports += [port for port in sorted(mine) if port not in ports]
    if not readable:
        ports = sorted({int(one["port"]) for one in listening.values() if one["uid"] == server["uid"]})
    inside = _network_of(root)
    published = _published(root, entries) if inside else {}
    return {"ports": ports, "ports_sure": readable, "network": inside, "published": published}


def _network_of(pid: int) -> str:
    """Return the network namespace of a process where it is not ours; empty where it is, or cannot be told."""
    theirs = processes.link_of("/proc/%d/ns/net" % pid)
    return theirs if theirs and theirs != processes.link_of("/proc/self/ns/net") else ""


def _published(pid: int, entries: Table) -> dict[str, int]:
    """Return ports inside a container to those of the host, as `docker-proxy` was told to join them."""
    own = set(re.findall(r"\|-- ([\d.]+)", "\n".join(processes.lines_of("/proc/%d/net/fib_trie" % pid))))
    found: dict[str, int] = {}
    for entry in entries.values():
        words = entry["argv"]
        if os.path.basename(words[0] if words else "") == "docker-proxy":
            told = {words[at]: words[at + 1] for at in range(1, len(words) - 1, 2)}
            inner, outer = told.get("-container-port", ""), told.get("-host-port", "")
            if told.get("-container-ip") in own and inner.isdigit() and outer.isdigit():
                found[inner] = int(outer)
    return found


def _environment(pid: int) -> dict[str, str]:
    """Return the variables that tell a run of tokwatt; no others are read out."""
    pairs = (part.partition("=") for part in processes.words_of(pid, "environ"))
    return {name: value for name, _, value in pairs if name == "TOKWATT_RUN"}


def _connections(call: Call) -> Result:
    """Return who is connected to the ports of a server, and by which process where that is on this host.

    `ours` is the console's own way here: it polls.
    """
    pid = call.number("pid")
    wanted = {int(port) for port in call.args.get("ports", [])}
    found = processes.connections_to(wanted, pid)
    above = _above(os.getpid())
    for one in found:
        one["ours"] = one["pid"] is not None and one["pid"] in above
    return {"connections": found[:CONNECTIONS_SHOWN], "count": len(found)}, b""


def _above(pid: int) -> set[int]:
    """Return a process and all that started it: the way from its server's daemon to us."""
    chain: set[int] = set()
    while pid > 1 and pid not in chain:
        chain.add(pid)
        entry = processes.table([pid])
        pid = entry[0]["ppid"] if entry else 0
    return chain


def _tree_state(call: Call) -> Result:
    """Return how a server stands that has no run folder, in the words of `run_state`.

    Arguments: `pid` with `start_ticks`; `others`, [pid, start ticks] of more processes that belong to it;
    `log`, its file.
    """
    pid, ticks = call.number("pid"), call.number("start_ticks")
    others = [(int(other), int(began)) for other, began in call.args.get("others", [])]
    roots = [other for other, began in others if processes.is_alive(other, began)]
    return {
        "folder": "",
        "record": {},
        "pid": pid,
        "start_ticks": ticks,
        "session": 0,
        "alive": processes.is_alive(pid, ticks),
        "processes": processes.members(pid, ticks, 0, roots=roots),
        "exit": None,
        "ended_at": None,
        "stop": None,
        **outputs.size_of(call.text("log", "")),
    }, b""


OPS: dict[str, Operation] = {"servers": _servers, "connections": _connections, "tree_state": _tree_state}

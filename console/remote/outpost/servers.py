"""Inference servers that run on the host, whoever started them."""

from __future__ import annotations

import os
import re
from typing import Any

from . import gpus, processes
from .calls import Call, Fault, Operation, Result

CONTAINER = re.compile(r"(?:docker[-/]|libpod-|cri-containerd-|/kubepods[^\n]*/)([0-9a-f]{64})")
UNIT = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)
CONNECTIONS_SHOWN = 50


def _servers(call: Call) -> Result:
    """Return every server whose command line fits one of `titles`, {kind: regular expression}.

    A worker that a server started belongs to it; one without its server is told as left over.
    """
    try:
        titles = {kind: re.compile(text) for kind, text in dict(call.args.get("titles") or {}).items()}
    except re.error as error:
        raise Fault("usage", "titles: %s" % error) from None
    entries = {entry["pid"]: entry for entry in processes.table()}
    kinds: dict[int, str] = {}
    for pid, entry in entries.items():
        kind = next((kind for kind, title in titles.items() if title.search(entry["title"])), "")
        if kind and not _is_shell(entry["title"]):
            kinds[pid] = kind
    held = _by_pid(gpus.holders() or [])
    found = []
    for pid, kind in kinds.items():
        if not _has_server_above(pid, entries, kinds):
            found.append(_server(entries[pid], kind, entries, held))
    return {"servers": found}, b""


def _is_shell(title: str) -> bool:
    """Whether a process only names a server in its arguments: a shell, an editor, a search."""
    program = os.path.basename(title.split(" ", 1)[0])
    return program in (
        "sh",
        "bash",
        "dash",
        "zsh",
        "fish",
        "grep",
        "rg",
        "ssh",
        "sshd",
        "vim",
        "less",
        "tail",
        "docker",
    )


def _has_server_above(pid: int, entries: dict[int, dict[str, Any]], kinds: dict[int, str]) -> bool:
    seen = set()
    parent = entries[pid]["ppid"]
    while parent in entries and parent not in seen:
        if kinds.get(parent) == kinds[pid]:
            return True
        seen.add(parent)
        parent = entries[parent]["ppid"]
    return False


def _by_pid(entries: list[dict[str, Any]]) -> dict[int, float]:
    held: dict[int, float] = {}
    for entry in entries:
        if entry["seen"]:
            held[entry["pid"]] = held.get(entry["pid"], 0.0) + (entry["memory_mib"] or 0.0)
    return held


def _server(
    root: dict[str, Any], kind: str, entries: dict[int, dict[str, Any]], held: dict[int, float]
) -> dict[str, Any]:
    pid = root["pid"]
    tree = _tree(pid, entries)
    cgroup = "\n".join(processes.lines_of("/proc/%d/cgroup" % pid))
    container, unit = CONTAINER.search(cgroup), UNIT.search(cgroup)
    environment = _environment(pid)
    return {
        **root,
        "kind": kind,
        "argv": _argv(pid),
        "cwd": _link("/proc/%d/cwd" % pid),
        "ports": _ports(tree, pid),
        "log": _log(pid),
        "container": container[1] if container else "",
        "unit": unit[1] if unit and not unit[1].startswith("user@") else "",
        "run": environment.get("TOKWATT_RUN", ""),
        "mark": environment.get("TOKWATT_MARK", ""),
        "processes": [
            {"pid": one, "start_ticks": entries[one]["start_ticks"], "title": entries[one]["title"][:200]}
            for one in sorted(tree)
        ],
        "held_mib": sum(held.get(one, 0.0) for one in tree) if held else None,
    }


def _tree(root: int, entries: dict[int, dict[str, Any]]) -> set[int]:
    ours, grown = {root}, True
    while grown:
        more = {pid for pid, entry in entries.items() if entry["ppid"] in ours and pid not in ours}
        ours |= more
        grown = bool(more)
    return ours


def _ports(tree: set[int], root: int) -> list[int]:
    """Return the ports that a server's own process listens on, then those of its children."""
    listening = processes.tcp_listeners(root)
    ports: list[int] = []
    for pid in sorted(tree, key=lambda one: one != root):
        try:
            names = os.listdir("/proc/%d/fd" % pid)
        except OSError:
            continue
        mine = set()
        for name in names:
            target = _link("/proc/%d/fd/%s" % (pid, name))
            if target.startswith("socket:[") and target[8:-1] in listening:
                mine.add(int(listening[target[8:-1]]["port"]))
        ports += [port for port in sorted(mine) if port not in ports]
    return ports


def _log(pid: int) -> str:
    """Return the file that a server's output goes to; empty for a terminal, a pipe or a file that is deleted."""
    for stream in (1, 2):
        target = _link("/proc/%d/fd/%d" % (pid, stream))
        if target.startswith("/") and not target.startswith("/dev/") and os.path.isfile(target):
            return target
    return ""


def _argv(pid: int) -> list[str]:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            raw = file.read(64 * 1024)
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in raw.rstrip(b"\0").split(b"\0")]


def _environment(pid: int) -> dict[str, str]:
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            raw = file.read(processes.ENVIRON_LIMIT)
    except OSError:
        return {}
    pairs = (part.partition(b"=") for part in raw.split(b"\0"))
    return {
        name.decode("ascii", "replace"): value.decode("utf-8", "replace")
        for name, _, value in pairs
        if name in (b"TOKWATT_RUN", b"TOKWATT_MARK")
    }


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _connections(call: Call) -> Result:
    """Return who is connected to the ports of a server."""
    pid = call.number("pid")
    found = []
    for port in call.args.get("ports", []):
        found += [{"port": int(port), **one} for one in processes.connections_to(int(port), pid)]
    return {"connections": found[:CONNECTIONS_SHOWN], "count": len(found)}, b""


def _tree_state(call: Call) -> Result:
    """Return how a server stands that has no run folder, in the words of `run_state`."""
    pid, ticks = call.number("pid"), call.number("start_ticks")
    return {
        "folder": "",
        "log": "",
        "record": {},
        "pid": pid,
        "start_ticks": ticks,
        "session": 0,
        "alive": processes.is_alive(pid, ticks),
        "processes": processes.members(pid, ticks, 0),
        "exit": None,
        "ended_at": None,
        "stop": None,
    }, b""


OPS: dict[str, Operation] = {"servers": _servers, "connections": _connections, "tree_state": _tree_state}

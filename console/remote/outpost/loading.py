"""Which copy of a package a running process imports: asked of its own interpreter, in its own circumstances."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from . import packages
from .calls import Call, Fault

VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "HOME")

_known: Dict[Tuple[str, ...], str] = {}


def copy_of(call: Call, pid: int, name: str) -> str:
    """Return the real folder that a process imports `name` from; empty where it cannot be told."""
    if _owner(pid) != os.geteuid():  # somebody else's interpreter is never started with our rights
        return ""
    words = _words(pid, "cmdline")
    if not name.isidentifier() or not words or not os.path.basename(words[0]).startswith("python"):
        return ""
    env, cwd = _circumstances(pid)
    if env is None:
        return ""
    # A script has its own folder on the path, `-m` and `-c` the working folder.
    where = cwd if {"-m", "-c"} & set(words[1:]) else "/"
    python = words[0] if os.path.isabs(words[0]) or "/" not in words[0] else os.path.join(cwd, words[0])
    key = (python, where, name, *(env[variable] for variable in VARIABLES))
    if key not in _known:
        _known[key] = _asked(call, python, name, env, where)
    return _known[key]


def alike(pid: int, other: int) -> bool:
    """Whether two processes run the same interpreter in the same circumstances."""
    try:
        same = os.path.realpath("/proc/%d/exe" % pid) == os.path.realpath("/proc/%d/exe" % other)
    except OSError:
        return False
    one = _circumstances(pid)
    return same and one[0] is not None and one == _circumstances(other)


def _asked(call: Call, python: str, name: str, env: Dict[str, str], cwd: str) -> str:
    argv = [python, "-c", packages.ASK, packages.resolving_source(), name]
    try:
        facts = packages.asked(call, python, argv, b"", env, cwd)
    except Fault:
        return ""
    return os.path.realpath(facts["folder"]) if facts.get("regular") else ""


def _circumstances(pid: int) -> Tuple[Optional[Dict[str, str]], str]:
    """Return what of a process's environment decides on its imports, and its working folder."""
    try:
        cwd = os.readlink("/proc/%d/cwd" % pid)
    except OSError:
        return None, ""
    found = dict(word.partition("=")[::2] for word in _words(pid, "environ"))
    return {variable: found.get(variable, "") for variable in VARIABLES}, cwd


def _owner(pid: int) -> Optional[int]:
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None


def _words(pid: int, name: str) -> List[str]:
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            data = file.read()
    except OSError:
        return []
    return [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0") if word]

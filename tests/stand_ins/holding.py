"""Who holds a process for a launcher: a daemon's shim, that outlives the client and keeps output and exit status."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STATE = Path(os.environ["STAND_INS"])
POLL_S = 0.02


def read(path: Path) -> dict[str, Any]:
    """Return what a file says; nothing while there is none."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def put(path: Path, **facts: Any) -> None:
    """Change what a file says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps({**read(path), **facts}))
    new.replace(path)


def alive(pid: int) -> bool:
    """Return whether a process lives."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def hold(about: Path, argv: list[str], env: dict[str, str], cwd: str, client: int = 0) -> None:
    """Run a program in a session of nobody's, its output beside `about`.

    Args:
        about: What is known of it: `pid` and, at its end, `exit` are written there.
        argv: The program.
        env: All that it gets.
        cwd: Its folder.
        client: Process whose death ends it, too; 0 for none.
    """
    order = {"about": str(about), "argv": argv, "env": env, "cwd": cwd, "client": client}
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.stand_ins import holding; holding.shim()"
    bare = {"PATH": os.environ["PATH"], "STAND_INS": str(STATE)}  # nothing of the run leads to a daemon's child
    subprocess.run([sys.executable, "-S", "-c", code], input=json.dumps(order), text=True, env=bare, check=True)
    while "pid" not in read(about) and "exit" not in read(about):
        time.sleep(POLL_S)


def shim() -> None:
    """Do what `hold` was asked for, as a process of nobody's."""
    order = json.load(sys.stdin)
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    about = Path(order["about"])
    with about.with_suffix(".log").open("ab") as log:
        try:
            child = subprocess.Popen(
                order["argv"], env=order["env"], cwd=order["cwd"] or None, stdin=null, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            put(about, exit=127, fault=str(error))
            os._exit(0)
        put(about, pid=child.pid, started=time.time())
        while child.poll() is None:
            if order["client"] and not alive(order["client"]):
                os.killpg(child.pid, signal.SIGKILL)
            time.sleep(POLL_S)
    put(about, exit=child.returncode if child.returncode >= 0 else 128 - child.returncode)
    os._exit(0)


def follow(about: Path) -> int:
    """Copy the output as it comes; return the exit status."""
    log = about.with_suffix(".log")
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(log.open("rb")) if log.exists() else None
        while True:
            ended = "exit" in read(about)
            if source is None and log.exists():
                source = stack.enter_context(log.open("rb"))
            while source is not None and (data := source.read(65536)):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            if ended:
                return int(read(about)["exit"])
            time.sleep(POLL_S)


def options(words: list[str], valued: set[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return leading options with their values, and the words behind them."""
    found = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, equals, value = words[at].partition("=")
        at += 1
        if not equals and name in valued:
            value, at = words[at], at + 1
        found.append((name, value))
    return found, words[at + (at < len(words) and words[at] == "--") :]

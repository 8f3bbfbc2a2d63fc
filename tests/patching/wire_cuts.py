"""Cuts an apply and a revert over a real sshd at every call of the host's program that touches the disk.

Run as a program (`python -m tests.patching.wire_cuts FOLDER MODE… [--workers N] [--files N]`).
It forks consoles, which a test process with threads must not do. The host's `python3` is one that counts those calls
and, at the one that is asked for, waits, fills the disk, or is gone:

- `link`: the connection is cut there, and the host's program goes on without anybody;
- `console`: the console is killed there (SIGKILL);
- `gone`: by turns one of these two;
- `host`: the host's program is killed there, as by a power loss;
- `full`: the file system is filled there, really (a tmpfs; needs root).

Every console first looks, as the next start after the last cut, and is another operator's. One JSON object a cut.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.domain.host import Package
from console.errors import ConsoleError, LinkLostError, RefusedError
from console.operations import patches
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from tests.patching.cuts import CALLS
from tests.ssh_servers import OpenSshServer

MODES = ("link", "console", "gone", "host", "full")
OPERATORS = ("ada", "bob")
PATIENCE_S = 30.0
ROOM = "96k"
"""Of the tmpfs: a package, its originals, and what fills it."""

HOOKED = """
import errno, os, sys, time
CONTROL, CALLS, DISK = %r
ARM, HIT, GO = (os.path.join(CONTROL, name) for name in ("arm", "hit", "go"))
_open, _write, _close, _stat, _replace = os.open, os.write, os.close, os.stat, os.replace
_seen, _asked = 0, ""

def _put(path, text):
    fd = _open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    _write(fd, text.encode())
    _close(fd)
    _replace(path + ".new", path)

def _fill():
    fd = _open(os.path.join(DISK, "ballast"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (4096, 1):
        try:
            while True:
                _write(fd, b"x" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    _close(fd)

def _reached(name):
    global _seen, _asked
    try:
        fd = _open(ARM, os.O_RDONLY)
    except OSError:
        return
    told = os.read(fd, 99).decode()
    _close(fd)
    _seen, _asked = (_seen if told == _asked else 0) + 1, told
    _, mode, at = told.split()
    if _seen != int(at):
        return
    os.rename_(ARM, ARM + ".done")
    _put(HIT, "%%d %%s" %% (os.getpid(), name))
    if mode == "host":
        os._exit(9)
    if mode == "full":
        _fill()
        return
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            _stat(GO)
            return
        except OSError:
            time.sleep(0.002)

os.rename_ = os.rename
for _name in CALLS:
    def _wrapped(real, name):
        def wrapper(*args, **more):
            if name != "open" or args[1] & os.O_CREAT:
                _reached(name)
            return real(*args, **more)
        return wrapper
    setattr(os, _name, _wrapped(getattr(os, _name), _name))
_code = sys.argv[sys.argv.index("-c") + 1]
exec(_code, {"__name__": "__main__"})
"""

PATCH = """
[[edit]]
file = "a.py"
find = "x = 1"
replace = "x = 2"
[[edit]]
file = "new/c.py"
create = "c = 1\\n"
"""


Job = tuple[str, str, int]
"""Mode, verb, files of the patch."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One worker's host: an sshd, a package, and the files that steer the host's program."""

    base: Path
    server: OpenSshServer
    package: Path
    patch: Path
    full: bool

    @property
    def control(self) -> Path:
        """Where the host's program is told what to do."""
        return self.base / "control"


class Console:
    """A console in a process of its own that looks, applies and reverts as it is told."""

    def __init__(self, bench: Bench, operator: str) -> None:
        told, tell = os.pipe()
        heard, hear = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(told)
            os.close(hear)
            code = 1
            try:
                os.environ["LOGNAME"] = operator
                os.environ["TOKWATT_DATA"] = str(bench.base / "journal")
                asyncio.run(_console(bench, heard, tell))
                code = 0
            finally:
                os._exit(code)
        os.close(tell)
        os.close(heard)
        self._told, self._hear = os.fdopen(told, "rb"), hear

    def said(self) -> dict[str, Any]:
        """Return the next thing it says; nothing once it is gone."""
        line = self._told.readline()
        return dict(json.loads(line)) if line else {}

    def speaks(self, seconds: float) -> bool:
        """Whether it says something, or is gone, within so long."""
        return bool(select.select([self._told], [], [], seconds)[0])

    def tell(self, verb: str) -> None:
        """Have it do something."""
        os.write(self._hear, verb.encode().ljust(8))

    def kill(self) -> None:
        """Be the kernel, out of memory."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Have it end, and wait until it is gone."""
        with contextlib.suppress(BrokenPipeError):
            self.tell("")
        os.close(self._hear)
        os.waitpid(self.pid, 0)
        self._told.close()


async def _console(bench: Bench, heard: int, tell: int) -> None:
    desk, said = await _connected(bench)
    while verb := (await asyncio.to_thread(os.read, heard, 8)).decode().strip():
        if verb == "look":
            status = (await patches.statuses(desk, [str(bench.patch)]))[0]
            told: dict[str, Any] = {"state": status.disk.value, "said": list(said)}
            said.clear()
        else:
            told = await _written(desk, bench, verb)
        os.write(tell, json.dumps(told).encode() + b"\n")
    os._exit(0)


async def _connected(bench: Bench) -> tuple[Desk, list[str]]:
    link = HostLink(SshTransport(bench.server.target))
    await link.connect()
    said: list[str] = []
    return Desk(link, package=Package("eng", str(bench.package), None), say=said.append), said


async def _written(desk: Desk, bench: Bench, verb: str) -> dict[str, str]:
    do = patches.apply if verb == "apply" else patches.revert
    try:
        await do(desk, str(bench.patch))
    except ConsoleError as error:
        kind = "refused" if isinstance(error, RefusedError) else "failed"
        return {"outcome": "lost" if isinstance(error, LinkLostError) else kind, "told": error.one_line()}
    return {"outcome": "done", "told": ""}


async def _uncut(bench: Bench) -> None:
    """Apply in this process: what forks after it has everything imported."""
    desk, _ = await _connected(bench)
    assert (await _written(desk, bench, "apply"))["outcome"] == "done"
    await desk.link.close()


@contextlib.contextmanager
def bench_of(base: Path, files: int, full: bool) -> Iterator[Bench]:
    """Set up a worker's host."""
    if (base / "disk").is_mount():  # of one that was ended before its time
        subprocess.run(["umount", str(base / "disk")], check=True)
    shutil.rmtree(base, ignore_errors=True)
    for name in ("bin", "control", "disk", "journal"):
        (base / name).mkdir(parents=True)
    if full:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(base / "disk")], check=True)
    hooks = base / "bin/hooked.py"
    hooks.write_text(HOOKED % ((str(base / "control"), CALLS, str(base / "disk")),))
    python = base / "bin/python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -u {hooks} "$@"\n')
    python.chmod(0o755)
    more = "".join(f'[[edit]]\nfile = "f{n}.py"\nfind = "y = {n}"\nreplace = "z = {n}"\n' for n in range(files - 2))
    (base / "p.toml").write_text(PATCH + more)
    server = OpenSshServer(base / "ssh", extra=f"SetEnv PATH={base}/bin:{os.environ['PATH']} HOME={base}\n")
    asyncio.run(_begun(server))
    try:
        yield Bench(base, server, base / "disk/eng", base / "p.toml", full)
    finally:
        asyncio.run(_ended(server))
        if full:
            subprocess.run(["umount", str(base / "disk")], check=True)


async def _begun(server: OpenSshServer) -> None:
    await server.__aenter__()


async def _ended(server: OpenSshServer) -> None:
    await server.__aexit__()


def built(bench: Bench, files: int) -> dict[str, bytes | None]:
    """Make the tree as it is before, and return it."""
    old: dict[str, bytes | None] = {"a.py": b"x = 1\n" + b"# a\n" * 20, "new/c.py": None}
    old |= {f"f{n}.py": b"y = %d\r\n" % n for n in range(files - 2)}
    clear(bench)
    bench.package.mkdir()
    for name, data in old.items():
        if data is not None:
            (bench.package / name).write_bytes(data)
    return old


def clear(bench: Bench) -> None:
    """Leave nothing of the last cut."""
    for path in (bench.base / "disk").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in bench.control.iterdir():
        path.unlink()


def seen(bench: Bench, names: Iterator[str] | list[str]) -> dict[str, bytes | None]:
    """Return what the files hold."""
    return {name: path.read_bytes() if (path := bench.package / name).exists() else None for name in names}


def leftovers(bench: Bench, there: dict[str, bytes | None]) -> list[str]:
    """Return whatever lies beside the files that should not."""
    known = {bench.package / name for name in there}
    known |= {path.parent for path in known if there[str(path.relative_to(bench.package))] is not None}
    return sorted(str(path.relative_to(bench.package)) for path in bench.package.rglob("*") if path not in known)


def walked(bench: Bench, mode: str, verb: str, files: int) -> Iterator[dict[str, Any]]:
    """Cut an apply or a revert at every step; yield what each cut left and what the next start made of it."""
    off = built(bench, files)
    asyncio.run(_uncut(bench))
    on = seen(bench, list(off))
    template = bench.base / "on"
    shutil.copytree(bench.base / "disk", template, symlinks=True)
    old, new = (off, on) if verb == "apply" else (on, off)
    consoles: dict[str, Console] = {}
    at = 0
    row: dict[str, Any] = {}
    while True:
        operator = OPERATORS[at % 2]
        console = consoles.pop(operator, None) or Console(bench, operator)
        consoles[operator] = console
        console.tell("look")
        looked = console.said()
        if row:
            after = seen(bench, list(off))
            row |= {"state": looked["state"], "said": looked["said"], "left": leftovers(bench, after)}
            row["after"] = [_side(after[name], old[name], new[name]) for name in off]
            yield row
        if row and not row["hit"]:
            break
        at += 1
        assert at < 1000, "the steps do not end"
        if verb == "apply":
            built(bench, files)
        else:
            clear(bench)
            shutil.copytree(template, bench.base / "disk", symlinks=True, dirs_exist_ok=True)
        chosen = mode if mode != "gone" else ("link", "console")[(at + (verb == "apply")) % 2]
        row = {"verb": verb, "mode": chosen, "at": at, "files": files, **cut(bench, console, chosen, verb, at)}
        if chosen != "full" and row["hit"]:
            consoles.pop(operator).end()
        now = seen(bench, list(off))
        row["first"] = [_side(now[name], old[name], new[name]) for name in off]
    for console in consoles.values():
        console.end()


def cut(bench: Bench, console: Console, mode: str, verb: str, at: int) -> dict[str, Any]:
    """Let a console write until the host reaches a step; cut there, and wait until the host is at rest."""
    (bench.control / "arm").write_text(f"{verb} {mode} {at}")
    console.tell(verb)
    hit = bench.control / "hit"
    told: dict[str, Any] = {}
    if mode in ("link", "console"):
        until = time.monotonic() + PATIENCE_S
        while not hit.exists() and not console.speaks(0.002):
            assert time.monotonic() < until, "neither reached nor done"
        if hit.exists() and mode == "console":
            console.kill()
        elif hit.exists():
            asyncio.run(bench.server.drop())
            told = console.said()
            assert told["outcome"] == "lost", told
        (bench.control / "go").touch()
    if mode != "console" or not hit.exists():
        told = told or console.said()
    reached = hit.read_text().split() if hit.exists() else []
    if reached and mode != "full":
        _gone(int(reached[0]))
    (bench.base / "disk/ballast").unlink(missing_ok=True)
    for name in ("arm", "go", "hit"):
        (bench.control / name).unlink(missing_ok=True)
    return {"hit": reached[1] if reached else "", **told}


def _gone(pid: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while _alive(pid):
        assert time.monotonic() < until, "the host's program does not end"
        time.sleep(0.005)


def _alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()  # a container's first process may reap late
    except OSError:
        return False


def _side(data: bytes | None, old: bytes | None, new: bytes | None) -> str:
    return "new" if data == new else "old" if data == old else f"torn: {hashlib.sha256(data or b'').hexdigest()}"


def must_hold(row: dict[str, Any]) -> None:
    """Raise unless every file is wholly old or wholly new, all alike after the next start, which said so."""
    assert set(row["first"]) <= {"old", "new"}, row
    assert len(set(row["after"])) == 1, row
    assert row["left"] == [], row
    done = row["after"][0] == "new"
    assert row["state"] == ("on" if done == (row["verb"] == "apply") else "off"), row
    recovered = [line for line in row["said"] if "had been cut short" in line]
    assert len(recovered) <= 1, row
    if recovered:
        assert recovered[0].startswith(f"{row['verb']} p of "), row
        assert recovered[0].endswith(f"{'finished' if done else 'undone'} now"), row
    if len(set(row["first"])) > 1:
        assert recovered, row
    if row["mode"] in ("link", "console") or not row["hit"]:  # the host's program went on: nothing is left to do
        assert done and not recovered, row
    if row.get("outcome") == "done":
        assert done, row
    if row["mode"] == "full" and row["hit"]:
        assert row["outcome"] in ("done", "failed"), row
        assert row["outcome"] == "done" or "No space left" in row["told"] or "cut short" in row["told"], row
        assert done == (row["outcome"] == "done") or "cut short" in row["told"], row


def work(base: Path, jobs: list[Job], results: Any) -> None:
    """Walk what this worker was given."""
    for mode, verb, files in jobs:
        with bench_of(base, files, mode == "full") as bench:
            for row in walked(bench, mode, verb, files):
                results.put(row)
    results.put(None)


def rows(folder: Path, jobs: list[Job], workers: int) -> Iterator[dict[str, Any]]:
    """Return every cut of some walks, made by several workers with a host each."""
    context = multiprocessing.get_context("fork")
    results: Any = context.SimpleQueue()
    shares = [jobs[number::workers] for number in range(workers) if jobs[number::workers]]
    started = [
        context.Process(target=work, args=(folder / str(number), share, results)) for number, share in enumerate(shares)
    ]
    for process in started:
        process.start()
    over = 0
    while over < len(started):
        while results.empty():
            if any(process.exitcode not in (None, 0) for process in started):
                raise SystemExit("a worker failed")
            time.sleep(0.01)
        row = results.get()
        over += row is None
        if row is not None:
            yield row
    for process in started:
        process.join()


def main() -> None:
    """Print a row a cut, and their number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("modes", nargs="+", choices=MODES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--files", type=int, default=2)
    args = parser.parse_args()
    jobs = [(mode, verb, args.files) for mode in args.modes for verb in ("apply", "revert")]
    total = 0
    for row in rows(args.folder, jobs, args.workers):
        print(json.dumps(row), flush=True)
        total += bool(row["hit"])
    print(json.dumps({"total": total}))


if __name__ == "__main__":
    main()

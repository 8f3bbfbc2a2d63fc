"""The `.tokwatt` folder beside a package: lock, journal and contents by hash."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Set

from . import takeover
from .calls import Fault

FOLDER = ".tokwatt"
OPEN_PHASES = ("begin", "commit")
CLOSED_WELL = ("done", "finished")


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def sync_folder(path: str) -> None:
    """Make the names in a folder durable, where its file system can."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte; a short write is tried again and then tells its errno."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Have an error of a call on a descriptor name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


class Keep:
    """What we remember on a host about the writes to one package.

    Args:
        root: The package folder; `.tokwatt` stands beside what it resolves to.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.base = os.path.dirname(self.root)
        self.folder = os.path.join(self.base, FOLDER)
        self.journal = os.path.join(self.folder, "journal.jsonl")
        self.originals = os.path.join(self.folder, "originals")

    def exists(self) -> bool:
        """Whether anything was ever written here."""
        return os.path.isdir(self.folder)

    def create(self) -> None:
        """Make the folder, and have git overlook it."""
        if not os.path.isdir(self.originals):
            mode = (os.stat(self.base).st_mode & 0o777) | 0o700
            for path in (self.folder, self.originals):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, mode)
            sync_folder(self.base)
        with contextlib.suppress(OSError):
            _overlook(self.base)

    def relative(self, path: str) -> str:
        """Return a path as the journal writes it: valid in and out of containers."""
        return os.path.relpath(path, self.base)

    def absolute(self, path: str) -> str:
        """Return a journal's path as it is reached here."""
        return os.path.join(self.base, path)

    @contextlib.contextmanager
    def lock(self, owner: str) -> Iterator[None]:
        """Hold the lock; it goes with the process that held it, however that ends.

        Raises:
            Fault: `locked`, with who holds it and since when.
        """
        fd = self._locked_file()
        try:
            mark = takeover.marked(owner)
            with contextlib.suppress(OSError):  # a full disk must not keep us from undoing
                os.ftruncate(fd, 0)
                os.pwrite(fd, mark, 0)
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
            os.close(fd)

    def _locked_file(self) -> int:
        path = os.path.join(self.folder, "lock")
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.exists(path) and os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
                os.close(fd)  # `discard` took it away between our open and our lock
                self.create()
            except BlockingIOError:
                fault = _locked(self, os.pread(fd, 4096, 0))
                os.close(fd)
                raise fault from None

    def discard(self) -> None:
        """Take the folder away when nothing was ever written; the lock is held."""
        if self.entries():
            return
        with contextlib.suppress(OSError):
            os.rmdir(self.originals)
            for name in (self.journal, os.path.join(self.folder, "lock")):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
            os.rmdir(self.folder)

    def entries(self) -> List[Dict[str, Any]]:
        """Return the journal's whole entries in order; a torn line is passed over."""
        try:
            with open(self.journal, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and "id" in entry:
                found.append(entry)
        return found

    def append(self, entry: Dict[str, Any]) -> int:
        """Add one entry, durable when this returns; return the journal's size before it."""
        fresh = not os.path.exists(self.journal)
        fd = os.open(self.journal, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            line = json.dumps({**entry, "at": time.time()}, separators=(",", ":")).encode() + b"\n"
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line
            try:
                with naming(self.journal):
                    write_all(fd, line)
                    os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
        if fresh:
            sync_folder(self.folder)
        return size

    def forget_after(self, size: int) -> None:
        """Cut the journal back to `size`: what was begun there never happened."""
        fd = os.open(self.journal, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            with contextlib.suppress(OSError):
                os.fsync(fd)
        finally:
            os.close(fd)

    def put(self, data: bytes) -> str:
        """Keep a content, durable when this returns, and return its hash."""
        sha = digest(data)
        path = os.path.join(self.originals, sha)
        if os.path.exists(path) and self.get(sha) is not None:
            return sha
        temp = "%s.%d" % (path, os.getpid())
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            try:
                with naming(self.originals):
                    write_all(fd, data)
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(temp, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise
        sync_folder(self.originals)
        return sha

    def get(self, sha: str) -> Optional[bytes]:
        """Return a kept content; `None` when it is not there or not what its name says."""
        try:
            with open(os.path.join(self.originals, os.path.basename(sha)), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return data if digest(data) == sha else None

    def collect(self) -> None:
        """Remove contents that no patch in force, no open entry and no undo needs."""
        entries = self.entries()
        needed: Set[Any] = set()
        last = history(entries)[-1:]
        for entry in [*ours(entries).values(), *pending(entries), *last]:
            for file in all_files(entry):
                needed.update((file.get("before"), file.get("after")))
        try:
            names = os.listdir(self.originals)
        except OSError:
            return
        for name in names:
            if name not in needed:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.originals, name))


def pending(entries: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the begun transactions that were never closed; `phase` says how far each came."""
    begun: Dict[str, Dict[str, Any]] = {}
    for entry in entries:
        if entry["phase"] == "begin":
            begun[entry["id"]] = dict(entry)
        elif entry["phase"] == "commit" and entry["id"] in begun:
            begun[entry["id"]]["phase"] = "commit"
        else:
            begun.pop(entry["id"], None)
    return list(begun.values())


def history(entries: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the transactions that took place, oldest first."""
    begun = {entry["id"]: entry for entry in entries if entry["phase"] == "begin"}
    closed = [entry["id"] for entry in entries if entry["phase"] in CLOSED_WELL]
    return [begun[number] for number in closed if number in begun]


def ours(entries: List[Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """Return the patches in force that we wrote, by name."""
    held: Dict[str, Dict[str, Any]] = {}
    for entry in history(entries):
        for part in entry.get("parts") or [entry]:
            if part["verb"] == "apply":
                held[part["name"]] = {**entry, **part, "parts": []}
            elif part["verb"] == "revert":
                held.pop(part["name"], None)
    return held


def all_files(entry: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the files of an entry and those of each patch in it, whose bytes lie between."""
    return [*entry["files"], *(file for part in entry.get("parts") or [] for file in part["files"])]


def _locked(keep: Keep, mark: bytes) -> Fault:
    try:
        told = json.loads(mark)
        owner, since = str(told["owner"]), float(told["since"])
    except (ValueError, KeyError, TypeError):
        owner, since = "", 0.0
    age = max(0.0, time.time() - since) if since else None
    who = owner or "another console"
    ago = " for %.0f s" % age if age is not None else ""
    return Fault("locked", "%s is writing here%s" % (who, ago), path=keep.folder, owner=owner, age_s=age)


def _overlook(base: str) -> None:
    """Put `.tokwatt/` into the exclude file of the checkout that `base` lies in, if any."""
    top = base
    while not os.path.lexists(os.path.join(top, ".git")):
        parent = os.path.dirname(top)
        if parent == top:
            return
        top = parent
    git = os.path.join(top, ".git")
    if os.path.isfile(git):  # a worktree or a submodule
        with open(git, encoding="utf-8") as file:
            git = os.path.join(top, file.read().partition("gitdir:")[2].strip())
        common = os.path.join(git, "commondir")
        if os.path.isfile(common):
            with open(common, encoding="utf-8") as file:
                git = os.path.join(git, file.read().strip())
    exclude = os.path.join(git, "info", "exclude")
    line = FOLDER + "/"
    text = ""
    if os.path.exists(exclude):
        with open(exclude, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    if line in text.split("\n"):
        return
    os.makedirs(os.path.dirname(exclude), exist_ok=True)
    with open(exclude, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")

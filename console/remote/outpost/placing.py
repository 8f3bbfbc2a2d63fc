"""New bytes beside a file, with its owner, mode and attributes, ready to take its name."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import stat
import struct
import time
from typing import List, Optional, Set, Tuple

from .calls import Fault
from .keep import naming, write_all

GET_FLAGS = 0x80086601
"""`FS_IOC_GETFLAGS` on 64-bit Linux."""
IMMUTABLE, APPEND_ONLY = 0x10, 0x20


def content(path: str) -> Optional[bytes]:
    """Return a file's bytes; `None` when there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def refuse_unwritable(path: str) -> None:
    """Raise the fault that a write would meet, before anything is touched."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    for name in (path, folder):
        if not os.path.exists(name):
            continue
        if os.statvfs(name).f_flag & os.ST_RDONLY:
            raise Fault("erofs", "read-only file system", path=name)
        flags = _flags(name)
        if flags & (IMMUTABLE | APPEND_ONLY):
            word = "immutable (chattr +i)" if flags & IMMUTABLE else "append-only (chattr +a)"
            raise Fault("immutable", "is %s" % word, path=name)
        if not os.access(name, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            what = "folder" if os.path.isdir(name) else "file"
            raise Fault("eacces", "no right to write this %s" % what, path=name)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise Fault("notfile", "not a regular file", path=path)


def place(path: str, temp: str, data: bytes, mode: Optional[int] = None) -> None:
    """Write `data` to `temp`, durable and dressed as the file at `path` (or as its folder's).

    Raises:
        Fault: `eperm` when owner or group could not be kept.
    """
    try:
        like: Optional[os.stat_result] = os.stat(path)
    except FileNotFoundError:
        like = None
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with naming(path):
            write_all(fd, data)
            _dress(fd, path, like, mode)
            moment = fresh_mtime_ns(path, like, len(data))
            os.utime(fd, ns=(moment, moment))
            os.fsync(fd)
    finally:
        os.close(fd)


def fresh_mtime_ns(path: str, like: Optional[os.stat_result], size: int) -> int:
    """Return a time after the present file's that no bytecode of this name and size carries."""
    moment = time.time_ns()
    if like is not None and moment // 10**9 <= like.st_mtime_ns // 10**9:
        moment = like.st_mtime_ns + 10**9
    stale = {(second, length) for _, flags, second, length in _bytecode(path) if flags == 0}
    while ((moment // 10**9) & 0xFFFFFFFF, size & 0xFFFFFFFF) in stale:
        moment += 10**9
    return moment


def unchecked_bytecode(path: str) -> List[str]:
    """Return bytecode files that Python would load without looking at the source."""
    return [name for name, flags, _, _ in _bytecode(path) if flags & 3 == 1]


def _bytecode(path: str) -> Set[Tuple[str, int, int, int]]:
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    found = set()
    for pyc in glob.glob(os.path.join(glob.escape(folder), "__pycache__", glob.escape(stem) + ".*.pyc")):
        try:
            with open(pyc, "rb") as file:
                head = file.read(16)
        except OSError:
            continue
        if len(head) == 16:
            found.add((pyc, *struct.unpack("<III", head[4:])))
    return found


def _dress(fd: int, path: str, like: Optional[os.stat_result], mode: Optional[int]) -> None:
    if like is None:
        near = os.stat(os.path.dirname(path))
        if os.geteuid() == 0:
            os.fchown(fd, near.st_uid, near.st_gid)
        os.fchmod(fd, mode if mode is not None else 0o644)
        return
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(fd, like.st_uid, like.st_gid)
        except PermissionError:
            raise Fault(
                "eperm", "owned by %d:%d, which this login cannot keep" % (like.st_uid, like.st_gid), path=path
            ) from None
    with contextlib.suppress(OSError):  # file systems without attributes
        for name in os.listxattr(path):
            with contextlib.suppress(OSError):
                os.setxattr(fd, name, os.getxattr(path, name))
    os.fchmod(fd, stat.S_IMODE(like.st_mode) if mode is None else mode)


def _flags(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        answer = fcntl.ioctl(fd, GET_FLAGS, struct.pack("l", 0))
        return int(struct.unpack("l", answer)[0])
    except OSError:
        return 0
    finally:
        os.close(fd)

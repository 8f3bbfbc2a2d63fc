"""Bytes of files as they were, found by their hash: kept originals, git, wheels and caches of this machine.

Whatever is found is taken only when its hash is the one that was asked for, so a place that holds
something else does no harm. Used on the host, and by the console for its own caches.
"""

from __future__ import annotations

import glob
import hashlib
import os
import subprocess
import zipfile
from typing import Any, Dict, Iterator, List, Optional, Sequence

from .keep import Keep

REVISIONS = 200
"""Commits of a file's history that are looked through."""
GIT_SECONDS = 20
FILE_LIMIT = 32 << 20
BODIES = 4000
"""Files of pip's download cache that are looked at."""


class Wanted:
    """One content to be found."""

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.path = str(spec.get("path") or "")
        """Absolute path of the file that it is or was of."""
        self.member = str(spec.get("member") or "")
        """Its path in the wheel."""
        self.sha256 = str(spec.get("sha256") or "")
        """Empty takes what is there now, or in `rev`."""
        self.rev = str(spec.get("rev") or "")
        """Git revision that is meant, whatever its hash."""
        self.distribution = str(spec.get("distribution") or "")
        """`name-version` as its metadata folder says."""
        self.root = str(spec.get("root") or "")
        """Package folder, beside which originals are kept."""
        self.data: Optional[bytes] = None
        self.source = ""

    def take(self, data: Optional[bytes], source: str) -> bool:
        """Take bytes when they are the right ones."""
        if data is None or (self.sha256 and hashlib.sha256(data).hexdigest() != self.sha256):
            return False
        self.data, self.source = data, source
        return True


def find(wanted: Sequence[Wanted], wheels: Sequence[str] = ()) -> None:
    """Fill in the bytes of as many as can be found on this machine."""
    for item in wanted:
        if item.rev:
            folder, name = os.path.split(os.path.realpath(item.path))
            item.take(_git(folder, ["cat-file", "blob", "%s:./%s" % (item.rev, name)]), "git %s" % item.rev)
        elif not _present(item) and item.sha256 and not _kept(item):
            _in_git(item)
    for distribution in sorted(
        {item.distribution for item in wanted if item.data is None and item.sha256 and item.distribution}
    ):
        rest = [item for item in wanted if item.data is None and item.sha256 and item.distribution == distribution]
        for place in _places(distribution, wheels):
            _from_place(place, rest)
            rest = [item for item in rest if item.data is None]
            if not rest:
                break


def _read(path: str) -> Optional[bytes]:
    try:
        if os.path.getsize(path) > FILE_LIMIT:
            return None
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _present(item: Wanted) -> bool:
    return bool(item.path) and item.take(_read(item.path), "the file itself")


def _kept(item: Wanted) -> bool:
    return bool(item.root) and item.take(Keep(item.root).get(item.sha256), "kept by tokwatt")


def _in_git(item: Wanted) -> bool:
    if not item.path:
        return False
    path = os.path.realpath(item.path)
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        return False
    spec = "./" + name
    for rev in ["HEAD", *_revisions(folder, spec)]:
        data = _git(folder, ["cat-file", "blob", "%s:%s" % (rev, spec)])
        if data is None and rev == "HEAD":
            return False
        if item.take(data, "git %s" % rev[:12]):
            return True
    return False


def _revisions(folder: str, spec: str) -> List[str]:
    said = _git(folder, ["log", "--format=%H", "-n", str(REVISIONS), "--", spec])
    return said.decode("ascii", "replace").split() if said else []


def _git(folder: str, args: Sequence[str]) -> Optional[bytes]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_OPTIONAL_LOCKS="0", LC_ALL="C")
    argv = ["git", "-c", "core.fsmonitor=false", "--no-pager", "-C", folder, *args]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_SECONDS, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _cache(variable: str, *names: str) -> str:
    given = os.environ.get(variable)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return given or os.path.join(base, *names)


def _places(distribution: str, wheels: Sequence[str]) -> Iterator[str]:
    """Yield wheels and unpacked wheels of a distribution, the cheapest to look into first."""
    pattern = glob.escape(distribution)
    for name in wheels:
        if os.path.isdir(name):
            yield from sorted(glob.glob(os.path.join(glob.escape(name), pattern + "-*.whl")))
        else:
            yield name
    uv, pip = _cache("UV_CACHE_DIR", "uv"), _cache("PIP_CACHE_DIR", "pip")
    for info in glob.glob(os.path.join(glob.escape(uv), "archive-v*", "*", pattern + ".dist-info")):
        yield os.path.dirname(info)
    home = os.path.expanduser("~")
    for folder in (os.path.join(pip, "wheels", "*", "*", "*", "*"), home, os.path.join(home, "*"), "/tmp"):
        yield from sorted(glob.glob(os.path.join(folder, pattern + "-*.whl")))
    yield from _bodies(pip, distribution)


def _bodies(pip: str, distribution: str) -> Iterator[str]:
    """Yield the downloads in pip's cache that are wheels of a distribution."""
    seen = 0
    record = "%s.dist-info/RECORD" % distribution
    for top, _, files in os.walk(os.path.join(pip, "http-v2")):
        for name in files:
            if not name.endswith(".body"):
                continue
            seen += 1
            if seen > BODIES:
                return
            path = os.path.join(top, name)
            try:
                with open(path, "rb") as file:
                    if file.read(4) != b"PK\x03\x04":
                        continue
                with zipfile.ZipFile(path) as archive:
                    archive.getinfo(record)
            except (OSError, KeyError, zipfile.BadZipFile):
                continue
            yield path


def _from_place(place: str, wanted: Sequence[Wanted]) -> None:
    if os.path.isdir(place):
        for item in wanted:
            item.take(_read(os.path.join(place, item.member)), place)
        return
    try:
        with zipfile.ZipFile(place) as archive:
            for item in wanted:
                try:
                    if archive.getinfo(item.member).file_size <= FILE_LIMIT:
                        item.take(archive.read(item.member), place)
                except KeyError:
                    continue
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return

"""Cuts a transaction at every call that touches the disk, one after another, and looks at what is left.

Run as a program (`python -m tests.patching.cuts FOLDER kill|full|full-once`): it forks once per cut, which a
test process with threads must not do. Prints one JSON object per cut, and a last one with the total.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from console.remote.outpost import compiling, snapshot, transaction
from console.remote.outpost.calls import Call, Fault

CALLS = ("open", "write", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "fsync", "ftruncate", "pwrite")
"""Functions of `os` that change the disk, or make a change last."""
NEEDS_ROOM = ("open", "write", "link", "mkdir", "pwrite")

OLD: dict[str, bytes | None] = {
    "pkg/a.py": b"a = 1\n" * 300,
    "pkg/deep/b.py": b"b = 1\r\n",
    "pkg/new/c.py": None,
    "pkg/gone.py": b"x = 1",
}
NEW: dict[str, bytes | None] = {
    "pkg/a.py": b"a = 2\n" * 301,
    "pkg/deep/b.py": b"b = 2\r\n",
    "pkg/new/c.py": b"c = 2\n",
    "pkg/gone.py": None,
}


MIDDLE: dict[str, bytes] = {}
"""Contents between two patches of a set, by file: the transaction is a set of two then."""


def build(base: Path) -> None:
    """Make the tree as it is before."""
    shutil.rmtree(base, ignore_errors=True)
    for name, data in OLD.items():
        if data is not None:
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_bytes(data)


def switch(base: Path, old: dict[str, bytes | None], new: dict[str, bytes | None], verb: str) -> dict[str, Any]:
    """Run one transaction in this process."""
    files = [
        {
            "path": name.removeprefix("pkg/"),
            "before": None if old[name] is None else _sha(old[name]),
            "after": None if new[name] is None else _sha(new[name]),
            "size": len(new[name] or b""),
        }
        for name in old
    ]
    args: dict[str, Any] = {
        "root": str(base / "pkg"),
        "name": "p",
        "verb": verb,
        "operator": "ada",
        "python": "",
        "files": files,
    }
    body = b"".join(data for data in new.values() if data is not None)
    if MIDDLE:
        middle = {**new, **MIDDLE}
        args["parts"] = [_part("p", verb, old, middle), _part("q", verb, middle, new)]
        args["extra"] = [len(data) for data in MIDDLE.values()]
        body += b"".join(MIDDLE.values())
    return transaction.transaction(Call(args, body, lambda result, body: None))[0]


def _part(name: str, verb: str, old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> dict[str, Any]:
    files = [
        {
            "path": path.removeprefix("pkg/"),
            "before": None if old[path] is None else _sha(old[path]),
            "after": None if new[path] is None else _sha(new[path]),
        }
        for path in old
        if old[path] != new[path]
    ]
    return {"name": name, "verb": verb, "files": files}


def look(base: Path) -> dict[str, str]:
    """Tell of every file whether it is old, new, or torn."""
    said = {}
    for name in OLD:
        path = base / name
        data = path.read_bytes() if path.exists() else None
        said[name] = "new" if data == NEW[name] else "old" if data == OLD[name] else "torn"
    return said


def leftovers(base: Path) -> list[str]:
    """Return whatever lies beside the files that should not."""
    known = {base / name for name in OLD} | {base / "pkg/deep", base / "pkg"}
    if (base / "pkg/new/c.py").exists():
        known.add(base / "pkg/new")
    found = [path for path in (base / "pkg").rglob("*") if path not in known]
    return sorted(str(path.relative_to(base)) for path in found)


def recovered(base: Path) -> list[dict[str, Any]]:
    """Be the next start of any console."""
    call = Call({"root": str(base / "pkg"), "recover": True, "operator": "bob"}, b"", lambda result, body: None)
    result = snapshot.snapshot(call)[0]
    assert not result["pending"] and not result["trouble"], result
    found: list[dict[str, Any]] = result["recovered"]
    return found


def cut(act: Callable[[], Any], at: int, mode: str) -> int:
    """Run `act` in a child whose `at`th call is the last, or meets a full disk; return the exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = 0

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def wrapper(*args: Any, **more: Any) -> Any:
            nonlocal seen
            if name == "open" and not args[1] & os.O_CREAT and not more:
                return real(*args, **more)
            seen += 1
            if mode == "kill" and seen == at:
                os._exit(9)
            if name in NEEDS_ROOM and (seen == at or (mode == "full" and seen > at)):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **more)

        setattr(os, name, wrapper)

    for name in CALLS:
        wrap(name)
    code = 0
    try:
        act()
    except (Fault, OSError) as error:
        kind = error.kind if isinstance(error, Fault) else errno.errorcode[error.errno or 0].lower()
        code = 3 if kind == "enospc" else 4
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
        code = 5
    os._exit(code if seen >= at else 77)


def rows(base: Path, mode: str) -> Iterator[dict[str, Any]]:
    """Cut an apply, then a revert, everywhere; return what each cut left, and what the next start made of it."""
    for verb, old, new in (("apply", OLD, NEW), ("revert", NEW, OLD)):
        at = 0
        while True:
            at += 1
            build(base)
            if verb == "revert":
                switch(base, OLD, NEW, "apply")
            code = cut(lambda verb=verb, old=old, new=new: switch(base, old, new, verb), at, mode)  # type: ignore[misc]
            if code == 77:
                break
            first = look(base)
            said = recovered(base)
            after = look(base)
            left = leftovers(base)
            wanted = "new" if verb == "apply" else "old"
            done = all(value == wanted for value in after.values())
            if not done:
                switch(base, old, new, verb)
            row = {"verb": verb, "at": at, "code": code, "first": first, "after": after, "said": said}
            yield {**row, "left": left, "done": done, "final": look(base)}


def main() -> None:
    """Print a row a cut, and their number."""
    base, mode = Path(sys.argv[1]) / "base", sys.argv[2]
    compiling.faults = lambda *_: {"by": "", "why": "", "errors": []}  # no step of the disk, and slow
    total = 0
    for row in rows(base, mode):
        print(json.dumps(row))
        total += 1
    print(json.dumps({"total": total}))


def _sha(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()


if __name__ == "__main__":
    main()

"""Thousands of cuts: every step of writes of many shapes, killed or met by a full disk.

Run as a program, outside the gate: `python -m tests.patching.many_cuts [FOLDER] [AT_LEAST]`. Ends with the
number of cuts, of torn files and of files lost; any that does not hold ends it with the row.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from console.remote.outpost import compiling
from tests.patching import cuts

OLD, NEW = dict(cuts.OLD), dict(cuts.NEW)
MODES = ("kill", "full", "full-once")
Shape = tuple[dict[str, bytes | None], dict[str, bytes | None], dict[str, bytes]]


def must_hold(row: dict[str, Any], mode: str) -> None:
    """Raise unless every file is wholly old or wholly new, all alike after the next start, which says so."""
    assert "torn" not in row["first"].values(), row
    assert len(set(row["after"].values())) == 1, row
    assert row["left"] == [], row
    wanted = "new" if row["verb"] == "apply" else "old"
    assert set(row["final"].values()) == {wanted}, row
    outcomes = {said["outcome"] for said in row["said"]}
    assert outcomes <= ({"finished"} if row["done"] else {"undone"}), row
    if len(set(row["first"].values())) > 1:
        assert outcomes == {"finished"}, row
    if mode != "kill":  # what the operator was told is what is on disk
        assert row["code"] == (0 if row["done"] else 3), row


def shapes() -> Iterator[Shape]:
    """Return writes of growing size: one file to many, made and removed ones, sets of two patches."""
    yield {"pkg/a.py": b"a = 1\n"}, {"pkg/a.py": b"a = 2\n"}, {}
    yield dict(OLD), dict(NEW), {}
    yield dict(OLD), dict(NEW), {"pkg/a.py": b"a = 3\n" * 300}
    for count in range(3, 60, 3):
        old: dict[str, bytes | None] = {f"pkg/f{n}.py": b"x = %d\n" % n * (n + 1) for n in range(count)}
        new: dict[str, bytes | None] = {name: b"y" + (data or b"") for name, data in old.items()}
        old["pkg/new/c.py"], new["pkg/new/c.py"] = None, b"c = 1\n"
        old["pkg/gone.py"], new["pkg/gone.py"] = b"g = 1", None
        yield old, new, {"pkg/f0.py": b"between = 1\n"}


def main() -> None:
    """Cut until there were enough."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="tokwatt-cuts-"))
    enough = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    compiling.faults = lambda *_: {"by": "", "why": "", "errors": []}
    began, total = time.monotonic(), 0
    for old, new, middle in shapes():
        cuts.OLD, cuts.NEW, cuts.MIDDLE = old, new, middle
        for mode in MODES:
            for row in cuts.rows(folder / str(os.getpid()), mode):
                must_hold(row, mode)
                total += 1
        print(f"{len(old)} files{', a set' if middle else ''}: {total} cuts so far, 0 torn, 0 lost", flush=True)
        if total >= enough:
            break
    print(f"{total} cuts, 0 torn, 0 lost, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

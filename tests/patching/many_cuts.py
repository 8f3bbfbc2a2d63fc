"""Thousands of cuts: every step of writes of many shapes, killed or met by a full disk.

Run as a program, outside the gate: `python -m tests.patching.many_cuts [FOLDER] [AT_LEAST] [--sshd]`. Ends with
the number of cuts, of torn files and of files lost; any that does not hold ends it with the row. With `--sshd` every
write goes over a real sshd, and the connection is cut and the console killed as well (about two cuts a second).
"""

from __future__ import annotations

import argparse
import os
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


def over_sshd(folder: Path, enough: int) -> int:
    """Cut writes over a real sshd: patches of more and more files, every step of each in every way."""
    from tests.patching import wire_cuts

    modes = [mode for mode in ("link", "console", "host", "full") if mode != "full" or os.geteuid() == 0]
    total = 0
    for files in range(2, 200, 2):
        jobs = [(mode, verb, files) for mode in modes for verb in ("apply", "revert")]
        for row in wire_cuts.rows(folder, jobs, workers=2):
            wire_cuts.must_hold(row)
            total += bool(row["hit"])
            if row["hit"] and total % 100 == 0:
                print(f"{total} cuts so far, 0 torn, 0 lost", flush=True)
        print(f"{files} files, {', '.join(modes)}: {total} cuts so far, 0 torn, 0 lost", flush=True)
        if total >= enough:
            break
    return total


def in_process(folder: Path, enough: int) -> int:
    """Cut writes in processes of this machine."""
    compiling.faults = lambda *_: {"by": "", "why": "", "errors": []}
    total = 0
    for old, new, middle in shapes():
        cuts.OLD, cuts.NEW, cuts.MIDDLE = old, new, middle
        for mode in MODES:
            for row in cuts.rows(folder / str(os.getpid()), mode):
                must_hold(row, mode)
                total += 1
        print(f"{len(old)} files{', a set' if middle else ''}: {total} cuts so far, 0 torn, 0 lost", flush=True)
        if total >= enough:
            break
    return total


def main() -> None:
    """Cut until there were enough."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("at_least", nargs="?", type=int, default=2000)
    parser.add_argument("--sshd", action="store_true", help="over a real sshd")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="tokwatt-cuts-"))
    began = time.monotonic()
    total = (over_sshd if args.sshd else in_process)(folder, args.at_least)
    print(f"{total} cuts, 0 torn, 0 lost, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

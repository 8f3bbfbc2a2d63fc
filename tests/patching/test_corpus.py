"""Diffs between real releases, beside what git and GNU patch make of them."""

from __future__ import annotations

import random
import subprocess
import zipfile
from pathlib import Path

import pytest

from console.domain.diff import unified_bytes
from console.domain.patch import DiskState
from tests.patching.cases import diff, planned, switched
from tests.wheels import wheel

FILES = (
    "srt/model_executor/model_runner.py",
    "srt/layers/communicator.py",
    "srt/managers/scheduler.py",
    "srt/server_args.py",
)
VERSIONS = ("0.5.7", "0.5.9", "0.5.10", "0.5.12")
GIT = ["git", "apply", "-"]
PATCH = ["patch", "-p1", "-F0", "-N", "-s", "-f", "--no-backup-if-mismatch", "-r", "-"]


def applied(folder: Path, target: bytes, text: bytes, argv: list[str]) -> bytes | None:
    (folder / "m.py").write_bytes(target)
    done = subprocess.run(argv, input=text, cwd=folder, capture_output=True, check=False)
    return (folder / "m.py").read_bytes() if done.returncode == 0 else None


@pytest.mark.wheels
@pytest.mark.timeout(300)
def test_same_bytes_or_refused(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    sources: dict[tuple[str, str], bytes] = {}
    for version in VERSIONS:
        with zipfile.ZipFile(wheel(request.config, "sglang", version)) as archive:
            sources |= {(version, file): archive.read(f"sglang/{file}") for file in FILES}
    chance = random.Random(7)
    counts = {"same": 0, "guessed by git": 0, "refused": 0}
    for number in range(220):
        file, version, other = chance.choice(FILES), chance.choice(VERSIONS), chance.choice(VERSIONS)
        before, target = sources[version, file], sources[other, file]
        lines = before.split(b"\n")
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(lines) - 1)
            lines[at : at + 1] = chance.choice([[lines[at] + b"  # x"], [b"    # line %d" % number, lines[at]], []])
        text = unified_bytes(before, b"\n".join(lines), "m.py")
        by_git, by_patch = applied(tmp_path, target, text, GIT), applied(tmp_path, target, text, PATCH)
        result = planned(diff(text), {"m.py": target}, "p")
        if result.state is DiskState.OFF:
            after = switched({"m.py": target}, result, on=True)
            assert after["m.py"] in (by_git, by_patch), (number, result.reason)
            again = planned(diff(text), after, "p", ours=True)
            assert again.state is DiskState.ON
            assert switched(after, again, on=False)["m.py"] == target
            counts["same"] += 1
        elif by_git is not None:
            assert "times" in result.reason, (number, result.reason)  # two places: none is guessed
            counts["guessed by git"] += 1
        else:
            counts["refused"] += 1
    assert counts["same"] > 80 and counts["refused"] > 20 and counts["guessed by git"] < 20, counts

"""Must hold over a real sshd: at every step of an apply and a revert, whatever is cut there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.conftest import require_sshd
from tests.patching.wire_cuts import must_hold

pytestmark = [pytest.mark.sshd, pytest.mark.timeout(300)]


@pytest.mark.parametrize("mode", ["gone", "full"])
def test_at_every_step_over_sshd_no_file_is_torn_and_another_operators_start_knows(tmp_path: Path, mode: str) -> None:
    require_sshd()
    if mode == "full":
        needs.mounted("-t", "tmpfs", "tmpfs", at=tmp_path / "probe")
        needs.unmount(tmp_path / "probe")
    done = subprocess.run(
        [sys.executable, "-m", "tests.patching.wire_cuts", str(tmp_path), mode],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows.pop()["total"] > 70
    for row in rows:
        must_hold(row)
    for verb in ("apply", "revert"):
        steps = [row["at"] for row in rows if row["verb"] == verb and row["hit"]]
        assert steps == list(range(1, max(steps) + 1)), f"every step of {verb} once"
    if mode == "gone":
        assert {row["mode"] for row in rows} == {"link", "console"}
    else:
        assert {row["outcome"] for row in rows} == {"done", "failed"}

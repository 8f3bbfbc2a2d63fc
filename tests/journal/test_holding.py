"""One console at a time is at a host's experiments, and a killed one holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.errors import RefusedError
from console.journal.holding import held, holder
from console.operations.desk import Desk
from tests.local import desk

__all__ = ["desk"]

HOLDS = """
import sys
from console.journal.holding import held
with held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def another(host: str) -> subprocess.Popen[str]:
    """Return a console that holds a host's experiments."""
    console = subprocess.Popen(
        [sys.executable, "-c", HOLDS, host], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert console.stdout is not None and console.stdout.readline() == "held\n"
    return console


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))


def test_a_host_is_held_by_one_and_told_by_its_process() -> None:
    assert holder("a") is None
    with held("a"):
        assert (holder("a"), holder("b")) == (os.getpid(), None)
        with pytest.raises(RefusedError, match=f"under way on a, in the console with pid {os.getpid()}"), held("a"):
            pass
    assert holder("a") is None


async def test_what_would_disturb_another_console_is_refused_until_it_is_killed(desk: Desk) -> None:
    host = desk.link.host.name
    console = another(host)
    try:
        assert holder(host) == console.pid
        with pytest.raises(RefusedError, match=f"serve stop: an experiment is under way .* pid {console.pid}"):
            desk.must_write("serve stop")
    finally:
        console.kill()
        console.communicate()
    desk.must_write("serve stop")
    with held(host):
        desk.must_write("serve stop")

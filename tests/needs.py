"""What some tests need of the machine: skipped without it at a desk, failed under CI, where the gate must hold."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """Skip the test; under CI fail it, so that the gate never passes by leaving it out."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must provide it: {what}")
    pytest.skip(what)


def root(why: str) -> None:
    """Go on only as root."""
    if os.geteuid() != 0:
        lacking(f"root, {why}")


def mounted(*argv: str, at: Path) -> None:
    """Mount at a folder; the caller unmounts."""
    at.mkdir(exist_ok=True)
    root("to mount")
    done = subprocess.run(["mount", *argv, str(at)], capture_output=True, text=True, check=False)
    if done.returncode:
        lacking(f"the right to mount ({' '.join(argv)}): {done.stderr.strip()}")


def unmount(at: Path) -> None:
    """Take a mount away."""
    subprocess.run(["umount", str(at)], check=True)

"""Packages that we did not write: fetched from the index once, kept under pytest's cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest


def wheel(config: pytest.Config, name: str, version: str, python: str = "3.11") -> Path:
    """Return a wheel; skips the test where the index cannot be reached, fails it under CI."""
    folder = Path(config.cache.mkdir("wheels")) if config.cache else Path()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # suites run in several processes; the second finds what the first fetched
        found = sorted(folder.glob(f"{name}-{version}-*.whl"))
        complaint = "" if found else _fetch(folder, name, version, python)
        found = found or sorted(folder.glob(f"{name}-{version}-*.whl"))
    if not found:
        reason = f"cannot fetch {name} {version}: {complaint.strip().splitlines()[-1:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found[0]


def _fetch(folder: Path, name: str, version: str, python: str) -> str:
    """Fetch a wheel, whole or not at all, and return what pip complained of."""
    with tempfile.TemporaryDirectory(dir=folder) as coming:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, "--dest", coming]
        for platform in ("any", "manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64"):
            command += ["--platform", platform]
        done = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True)
        for file in Path(coming).glob("*.whl"):
            file.replace(folder / file.name)
    return done.stderr


def checkout(config: pytest.Config, folder: Path, name: str, version: str) -> Path:
    """Unpack a wheel into `folder`, commit it to git, and return `folder`."""
    with zipfile.ZipFile(wheel(config, name, version)) as archive:
        archive.extractall(folder)
    commit_all(folder)
    return folder


def git(folder: Path, *args: str) -> str:
    """Run git with settings of its own."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    names = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *names, *args], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def commit_all(folder: Path) -> None:
    """Make `folder` a checkout with everything committed."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "as it came")


@pytest.fixture(scope="session")
def sglang_059(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with `sglang` 0.5.9 from its wheel; not to be changed."""
    return checkout(request.config, tmp_path_factory.mktemp("sglang"), "sglang", "0.5.9")

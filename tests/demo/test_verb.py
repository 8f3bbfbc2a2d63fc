"""The demo in a shell: `--host demo` joins, `demo stop` ends, the tour tells what did not come true."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from console.cli.output import Output
from console.cli.tour import Walk, _own_environment
from console.config.paths import find_profile
from console.config.profiles import load_profile
from console.demo import control

PROFILES = ("demo", "demo-wide", "demo-cutlass", "demo-fusion", "demo-fast")


def tokwatt(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TOKWATT_DEMO_HOME": str(folder), "XDG_DATA_HOME": str(folder) + "-data"}
    argv = [sys.executable, "-m", "console", *args]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=90)


def test_joins_by_name_and_stops(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    try:
        none = tokwatt(folder, "demo", "stop")
        assert (none.returncode, none.stdout) == (6, "")
        found = tokwatt(folder, "--host", "demo", "which")
        assert found.returncode == 0
        assert found.stdout.strip() == str(folder / "home" / "sglang" / "python" / "sglang")
        assert control.running(folder) is not None
        assert tokwatt(folder, "demo", "stop").returncode == 0
        assert control.running(folder) is None
    finally:
        control.stop(folder)


def test_a_wrong_word_is_usage(tmp_path: Path) -> None:
    assert tokwatt(tmp_path / "demo", "demo", "start").returncode == 2


@pytest.mark.parametrize("name", PROFILES)
def test_its_profiles_name_no_host_and_one_model(name: str) -> None:
    profile = load_profile(find_profile(name))
    assert profile.host.ssh == ""
    assert profile.launch.args["model-path"] == "demo/GLM-5-NVFP4"
    assert profile.launch.args["tp-size"] == 8


@pytest.mark.parametrize(("found", "held"), [(880.0, True), (880 * 1.059, True), (880 * 0.93, False), (None, False)])
def test_the_tour_holds_numbers_to_the_story(found: float | None, held: bool) -> None:
    said = io.StringIO()
    desk: Any = None
    walk = Walk(Output(stdout=said), desk, Path("/nowhere"), 0)
    walk.near("the state in which it was found", found, 880)
    assert ("✓" in said.getvalue()) is held
    assert bool(walk.missed) is not held


def test_the_tour_leaves_the_environment_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/mine")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with _own_environment(tmp_path):
        assert os.environ["XDG_DATA_HOME"] == str(tmp_path / "data")
    assert os.environ["XDG_DATA_HOME"] == "/mine"
    assert "XDG_CONFIG_HOME" not in os.environ

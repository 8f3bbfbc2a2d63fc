"""The story on the demo host, through the shell, its console killed on the way: one change at a time to the winner."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.config.profiles import load_profile
from console.demo import layout
from console.demo.control import join, stop
from console.journal.book import Journal
from console.operations import patches, server
from console.operations.measure import sweep
from console.operations.opening import open_desk
from console.remote.target import Target
from tests.ssh_servers import free_port

ROOT = Path(__file__).parents[2]
BASE = """schema = 1
extends = "demo"
[launch]
port = {port}
[launch.env]
TOKWATT_DEMO_SPEED = "40"
"""
STORY = """schema = 1
title = "From 880 to the winner, one change at a time"
base = "as-found"
[measure]
concurrency = [128]
input_tokens = 16
output_tokens = 6
requests_per_stream = 1
repeats = 4
tolerate = ["the client was"]            # this machine runs the host, its engine and the load on few cores

[[arm]]
name = "wide"
hypothesis = "64 running requests starve the batch"
args = { max-running-requests = 2048, disable-cuda-graph = true }

[[arm]]
name = "autotune"
hypothesis = "tuned kernels"
extends = "wide"
patches = ["flashinfer-cutlass-autotune"]

[[arm]]
name = "fusion"
hypothesis = "fewer all-reduce launches"
extends = "wide"
args = { enable-flashinfer-allreduce-fusion = true }
patches = ["allreduce-fusion-sm120"]
"""
KILLED_AFTER = 5
"""Measurements."""


class Shell:
    """The shell door, in a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "TOKWATT_DEMO_HOME": str(folder / "demo"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(ROOT),
        }

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "console", "--host", "demo", *words],
            env=self.env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    async def run(self, *words: str) -> tuple[int, dict[str, Any], str]:
        console = self.begin("--json", *words)
        out, said = await asyncio.to_thread(console.communicate, None, 420)
        return console.returncode, json.loads(out) if out.strip() else {}, said


@pytest.fixture
async def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shell]:
    """A demo host, and a folder with the experiment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path)
    await asyncio.to_thread(join, tmp_path / "demo")
    (tmp_path / "as-found.toml").write_text(BASE.format(port=free_port()))
    (tmp_path / "story.toml").write_text(STORY)
    yield shell
    await asyncio.to_thread(stop, tmp_path / "demo")


async def measured(journal: Journal) -> int:
    from console.journal import experiments

    found = await experiments.listed(journal)
    return sum(event.kind == "measured" for entry in found for event in entry.events)


async def a_console_begins_and_is_killed(shell: Shell) -> None:
    console = shell.begin("experiment", "run", "story.toml")
    try:
        async with asyncio.timeout(180):
            while await measured(Journal()) < KILLED_AFTER:
                assert console.poll() is None, console.communicate()[1]
                await asyncio.sleep(0.1)
    finally:
        console.send_signal(signal.SIGKILL)
        console.communicate()


def arms(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {arm["name"]: arm for arm in told["arms"]}


@pytest.mark.timeout(700)
async def test_the_story_from_as_found_to_the_winner(shell: Shell) -> None:
    status, plan, _ = await shell.run("experiment", "plan", "story.toml")
    assert status == 0
    assert arms(plan)["autotune"]["verdict"] == "same arm" and "moe-runner-backend" in arms(plan)["autotune"]["reason"]
    assert plan["restarts"] and plan["measurements"]
    await a_console_begins_and_is_killed(shell)
    status, _, said = await shell.run("experiment", "run", "story.toml")
    assert status == 3 and "is unfinished on demo" in said
    status, told, said = await shell.run("experiment", "resume", "story.toml")
    assert status == 0, (told, said)
    wide, autotune, fusion = (arms(told)[name] for name in ("wide", "autotune", "fusion"))
    assert (wide["verdict"], autotune["verdict"], fusion["verdict"]) == ("KEEP", "same arm", "REVERT"), said
    assert wide["rungs"][0]["ratio"] == pytest.approx(1290 / 880, rel=0.25)
    assert not autotune["rungs"] and not autotune["runs"]
    assert fusion["rungs"][0]["ratio_high"] < 0.5
    assert fusion["rolled_back_to"] == "wide" and fusion["relaunched_at"] >= fusion["rolled_back_at"]
    assert "K2-Thinking" in told["target"] and "not compared" in told["target"]
    assert (told["winner"], told["badge"], told["state"].split(":")[0]) == ("wide", "DEMO", "wide")
    assert told["confirmed"][0]["ratio_low"] > 1
    the_patches_are_off(shell)
    assert (await shell.run("experiment", "report", "story.toml"))[1] == told
    await another_model_is_refused(shell)
    await the_saved_winner_replays(shell, told)


def the_patches_are_off(shell: Shell) -> None:
    checkout = layout.package_folder(shell.folder / "demo")
    assert "is_sm120_supported,\n" not in (checkout / "srt/layers/communicator.py").read_text()


async def another_model_is_refused(shell: Shell) -> None:
    """The number that the story wanted to reach was another model's."""
    (shell.folder / "k2.toml").write_text(
        'schema = 1\nbase = "as-found"\n[[arm]]\nname = "k2"\nargs = { model-path = "demo/K2-Thinking" }\n'
    )
    status, _, said = await shell.run("experiment", "run", "k2.toml")
    assert status == 3 and "another model, not compared: --model-path demo/K2-Thinking" in said


async def the_saved_winner_replays(shell: Shell, told: dict[str, Any]) -> None:
    status, saved, said = await shell.run("experiment", "save", "story.toml", "story-winner")
    assert status == 0, said
    path = Path(saved["path"])
    evidence = tomllib.loads(path.read_text())["winner"]
    assert (evidence["arm"], evidence["badge"], evidence["over_base"]["pairs"]) == ("wide", "DEMO", 3)
    door = await asyncio.to_thread(join, shell.folder / "demo")
    target = Target(
        "demo", address=door.address, port=door.port, user=door.user, key_files=(door.key_file,),
        known_hosts=door.known_hosts, read_config=False, badge="DEMO",
    )  # fmt: skip
    desk = await open_desk(target, profile=str(path))
    try:
        await server.stop(desk, await server.find_run(desk, arms(told)["wide"]["runs"][-1]))
        desk.profile = replace(load_profile(path), name="story-winner")
        await server.wait_ready(desk, await server.start(desk), deadline_s=60)
        assert [status.disk.value for status in await patches.statuses(desk, ["allreduce-fusion-sm120"])] == ["off"]
        async for progress in sweep(desk, repeats=1):
            done = progress.done
        assert done[0].output_throughput_tok_s == pytest.approx(evidence["over_base"]["winner"], rel=0.25)
        await server.stop(desk)
    finally:
        await desk.link.close()

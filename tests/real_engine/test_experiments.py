"""Experiments on a real server: flags that earn their place or not, through the shell, its console killed on the way."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from console.domain.run import RunPhase
from console.journal import experiments as entries
from console.journal.book import Journal
from console.operations import server
from tests.real_engine.conftest import Bay
from tests.real_engine.gguf_model import Shape, write_gguf

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(400)]

SHAPE = Shape(layers=1, hidden=256, heads=4, inner=1024)
"""Slow enough that the server, not the load, makes the number."""

EXPERIMENT = """schema = 1
title = "How many slots"
base = "some"
[measure]
concurrency = [16]
input_tokens = 4
output_tokens = 64
requests_per_stream = 2
repeats = 6
confirm = 5
relaunch = "each"                        # a start takes a moment here, and shared launches make intervals wider
metric = "ttft_p50_ms"
tolerate = ["the client was late"]       # host, engine, load and other tests share few cores

[[arm]]
name = "wide"
hypothesis = "of 16 streams, 14 wait for a slot"
args = { parallel = 16 }

[[arm]]
name = "narrow"
extends = "wide"
hypothesis = "one request at a time has the processor for itself"
args = { parallel = 1 }

[[arm]]
name = "nothing"
args = { no-mmap = false }

[[arm]]
name = "default"
hypothesis = "it is the name that the server takes by itself"
args = { alias = "tiny" }
"""
WANTED = {"wide": "KEEP", "narrow": "REVERT", "nothing": "same arm", "default": "same arm"}

KILLED_AFTER = 5
"""Measurements."""


async def visits() -> Counter[tuple[str, int, str]]:
    """Return what was measured: stage, block and arm, with how often."""
    return Counter(
        (str(event.data["stage"]), int(event.data["block"]), str(event.data["arm"]))
        for entry in await entries.listed(Journal())
        for event in entry.events
        if event.kind == "measured"
    )


async def a_console_begins_and_is_killed(bay: Bay, file: Path) -> Counter[tuple[str, int, str]]:
    console = subprocess.Popen(
        bay.command("experiment", "run", str(file)), env=bay.environment(), cwd=bay.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(180):
            while sum((await visits()).values()) < KILLED_AFTER:
                assert console.poll() is None, console.communicate()
                await asyncio.sleep(0.1)
    finally:
        console.send_signal(signal.SIGKILL)
        console.communicate()
    return await visits()


def arms(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {arm["name"]: arm for arm in told["arms"] if arm["against"]}


async def test_a_flag_is_kept_its_opposite_reverted_and_what_is_alike_not_measured(llama_bay: Bay) -> None:
    llama_bay.model = write_gguf(llama_bay.folder / "model.gguf", SHAPE)
    base = llama_bay.llama_profile("some", "metrics = true\nprops = true\nctx-size = 8192\nparallel = 2")
    file = llama_bay.folder / "slots.toml"
    file.write_text(EXPERIMENT)
    before = await a_console_begins_and_is_killed(llama_bay, file)
    done = await asyncio.to_thread(llama_bay.shell, "experiment", "resume", str(file), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found = arms(told)
    assert {name: arm["verdict"] for name, arm in found.items()} == WANTED, done.stderr
    assert told["winner"] == "wide" and told["confirmed"][0]["ratio_high"] < 1
    assert found["wide"]["rungs"][0]["ratio_high"] < 1 < found["narrow"]["rungs"][0]["ratio_low"]
    after = await visits()
    assert before <= after and set(after.values()) == {1}
    assert len(before) >= KILLED_AFTER and len(after) > len(before)
    assert not [arm for _, _, arm in after if arm in ("nothing", "default")]
    assert not found["nothing"]["runs"] and "resolves to the same launch" in found["nothing"]["reason"]
    assert len(found["default"]["runs"]) == 1
    assert "the server says that the same arguments are in force" in found["default"]["reason"]
    narrow = found["narrow"]
    assert narrow["rolled_back_to"] == "wide" and narrow["relaunched_at"] >= narrow["rolled_back_at"]
    desk = await llama_bay.desk(base)
    run = await server.status(desk)
    assert run is not None and (run.profile, run.phase) == ("some+wide", RunPhase.READY)
    assert (await server.resolved_arguments(desk, run))["parallel"] == 16

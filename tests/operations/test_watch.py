"""Watching fills the store: a minute of watts, and the log's speed where nothing else answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from console.domain.run import Run, RunPhase
from console.operations.desk import Desk
from console.operations.watch import watch_gpus, watch_throughput
from console.remote.link import HostLink
from console.remote.local import LocalTransport


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    link = HostLink(LocalTransport())
    await link.connect()
    yield Desk(link)
    await link.close()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_history_is_a_mean_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(
        '#!/bin/sh\nfields=$(echo "$1" | cut -d= -f2)\nwhile :; do for gpu in 0 1; do row=\n'
        "for f in $(echo $fields | tr , ' '); do case $f in index) v=$gpu;; uuid) v=GPU-$gpu;; power.draw.instant) v=$((250 + gpu));;"
        ' *) v=\'[N/A]\';; esac; row="$row, $v"; done; echo "${row#, }"; done; sleep 0.2; done\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TOKWATT_GPU_SOURCE", "nvidia-smi")
    link = HostLink(LocalTransport())
    await link.connect()
    desk = Desk(link)
    try:
        async with asyncio.timeout(30), running(watch_gpus(desk)):
            async for snapshot in desk.store.changes():
                if len(snapshot.gpu_history) >= 2:
                    break
    finally:
        await link.close()
    assert [watts for _, watts in snapshot.gpu_history] == [(250, 251), (250, 251)]
    assert snapshot.gpu_history[1][0] - snapshot.gpu_history[0][0] == 1
    assert snapshot.gpus is not None and snapshot.gpus.power_w == 501


async def test_the_log_is_the_last_source(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    line = (
        "[2026-12-02 09:00:0{n} TP0] Decode batch, #running-req: 8, #token: 900, token usage: 0.25, "
        "cuda graph: True, gen throughput (token/s): {speed}, #queue-req: 3\n"
    )
    log.write_text("")
    run = Run("r", "p", "sglang", str(tmp_path), str(log), 9, time.time(), phase=RunPhase.READY)
    desk.store.update(run=run)
    async with asyncio.timeout(30), running(watch_throughput(desk)):
        speeds = iter(range(400, 500))
        async for snapshot in desk.store.changes():
            found = snapshot.throughput
            if found is not None and found.output_tok_s:
                break
            with log.open("a") as file:
                speed = next(speeds)
                file.write(line.format(n=speed % 10, speed=f"{speed}.50"))
    assert found is not None and found.source == "log" and 400 < (found.output_tok_s or 0) < 500
    assert (found.running, found.queued, found.kv_usage) == (8, 3, 0.25)
    assert "/metrics: " in found.reason
    assert snapshot.best_tok_s is None  # one reading is no best


async def test_another_run_begins_with_another_best(desk: Desk, tmp_path: Path) -> None:
    run = Run("r1", "p", "sglang", str(tmp_path), "", 9, 1.0, phase=RunPhase.STARTING)
    desk.store.update(run=run, best_tok_s=5000.0)
    async with asyncio.timeout(30), running(watch_throughput(desk)):
        async for snapshot in desk.store.changes():
            if snapshot.throughput is not None:
                break
        assert snapshot.best_tok_s == 5000
        desk.store.update(run=Run("r2", "p", "sglang", str(tmp_path), "", 9, 2.0, phase=RunPhase.STARTING))
        async for snapshot in desk.store.changes():
            if snapshot.best_tok_s is None:
                break
    assert snapshot.throughput is not None and snapshot.throughput.source == ""

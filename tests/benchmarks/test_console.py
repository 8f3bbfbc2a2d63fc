"""From a reading on the host to the painted cell over a link of 50 ms, and the console's processor time beside nvitop's.

Both are on this machine, so that host and console have one clock; the link is a proxy that holds every byte back.
Budgets: 10 % of a core at 10 Hz, 150 kB/s to the terminal. Gauges alone are painted four times a second.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.benchmarks.delayed import delayed
from tests.benchmarks.round_trips import _through
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.test_probe import PEER, _environment, _nvitop, _processor_s
from tests.ssh_servers import OpenSshServer

SECONDS = 20.0
DELAY_S = 0.025


@asynccontextmanager
async def cockpit(folder: Path, *, gpus: bool) -> AsyncIterator[tuple[Terminal, Path]]:
    """Yield a cockpit on a terminal, connected over 50 ms to a host with 8 GPUs or none."""
    folder.mkdir()
    extra = ""  # an SSH session has an environment of its own
    if gpus and (stub := _environment(folder)).get("STUB_NVML"):
        extra = f"SetEnv LD_LIBRARY_PATH={stub['LD_LIBRARY_PATH']} STUB_NVML={stub['STUB_NVML']}\n"
    async with OpenSshServer(folder / "ssh", extra) as server, delayed(server.target.port, DELAY_S) as port:
        target, out = _through(server.target, port, folder), folder / "ages"
        argv = [sys.executable, "-m", "tests.benchmarks.painted", json.dumps(dataclasses.asdict(target)), str(out)]
        terminal = Terminal(argv, env={"TOKWATT_DATA": str(folder / "data"), "LD_LIBRARY_PATH": ""})
        try:
            yield terminal, out
        finally:
            terminal.close()
            await asyncio.sleep(0.5)  # the proxy sees its ends


async def spent(terminal: Terminal) -> tuple[float, float]:
    """Return percent of a core and kB/s to the terminal."""
    began, before = time.monotonic(), _processor_s(terminal.pid)
    got = await asyncio.to_thread(terminal.read_all, SECONDS)
    lasted = time.monotonic() - began
    return 100 * (_processor_s(terminal.pid) - before) / lasted, got / lasted / 1000


async def test_event_to_paint_and_processor_time(tmp_path: Path) -> None:
    rows: list[tuple[str, float, float]] = []
    async with cockpit(tmp_path / "idle", gpus=False) as (terminal, _):
        await asyncio.to_thread(terminal.read_all, 12)
        rows.append(("tokwatt, no GPU, no server", *await spent(terminal)))
    async with cockpit(tmp_path / "busy", gpus=True) as (terminal, out):
        await asyncio.to_thread(terminal.read_all, 12)
        skipped = len(out.read_text().split())
        rows.append(("tokwatt, 8 GPUs at 10 Hz (budget 10 %, 150 kB/s)", *await spent(terminal)))
        ages = sorted(map(float, out.read_text().split()[skipped:]))
    if await asyncio.to_thread(_nvitop):
        peer = Terminal([str(PEER / "bin" / "nvitop"), "--interval", "0.25"], env=_environment(tmp_path))
        try:
            await asyncio.to_thread(peer.read_all, 6)
            rows.append(("nvitop, local, four times a second", *await spent(peer)))
        finally:
            peer.close()
    for name, share, traffic in rows:
        print(f"\n{name}: {share:.1f} % of a core, {traffic:.0f} kB/s", end="")
    p99 = ages[int(0.99 * (len(ages) - 1))]
    print(
        f"\nhost event to painted cell, 50 ms link, {len(ages)} paints: p50 {statistics.median(ages):.0f} ms, p99 {p99:.0f} ms"
    )
    assert len(ages) > SECONDS

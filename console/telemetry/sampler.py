"""GPU samples of a host: the probe sent, read and sent again after a reconnect; a reason when none comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from console.domain.gpu import GpuSample
from console.domain.host import Link
from console.errors import ConsoleError
from console.remote.channel import Channel
from console.remote.link import HostLink
from console.telemetry.readings import Readings
from console.telemetry.reports import parse_gpu_file
from console.telemetry.smi import KNOWN

PAUSE_S = 2.0
"""Before the probe is sent again after it ended by itself."""

LONGEST_PAUSE_S = 30.0
NOTICE_S = 0.3
"""A channel that ended is a lost link, if the link says so within this time."""

POLL_S = 2.0
"""Period of the poll on a host without Python."""

LINE_LIMIT = 1 << 20

POLLED = ("timestamp", "index", "uuid", "name", "power.draw", "power.limit", "utilization.gpu", "memory.used",
          "memory.total", "temperature.gpu", "clocks.sm")  # fmt: skip
assert set(POLLED) <= KNOWN


async def samples(link: HostLink, *, hz: float = 10.0) -> AsyncGenerator[GpuSample, None]:
    """Yield samples without end, across lost links; a sample without GPUs says why there are none.

    Args:
        link: The host.
        hz: Samples a second, at most 10.
    """
    pause = PAUSE_S
    while True:
        came = False
        try:
            source = _polled(link) if link.state.degraded else _probed(link, hz)
            async with aclosing(source) as stream:
                async for sample in stream:
                    came = came or bool(sample.gpus)
                    yield sample
            reason = "the probe ended"
        except ConsoleError as error:
            reason = error.title
        await asyncio.sleep(NOTICE_S)
        if link.state.link is Link.UP:
            yield GpuSample(time.time(), "", reason=reason, received=time.monotonic())
        else:  # the last readings stay, with their age: nothing is wrong with the GPUs
            await until_up(link)
        pause = PAUSE_S if came else min(pause * 2, LONGEST_PAUSE_S)
        await asyncio.sleep(pause)


async def until_up(link: HostLink) -> None:
    """Return when the link is up."""
    if link.state.link is Link.UP:
        return
    async with aclosing(link.changes()) as changes:  # type: ignore[type-var]
        async for state in changes:
            if state.link is Link.UP:
                return


async def _probed(link: HostLink, hz: float) -> AsyncGenerator[GpuSample, None]:
    readings = Readings()
    async with link.program("console.telemetry.probe", "run", ["--hz", f"{hz:g}"], extra=("pynvml",)) as channel:
        async for line in lines(channel):
            sample = readings.feed(line)
            if sample is not None:
                yield sample
        complaint = channel.complaint().decode("utf-8", "replace").strip().splitlines()
        if complaint:
            yield GpuSample(time.time(), "", reason=f"probe: {complaint[-1][:300]}", received=time.monotonic())


async def lines(channel: Channel) -> AsyncIterator[bytes]:
    """Yield the whole lines of a program's output; one beyond the limit is dropped."""
    rest = bytearray()
    while chunk := await channel.read():
        rest += chunk
        *whole, last = rest.split(b"\n")
        rest = bytearray(last[-LINE_LIMIT:])
        for line in whole:
            yield bytes(line)


async def _polled(link: HostLink) -> AsyncGenerator[GpuSample, None]:
    """Ask `nvidia-smi` again and again where no program of ours can run."""
    argv = ["nvidia-smi", "--query-gpu=" + ",".join(POLLED), "--format=csv,noheader,nounits"]
    while True:
        began = time.monotonic()
        done = await link.run(argv, deadline_s=20)
        found = parse_gpu_file(done.output or done.complaint, POLLED)
        for sample in found or [GpuSample(0.0, "", reason=f"nvidia-smi: exit {done.status}, nothing said")]:
            yield GpuSample(time.time(), sample.source, sample.gpus, sample.reason, time.monotonic())
        await asyncio.sleep(max(0.1, POLL_S - (time.monotonic() - began)))

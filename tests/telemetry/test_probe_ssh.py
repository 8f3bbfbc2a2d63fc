"""The probe over SSH, in-process server and real sshd: same samples, and nothing left afterwards."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from console.remote.target import Target
from console.telemetry.sampler import samples


async def test_eight_gpus_over_ssh(ssh_host: Target, stub_nvml: Path) -> None:
    # An SSH session has an environment of its own: `env` before the interpreter brings the stub in.
    link = HostLink(SshTransport(ssh_host), prefix=("env", f"LD_LIBRARY_PATH={stub_nvml}"))
    await link.connect()
    try:
        async with asyncio.timeout(30), aclosing(samples(link, hz=10)) as stream:
            async for sample in stream:
                if sample.gpus:
                    break
        assert sample.source == "nvml" and sample.power_w == 2028 and sample.gpus[2].throttle is not None
        async with asyncio.timeout(15):
            while _probes(stub_nvml) > 1:  # the outpost goes on
                await asyncio.sleep(0.05)
    finally:
        await link.close()
    async with asyncio.timeout(15):
        while _probes(stub_nvml):
            await asyncio.sleep(0.05)


def _probes(stub: Path) -> int:
    """Return how many processes have the stub's folder in their environment."""
    count = 0
    for folder in Path("/proc").iterdir():
        try:
            count += folder.name.isdigit() and f"LD_LIBRARY_PATH={stub}".encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
    return count

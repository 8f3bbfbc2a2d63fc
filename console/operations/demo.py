"""The demo host: join it, end it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from console.remote.target import Target

BADGE = "DEMO"


async def join_demo(folder: Path | None = None) -> Target:
    """Return the demo host as a target, started now when none runs.

    Args:
        folder: Instead of the login's own demo host.

    Raises:
        ConsoleError: It does not come up.
    """
    from console.demo import control

    door = await asyncio.to_thread(control.join, folder)
    return Target(
        name="demo",
        address=door.address,
        port=door.port,
        user=door.user,
        key_files=(door.key_file,),
        known_hosts=door.known_hosts,
        read_config=False,
        badge=BADGE,
    )


async def stop_demo(folder: Path | None = None) -> bool:
    """End the demo host with every process on it; return whether there was one."""
    from console.demo import control

    return await asyncio.to_thread(control.stop, folder)

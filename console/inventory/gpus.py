"""What GPUs a host has, as far as its driver says without being sampled."""

from __future__ import annotations

import re

from console.errors import RemoteError
from console.remote.link import HostLink

QUERY = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")


async def compute_capability(link: HostLink) -> str | None:
    """Return the compute capability of the host's GPUs, `None` when it is unknown or not one."""
    try:
        done = await link.run(QUERY, deadline_s=20)
    except RemoteError:
        return None
    found = set(re.findall(r"^\s*(\d+\.\d+)\s*$", done.output.decode("ascii", "replace"), re.MULTILINE))
    return found.pop() if done.status == 0 and len(found) == 1 else None

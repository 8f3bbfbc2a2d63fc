"""Before a measurement: the engine idle, its prefix cache empty; and what it said when asked for that."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.domain.text import clean, counted
from console.engines.registry import engine
from console.telemetry.sources import EngineSources

if TYPE_CHECKING:
    import httpx

IDLE_PATIENCE_S = 60.0
POLL_S = 0.5
FLUSH_TRIES = 10


@dataclass(frozen=True, slots=True)
class Flushed:
    """Whether the cache was emptied, with the engine's answer as the proof."""

    done: bool
    answer: str


async def wait_idle(sources: EngineSources, patience_s: float = IDLE_PATIENCE_S) -> str:
    """Wait until nothing runs and nothing waits, twice in a row; return why not, else empty."""
    until = time.monotonic() + patience_s
    calm = 0
    last = "the engine did not say"
    while time.monotonic() < until:
        load = await sources.load()
        if load is None or load.running is None:
            return "not known whether the engine was idle"
        busy = load.active if load.active is not None else (load.running + (load.queued or 0))
        calm = calm + 1 if not busy else 0
        if calm >= 2:
            return ""
        last = f"{counted(int(busy), 'other request')} {'was' if busy == 1 else 'were'} in flight"
        await asyncio.sleep(POLL_S)
    return last


async def flush(client: httpx.AsyncClient, kind: str) -> Flushed:
    """Empty the prefix cache; the engine refuses while anything runs, so it is asked again."""
    import httpx

    path, answer = engine(kind).flush_path, ""
    if not path:
        return Flushed(False, f"{kind} has no call that empties it")
    for _ in range(FLUSH_TRIES):
        try:
            reply = await client.post(path)
        except httpx.HTTPError as error:
            return Flushed(False, str(error) or type(error).__name__)
        answer = f"HTTP {reply.status_code}: {clean(reply.text.strip(), 200)}"
        if reply.status_code == 200:
            return Flushed(True, answer)
        if reply.status_code in (404, 405):
            unlocks = engine(kind).unlocks
            answer += f"; {kind} has it only with {unlocks} under [launch.env]" * bool(unlocks)
            break
        await asyncio.sleep(POLL_S)
    return Flushed(False, answer)

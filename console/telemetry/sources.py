"""Where an engine's speed is read: `/metrics`, then `/v1/loads`, then `/server_info`; never `/health`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from console.domain.throughput import ThroughputSample
from console.telemetry import metrics
from console.telemetry.latencies import Latencies
from console.telemetry.throughput import Reading, Speeds, from_loads, from_series, from_server_info, merged

if TYPE_CHECKING:
    import httpx

LOOK_AGAIN_S = 30.0
"""A better source is looked for so often, while a worse one is in use."""
NOT_NOW = (429, 502, 503, 504)
"""Say nothing about the path: a server that is still warming up, or the proxy before it."""


class EngineSources:
    """Reads one engine from the best source that answers.

    Args:
        client: HTTP client to the engine's port.
        clock_offset_s: Host's wall clock minus ours.
    """

    def __init__(self, client: httpx.AsyncClient, clock_offset_s: float = 0.0) -> None:
        self._client = client
        self._offset_s = clock_offset_s
        self._speeds = Speeds()
        self._latencies = Latencies()
        self._series: Sequence[metrics.Series] = ()
        self._failed: dict[str, float] = {}
        self._why: dict[str, str] = {}

    async def sample(self) -> ThroughputSample:
        """Return one sample; without any source, one that says why."""
        reading = await self.reading()
        if reading is None:
            why = "; ".join(f"{path}: {reason}" for path, reason in self._why.items())
            return ThroughputSample(
                time.time() + self._offset_s, "", reason=why or "no source answered", received=time.monotonic()
            )
        told = self._latencies.step(reading.time, self._series) if reading.source == "/metrics" else {}
        return replace(self._speeds.step(reading), received=time.monotonic(), latencies=told)

    async def reading(self) -> Reading | None:
        """Return what the best source says now."""
        text = await self._get("/metrics")
        if text is not None:
            self._series = metrics.parse(text)
            found = from_series(self._series, self._now())
            if found.running is not None or found.decoded is not None:
                return found
            self._fail("/metrics", "nothing known in it")
        loads = await self._json_reading("/v1/loads", from_loads)
        if loads is not None and loads.speed is not None:
            return loads
        if loads is None:
            loads = await self._json_reading("/get_load", from_loads)
        info = await self._json_reading("/server_info", from_server_info)
        if info is not None and info.speed is not None:
            return merged(info, loads) if loads is not None else info
        return loads

    async def load(self) -> Reading | None:
        """Return running and waiting requests from the source that lags least, for "is it idle"."""
        for path in ("/get_load", "/v1/loads"):
            found = await self._json_reading(path, from_loads)
            if found is not None:
                return found
        return await self.reading()

    def _now(self) -> float:
        return time.time() + self._offset_s

    def _fail(self, path: str, reason: str) -> None:
        self._failed[path] = time.monotonic()
        self._why[path] = reason

    async def _json_reading(self, path: str, parse: Callable[[object, float], Reading | None]) -> Reading | None:
        text = await self._get(path)
        if text is None:
            return None
        try:
            found = parse(json.loads(text), self._now())
        except ValueError:
            found = None
        if found is None:
            self._fail(path, "not understood")
        return found

    async def _get(self, path: str) -> str | None:
        """Return a body; a path that refused is left alone for a while, an engine that is away or busy is not."""
        import httpx

        if time.monotonic() - self._failed.get(path, -LOOK_AGAIN_S) < LOOK_AGAIN_S:
            return None
        try:
            answer = await self._client.get(path)
        except httpx.HTTPError as error:
            self._why[path] = str(error) or type(error).__name__
            return None
        if answer.status_code in NOT_NOW:
            self._why[path] = f"HTTP {answer.status_code}"
            return None
        if answer.status_code != 200:
            self._fail(path, f"HTTP {answer.status_code}")
            return None
        self._why.pop(path, None)
        return answer.text

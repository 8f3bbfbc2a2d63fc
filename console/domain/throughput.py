"""How fast a server is now, with the source of each reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.domain.measurement import Percentiles


@dataclass(frozen=True, slots=True)
class ThroughputSample:
    """One reading of a server's speed and queues."""

    time: float
    """Host's wall clock, seconds since the epoch."""
    source: str
    """`/metrics`, `/v1/loads`, `/server_info`, `log`, or empty when nothing answered."""
    output_tok_s: float | None = None
    input_tok_s: float | None = None
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    """0 to 1."""
    cache_hit: float | None = None
    """0 to 1."""
    retracted: int | None = None
    """Retractions since the server started."""
    idle: bool = False
    """Nothing runs and nothing waits: no speed, rather than a slow one."""
    stale: bool = False
    """The source repeats itself: the values are older than `time`."""
    reason: str = ""
    received: float = 0.0
    """Console's `time.monotonic()`."""
    output_tokens: float | None = None
    """Output counter since the server started; `None` where the source counts none."""
    input_tokens: float | None = None
    """Prompt tokens computed since the server started."""
    accept_length: float | None = None
    """Tokens taken a step with speculative decoding."""
    retracted_per_s: float | None = None
    """Retractions or preemptions over the last step."""
    latencies: Mapping[str, Percentiles] = field(default_factory=dict)
    """`ttft`, `itl`, `e2el` of the last window, from the engine's own histograms: bounds, not exact values."""

"""What was measured: one load at one concurrency, and ladders of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ENOUGH = {0.5: 2, 0.9: 10, 0.99: 100}
"""Samples below which a percentile is not told: fewer than one of them would lie beyond it."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A latency distribution in milliseconds; a percentile without enough samples is `None`."""

    count: int
    mean_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One load at one concurrency against one run."""

    run_id: str
    concurrency_limit: int
    repeat: int
    started_at: float
    """Host's wall clock, seconds since the epoch."""
    duration_s: float
    requests: int
    completed: int
    failed: int
    input_tokens: int
    output_tokens: int
    output_throughput_tok_s: float | None
    request_throughput_req_s: float | None
    ttft_ms: Percentiles
    itl_ms: Percentiles
    tpot_ms: Percentiles
    e2el_ms: Percentiles
    goodput_req_s: float | None = None
    peak_concurrency: int | None = None
    power_mean_w: float | None = None
    power_peak_w: float | None = None
    energy_j_per_token: float | None = None
    cached_tokens: int | None = None
    request_rate_req_s: float | None = None
    """Asked for, in an open loop; `None` is a closed one."""
    send_lag_p99_ms: float | None = None
    """How late the client sent in an open loop, waits for room included."""
    steady_tok_s: float | None = None
    """Output tok/s of the steady stretch alone; `None` when there was none (`protocol["steady"]` says why)."""
    vantage: str = "host"
    """Where the load was generated: `host` or `console`."""
    tainted: tuple[str, ...] = ()
    """Why it must not be compared: failures, retractions, warm cache, a slow client."""
    protocol: Mapping[str, object] = field(default_factory=dict)
    """Flushed, warmed up, lengths, seed."""

    def spoilt(self, tolerate: Sequence[str] = ()) -> str:
        """Return why it must not be compared; a taint in which a tolerated text stands does not count."""
        return "; ".join(why for why in self.tainted if not any(text in why for text in tolerate))


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """A ladder filling in."""

    run_id: str
    planned: tuple[int, ...]
    repeats: int
    done: tuple[Measurement, ...] = ()
    current: int | None = None
    """Concurrency being measured."""
    repeat: int = 0
    """0 for the first of this ladder, wherever its seeds begin."""
    step: str = ""
    """`waiting for idle`, `flushing`, `warming up`, `measuring`."""
    fraction: float | None = None
    live_tok_s: float | None = None
    failed: int = 0
    """Requests of the load under way that failed."""
    silent_s: float = 0.0
    """For how long now nothing has come of what is in flight."""
    error: str = ""

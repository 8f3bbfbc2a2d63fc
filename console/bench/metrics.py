"""From requests to numbers: percentiles that have enough samples, throughput, goodput under limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.domain.measurement import ENOUGH, Percentiles
from console.domain.profile import LimitsSection


@dataclass(frozen=True, slots=True)
class Request:
    """One completed request, times in seconds."""

    sent_s: float
    """After the window began."""
    ttft_s: float
    e2el_s: float
    output_tokens: int
    mean_itl_s: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; undefined for one token."""
        return (self.e2el_s - self.ttft_s) / (self.output_tokens - 1) if self.output_tokens > 1 else None


def requests_of(result: Mapping[str, Any]) -> tuple[Request, ...]:
    """Return the completed requests of a load result."""
    columns = result["columns"]
    return tuple(Request(**dict(zip(columns, row, strict=True))) for row in result["rows"])


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them by proportion."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentiles(values_s: Iterable[float | None]) -> Percentiles:
    """Return the distribution of times in seconds, in milliseconds."""
    ordered = sorted(value for value in values_s if value is not None)
    if not ordered:
        return Percentiles(0)
    found = {
        share: 1000 * quantile(ordered, share) if len(ordered) >= enough else None for share, enough in ENOUGH.items()
    }
    return Percentiles(len(ordered), 1000 * sum(ordered) / len(ordered), found[0.5], found[0.9], found[0.99])


def told_percentiles(told: Mapping[str, Any]) -> Percentiles:
    """Return a distribution that the load program summed up itself."""
    count = int(told.get("count") or 0)

    def ms(name: str, enough: int) -> float | None:
        value = told.get(name)
        return None if value is None or count < enough else 1000 * float(value)

    mean = 1000 * float(told["sum_s"]) / count if count else None
    return Percentiles(count, mean, ms("p50_s", ENOUGH[0.5]), ms("p90_s", ENOUGH[0.9]), ms("p99_s", ENOUGH[0.99]))


def meets(request: Request, limits: LimitsSection) -> bool:
    """Whether a request held every limit that is stated."""
    stated = (
        (limits.ttft_ms, request.ttft_s),
        (limits.itl_ms, request.mean_itl_s),
        (limits.e2el_ms, request.e2el_s),
    )
    return all(limit is None or value is None or 1000 * value <= limit for limit, value in stated)


def goodput(requests: Sequence[Request], limits: LimitsSection, duration_s: float) -> float | None:
    """Return requests per second that held all limits; `None` when no limit is stated."""
    if duration_s <= 0 or (limits.ttft_ms, limits.itl_ms, limits.e2el_ms) == (None, None, None):
        return None
    return sum(meets(request, limits) for request in requests) / duration_s

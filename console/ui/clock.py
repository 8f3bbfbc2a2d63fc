"""The clock of the screen: one place to read time, so that pictures can be taken of a still one."""

from __future__ import annotations

import time


def wall() -> float:
    """Return seconds since the epoch."""
    return time.time()


def monotonic() -> float:
    """Return `time.monotonic()`, the clock of ages."""
    return time.monotonic()


def of_day(seconds: float) -> str:
    """Return the local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))

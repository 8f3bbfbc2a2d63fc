"""The process table, signals by pid and start time, ports."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

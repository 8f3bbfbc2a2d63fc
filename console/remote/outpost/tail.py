"""Follow a growing file from a byte offset."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

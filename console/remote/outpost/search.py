"""Search a tree for lines."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

"""Files and folders: read a range, list, stat, hash."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

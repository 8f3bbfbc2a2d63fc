"""Write several files or none: journal, lock, compare-and-swap, read back."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

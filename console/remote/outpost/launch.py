"""Launch a server in its own session, and keep its exit status."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

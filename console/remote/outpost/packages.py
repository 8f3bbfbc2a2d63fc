"""Installed packages as an interpreter resolves them, and in-memory compiling."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

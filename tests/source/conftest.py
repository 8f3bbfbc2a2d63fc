"""Fixtures of this room."""

from __future__ import annotations

from tests.local import desk, ssh_desk
from tests.wheels import sglang_059

__all__ = ["desk", "sglang_059", "ssh_desk"]

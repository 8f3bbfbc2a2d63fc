"""tokwatt: an operator console for tuning LLM inference servers over SSH."""

from __future__ import annotations

__version__ = "0.1.0"

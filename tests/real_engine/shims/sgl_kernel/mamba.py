"""The same for the submodule of this name."""

from __future__ import annotations

from . import __getattr__ as __getattr__

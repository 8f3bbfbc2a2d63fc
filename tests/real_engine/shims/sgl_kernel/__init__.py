"""Stands for the kernel wheel, which exists for CUDA only: every name imports, none may be called.

SGLang imports kernel names at the top of its processor path and falls back to torch where the
processor has no AMX, so nothing here runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__version__ = "0.0.0+names.only"


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_args: object, **_kwargs: object) -> NoReturn:
        raise NotImplementedError(f"{name}: a kernel was called where only names of kernels are installed")

    absent.__name__ = name
    return absent

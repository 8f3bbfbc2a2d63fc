"""Lets the Python part of torchvision import beside a processor build of torch.

The compiled part of the wheel cannot load there, so two operators that its Python part wants to
register fakes for do not exist; their schemas are declared right before torchvision is imported.
"""

from __future__ import annotations

import importlib.abc
import sys
from types import ModuleType

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Finds nothing; takes the moment at which torchvision is looked for."""

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> None:
        """Declare the operators once."""
        if fullname != "torchvision":
            return
        sys.meta_path.remove(self)
        from torch import library  # type: ignore[import-not-found]

        for operator in ("nms", "qnms"):
            try:
                library.define(f"torchvision::{operator}", SCHEMA)
            except RuntimeError:
                continue  # the compiled part did load


sys.meta_path.insert(0, BeforeTorchvision())

"""The git state of a folder: commit, branch, dirty files, diffs, blobs."""

from __future__ import annotations

from .calls import Operation

OPS: dict[str, Operation] = {}

"""Small files of a run's folder: read as far as they are there, written whole or not at all."""

from __future__ import annotations

import json
import os
import threading
from typing import Any


def read_text(path: str, limit: int = -1) -> str:
    """Return a file's text, at most `limit` characters; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


def read_json(path: str) -> dict[str, Any]:
    """Return a file's object; empty when there is none."""
    try:
        value = json.loads(read_text(path) or "{}")
    except ValueError:
        value = {}
    return value if isinstance(value, dict) else {}


def put_json(path: str, value: dict[str, Any]) -> None:
    """Replace a file by an object; several may do so at once."""
    new = "%s.%d.%d.new" % (path, os.getpid(), threading.get_ident())
    with open(new, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)

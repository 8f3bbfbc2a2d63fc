"""Remote names and text in JSON, which cannot carry the bytes of every file name."""

from __future__ import annotations


def json_text(raw: bytes) -> str:
    """Return bytes as text; what is no UTF-8 becomes U+FFFD."""
    return raw.decode("utf-8", "replace")


def json_name(path: str) -> str:
    """Return a path that may hold escaped bytes."""
    return json_text(path.encode("utf-8", "surrogateescape"))

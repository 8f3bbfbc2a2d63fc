"""Path names as they travel: any bytes of a file name survive as text with surrogate escapes."""

from __future__ import annotations

import os
from typing import Any

from .calls import Call, Fault


def to_bytes(text: str) -> bytes:
    """Return the bytes of a path; `~/` is this login's home, whatever the locale says of encodings."""
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Fault("usage", "path is not text that can name a file: %r" % text) from None
    if not raw or b"\0" in raw:
        raise Fault("usage", "path is empty or holds a NUL byte")
    return os.path.expanduser(raw) if raw[:1] == b"~" and raw[1:2] in (b"", b"/") else raw


def to_text(raw: bytes) -> str:
    """Return a path as text that `to_bytes` turns back."""
    return raw.decode("utf-8", "surrogateescape")


def path_of(call: Call, name: str = "path") -> bytes:
    """Return a path argument."""
    return to_bytes(call.text(name))


def strings(call: Call, name: str) -> list[str]:
    """Return an argument that is a list of strings; none when it is not given."""
    value: Any = call.args.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Fault("usage", "argument %r must be a list of strings" % name)
    return value


def first_there(call: Call) -> bytes:
    """Return `path`, or the first of the paths of `instead` that is there when it is not."""
    tries = [call.text("path"), *strings(call, "instead")]
    for text in tries:
        raw = to_bytes(text)
        if os.path.lexists(raw):
            return raw
    return to_bytes(tries[0])

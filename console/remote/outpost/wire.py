"""Frames of the outpost: `header_length body_length\\n`, a JSON header, raw bytes."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

PROTOCOL = 1
HEADER_LIMIT = 8 * 1024 * 1024
BODY_LIMIT = 256 * 1024 * 1024

WINDOW = 64
"""Parts of one stream that travel before the reader has taken earlier ones."""


class WireError(Exception):
    """What arrived is not a frame."""


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return one frame."""
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    return b"%d %d\n" % (len(head), len(body)) + head + body


def sizes(line: bytes) -> tuple[int, int]:
    """Return header and body length of a frame's first line; `WireError` when it is none."""
    head, _, body = line.strip().partition(b" ")
    if not (head.isdigit() and body.isdigit() and len(line) < 40):
        raise WireError("not a frame: %r" % line[:60])
    lengths = int(head), int(body)
    if lengths[0] > HEADER_LIMIT or lengths[1] > BODY_LIMIT:
        raise WireError("frame too big: %d + %d bytes" % lengths)
    return lengths


def header(raw: bytes) -> dict[str, Any]:
    """Return the JSON header of a frame; `WireError` when it is none."""
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise WireError("header is not JSON: %s" % error) from None
    if not isinstance(value, dict):
        raise WireError("header is not an object")
    return value


def read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one frame from a blocking stream; `None` at its end."""
    line = stream.readline(64)
    if not line:
        return None
    head_size, body_size = sizes(line)
    head = stream.read(head_size)
    body = stream.read(body_size) if body_size else b""
    if len(head) < head_size or len(body) < body_size:
        return None
    return header(head), body

"""The probe's only voice: one JSON object a line, whole lines whatever thread speaks."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

_LOCK = threading.Lock()


def say(kind: str, **fields: Any) -> None:
    """Write one message with the host's wall and monotonic time; end when nobody listens."""
    fields["kind"] = kind
    fields["time"] = round(time.time(), 4)
    fields["mono"] = round(time.monotonic(), 4)
    data = (json.dumps(fields, separators=(",", ":")) + "\n").encode()
    try:
        with _LOCK:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    except (BrokenPipeError, ValueError, OSError):
        os._exit(0)

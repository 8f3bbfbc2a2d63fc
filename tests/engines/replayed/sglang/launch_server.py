"""`python -m sglang.launch_server --script FILE`: one recorded life again, as `tests.engines.lives` wrote it down."""

from __future__ import annotations

import base64
import calendar
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

STAMP = re.compile(rb"(?<=^\[)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.M)
CHILD = "import sys; sys.stdin.read()"
"""Ends with its parent, as SGLang's children do."""

script: dict[str, Any] = json.loads(Path(sys.argv[sys.argv.index("--script") + 1]).read_text(encoding="utf-8"))
port = int(sys.argv[sys.argv.index("--port") + 1])
speed: float = script["speed"]
asked_to_end = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())


def stamped(text: bytes, recorded: float, now: float) -> bytes:
    """Return recorded output with stamps and port of this life, of the same length."""

    def moved(match: re.Match[bytes]) -> bytes:
        then = time.strptime(match[0].decode() + " UTC", "%Y-%m-%d %H:%M:%S %Z")
        at = now + (calendar.timegm(then) - recorded) / speed
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(at, now))).encode()

    return re.sub(rb"(?<!\d)%d(?!\d)" % script["port"], b"%d" % port, STAMP.sub(moved, text))


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the recorded server did."""

    def do_GET(self) -> None:
        """Answer a path; readiness as late as it came."""
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        found = script["answers"].get(self.path.partition("?")[0])
        status, body = (404, b"") if found is None else (found["status"], base64.b64decode(found["body"]))
        if time.monotonic() < well_at:
            status, body = 503, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing: only what was recorded is printed."""


def serve() -> None:
    """Listen from the moment on at which the recorded server did."""
    time.sleep(max(0.0, began + script["listen_s"] / speed - time.monotonic()))
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def play(chunks: list[list[Any]], zero_s: float) -> None:
    """Print chunks when they are due, seconds counted from now on."""
    start, wall = time.monotonic(), time.time()
    if not chunks:
        return
    text = base64.b64decode(script["text"])
    low, high = chunks[0][1], chunks[-1][2]
    text = text[:low] + stamped(text[low:high], script["began"] + zero_s, wall)
    for due, first, last in chunks:
        time.sleep(max(0.0, start + (due - zero_s) / speed - time.monotonic()))
        os.write(1, text[first:last])


def end(status: int) -> None:
    """End as it did; what it started goes first."""
    for child in children:
        child.kill()
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


children = [
    subprocess.Popen([title, "-c", CHILD], executable=sys.executable, stdin=subprocess.PIPE)
    for title in script["titles"]
]
began = time.monotonic()
well_at = began + script["well_s"] / speed
if script["listen_s"]:
    threading.Thread(target=serve, daemon=True).start()
play(script["before"], 0.0)
if script["sigterm_s"] is not None:
    while not asked_to_end.wait(0.02):
        pass
    play(script["after"], script["sigterm_s"])
if script["rc"] is None:  # somebody had to end it
    text = base64.b64decode(script["text"])
    last = text[text.rstrip().rfind(b"\n") + 1 :]
    while True:
        time.sleep(5 / speed)
        os.write(1, stamped(last, script["began"], time.time()))
end(script["rc"])

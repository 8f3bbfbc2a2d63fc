"""Run a program to its end: an argument list, never a shell, and never longer than it is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from .calls import Call, Fault, Operation, Result, fault_of

CHUNK = 128 * 1024
COMPLAINT_LIMIT = 16 * 1024
OUTPUT_LIMIT = 256 * 1024 * 1024
TERM_PATIENCE_S = 1.0


def run(call: Call) -> Result:
    """Run `argv` with the body as its input; its output comes in parts, its status at the end.

    When `timeout_s` is over or nobody waits any more, it and its children are ended.
    """
    argv = call.args.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise Fault("usage", "argv must be a list of strings")
    try:
        child = subprocess.Popen(
            [os.fsencode(word) for word in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise fault_of(error) from None
    late = threading.Event()
    timer = threading.Timer(float(call.args.get("timeout_s", 30.0)), _overdue, (late, child))
    timer.daemon = True
    timer.start()
    call.on_cancel(lambda: _end(child))
    complaint = bytearray()
    listeners = [
        threading.Thread(target=_feed, args=(child, call.body), daemon=True),
        threading.Thread(target=_listen, args=(child, complaint), daemon=True),
    ]
    for listener in listeners:
        listener.start()
    try:
        _forward(call, child)
        status = child.wait()
    finally:
        timer.cancel()
        _end(child)
        child.wait()
    listeners[1].join(1.0)
    if late.is_set():
        raise Fault("deadline", "%s did not end in time" % argv[0])
    return {"status": status if status >= 0 else 128 - status}, bytes(complaint)


def _forward(call: Call, child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    total = 0
    while chunk := os.read(child.stdout.fileno(), CHUNK):
        total += len(chunk)
        if total > OUTPUT_LIMIT:
            raise Fault("efbig", "more than %d bytes of output" % OUTPUT_LIMIT)
        call.emit({}, chunk)
        if call.cancelled.is_set():
            return
    child.stdout.close()


def _feed(child: subprocess.Popen[bytes], data: bytes) -> None:
    assert child.stdin is not None
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(child.stdin.fileno(), view[:CHUNK]) :]
        child.stdin.close()
    except OSError:
        return  # it ended without reading all of it


def _listen(child: subprocess.Popen[bytes], complaint: bytearray) -> None:
    assert child.stderr is not None
    try:
        while chunk := os.read(child.stderr.fileno(), 8192):
            complaint += chunk
            del complaint[:-COMPLAINT_LIMIT]
    except OSError:
        return


def _overdue(late: threading.Event, child: subprocess.Popen[bytes]) -> None:
    late.set()
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child's whole session: asked now, killed a second later; never waits itself."""
    if child.poll() is not None:
        return
    _signal(child, signal.SIGTERM)
    killer = threading.Timer(TERM_PATIENCE_S, _signal, (child, signal.SIGKILL))
    killer.daemon = True
    killer.start()


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    if child.poll() is None:
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return


OPS: dict[str, Operation] = {"run": run}

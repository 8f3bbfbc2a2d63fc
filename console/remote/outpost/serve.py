"""The outpost's loop: reads requests, runs each in a thread, ends with its standard input."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO, Callable

from . import (
    adopting,
    basics,
    caches,
    files,
    git,
    gpus,
    holds,
    installed,
    kernel,
    launch,
    machine,
    packages,
    preflight,
    processes,
    references,
    running,
    search,
    seeking,
    servers,
    sockets,
    stops,
    surroundings,
    tail,
    transaction,
    trees,
    untouched,
    wire,
)
from .calls import Call, Fault, Operation, fault_of

CALLS_LIMIT = 256
"""Operations at once, a thread each: short ones never wait behind long streams."""

END_PATIENCE_S = 1.5

ROOMS = (
    adopting,
    basics,
    caches,
    files,
    git,
    gpus,
    holds,
    installed,
    kernel,
    launch,
    machine,
    packages,
    preflight,
    processes,
    references,
    running,
    search,
    seeking,
    servers,
    sockets,
    stops,
    surroundings,
    tail,
    transaction,
    trees,
    untouched,
)


def operations() -> dict[str, Operation]:
    """Return every operation by name."""
    table: dict[str, Operation] = {}
    for room in ROOMS:
        table.update(room.OPS)
    return table


class Outpost:
    """Requests in, replies out, over two byte streams."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._write_lock = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._table = operations()

    def serve(self) -> None:
        """Answer until the input ends."""
        while True:
            try:
                frame = wire.read(self._source)
            except (wire.WireError, OSError) as error:
                sys.stderr.write("outpost: %s\n" % error)
                sys.stderr.flush()
                break
            if frame is None:
                break
            head, body = frame
            number = int(head.get("id", 0))
            if head.get("op") in ("cancel", "credit"):
                self._steer(head.get("op") == "cancel", head.get("args") or {})
                continue
            if len(self._calls) >= CALLS_LIMIT:
                self._write(_failed(number, Fault("busy", "%d operations at once" % CALLS_LIMIT)), b"")
                continue
            call = Call(head.get("args") or {}, body, self._part(number))
            call.window = threading.Semaphore(wire.WINDOW)
            self._calls[number] = call
            threading.Thread(target=self._answer, args=(number, str(head.get("op")), call), daemon=True).start()
        for call in list(self._calls.values()):
            call.cancel()
        end = time.monotonic() + END_PATIENCE_S
        while self._calls and time.monotonic() < end:  # their children are ended first
            time.sleep(0.02)
        Call.critical.acquire()  # a transaction finishes first

    def _steer(self, cancel: bool, args: dict[str, Any]) -> None:
        call = self._calls.get(int(args.get("id", 0)))
        if call is None:
            return
        if cancel:
            call.cancel()
        elif call.window is not None:
            call.window.release(int(args.get("parts", 1)))

    def _part(self, number: int) -> Callable[[dict[str, Any], bytes], None]:
        def send(result: dict[str, Any], body: bytes) -> None:
            self._write({"id": number, "ok": True, "more": True, "result": result}, body)

        return send

    def _answer(self, number: int, name: str, call: Call) -> None:
        body = b""
        try:
            operation = self._table.get(name)
            if operation is None:
                raise Fault("usage", "no operation %r" % name)
            result, body = operation(call)
            head: dict[str, Any] = {"id": number, "ok": True, "result": result}
        except Fault as fault:
            head = _failed(number, fault)
        except OSError as error:
            head = _failed(number, fault_of(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours is told to the console, with where
            head = {
                "id": number,
                "ok": False,
                "kind": "bug",
                "message": "%s: %s" % (type(error).__name__, error),
                "facts": {"traceback": traceback.format_exc()[-4000:]},
            }
        self._calls.pop(number, None)
        self._write(head, body)

    def _write(self, head: dict[str, Any], body: bytes) -> None:
        frame = wire.pack(head, body)
        with self._write_lock:
            try:
                self._sink.write(frame)
                self._sink.flush()
            except (OSError, ValueError):
                for call in list(self._calls.values()):
                    call.cancel()


def _failed(number: int, fault: Fault) -> dict[str, Any]:
    return {"id": number, "ok": False, "kind": fault.kind, "message": fault.message, "facts": fault.facts}


def main() -> None:
    """Serve on standard input and output, which nothing else may use from here on."""
    sink = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    Outpost(sys.stdin.buffer, sink).serve()
    os._exit(0)

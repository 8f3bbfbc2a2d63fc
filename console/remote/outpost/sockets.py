"""TCP streams from where the outpost is: a container may have a network of its own."""

from __future__ import annotations

import itertools
import socket
import threading
from typing import Iterator

from .calls import Call, Fault, Operation, Result, fault_of

CHUNK = 64 * 1024
CONNECT_S = 10.0

_numbers: Iterator[int] = itertools.count(1)
_open: dict[int, socket.socket] = {}
_lock = threading.Lock()


def _op_socket(call: Call) -> Result:
    """Open a stream: its number comes first, then what it receives, until either side ends it."""
    try:
        stream = socket.create_connection((call.text("address"), call.number("port")), CONNECT_S)
    except OSError as error:
        raise fault_of(error) from None
    stream.settimeout(None)
    number = next(_numbers)
    with _lock:
        _open[number] = stream
    call.on_cancel(lambda: _shut(stream))
    try:
        call.emit({"socket": number})
        while True:
            try:
                data = stream.recv(CHUNK)
            except OSError as error:
                if call.cancelled.is_set():
                    break
                raise fault_of(error) from None
            if not data:
                break
            call.emit({}, data)
    finally:
        with _lock:
            _open.pop(number, None)
        stream.close()
    return {}, b""


def _op_socket_send(call: Call) -> Result:
    """Send the body over a stream that is open."""
    with _lock:
        stream = _open.get(call.number("socket"))
    if stream is None:
        raise Fault("epipe", "the stream is closed")
    try:
        stream.sendall(call.body)
    except OSError as error:
        raise fault_of(error) from None
    return {}, b""


def _shut(stream: socket.socket) -> None:
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already


OPS: dict[str, Operation] = {"socket": _op_socket, "socket_send": _op_socket_send}

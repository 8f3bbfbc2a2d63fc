"""What SGLang serves over HTTP, and how its replies are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

READY = "/model_info"
"""Cheap, and never a generation as `/health` is."""

INFO = "/server_info"
LOADS = ("/v1/loads", "/get_load")
ABORT: tuple[str, Mapping[str, object]] = ("/abort_request", {"rid": "", "abort_all": True})
FLUSH = "/flush_cache"


def in_flight(loads: object) -> int | None:
    """Return running plus waiting requests over all data-parallel ranks."""
    if isinstance(loads, Mapping):
        total = loads.get("total_running_reqs")
        waiting = loads.get("total_waiting_reqs")
        if isinstance(total, int) and isinstance(waiting, int):
            return total + waiting
        loads = loads.get("loads", [loads])
    if not isinstance(loads, Sequence) or isinstance(loads, str):
        return None
    counts = [_of_rank(entry) for entry in loads if isinstance(entry, Mapping)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _of_rank(entry: Mapping[str, object]) -> int | None:
    if isinstance(running := entry.get("num_running_reqs"), int):
        waiting = entry.get("num_waiting_reqs")
        return running + (waiting if isinstance(waiting, int) else 0)
    requests = entry.get("num_reqs")
    return requests if isinstance(requests, int) else None


def resolved(info: Mapping[str, object]) -> Mapping[str, object]:
    """Return the server arguments of a `/server_info` reply, without its states and version."""
    others = ("internal_states", "version", "launch_command", "startup_time")
    return {name: value for name, value in info.items() if name not in others}

"""What SGLang serves over HTTP, and how its replies are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

READY = "/model_info"
"""Cheap, and never a generation as `/health` is."""

INFO = "/server_info"
OLDER = {READY: "/get_model_info", INFO: "/get_server_info"}
"""Up to 0.5.5; answered ever since, with a warning in the log for each call from 0.5.9 on."""

LOADS = ("/v1/loads", "/get_load")
"""0.4.6 has neither: what runs there is told by its internal states only."""

ABORT: tuple[str, Mapping[str, object]] = ("/abort_request", {"rid": "", "abort_all": True})
FLUSH = "/flush_cache"
NO_ARGUMENTS = (
    "internal_states",
    "version",
    "launch_command",
    "startup_time",
    "status",
    "frontend",
    "kv_events",
    "hicache_object_layout",
    "max_req_input_len",
    "max_total_num_tokens",
)
"""What a reply of `INFO` tells beside the arguments, over the versions read."""


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
    """Return the server arguments of a `/server_info` reply, without its states and version.

    A server gives itself fewer tokens than it was told to have where memory does not suffice; its
    argument goes on saying what was asked for, so what it has goes before.
    """
    found = {name: value for name, value in info.items() if name not in NO_ARGUMENTS}
    if isinstance(found.get("max_total_tokens"), int) and isinstance(has := info.get("max_total_num_tokens"), int):
        found["max_total_tokens"] = has
    return found

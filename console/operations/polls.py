"""Polls: which access lines of a server's log come from being watched, by us or by others."""

from __future__ import annotations

from functools import lru_cache

from console.domain.run import LogKind, LogRecord

MORE = frozenset({"/metrics", "/metrics/", "/server_info", "/get_server_info", "/health"})
"""Asked by every watcher, of whatever engine."""


@lru_cache(maxsize=1)
def _paths() -> frozenset[str]:
    from console.engines.registry import ENGINES

    asked = {
        path.partition("?")[0]
        for adapter in ENGINES.values()
        for path in (adapter.ready_path, adapter.identity_path, adapter.info_path, *adapter.loads_paths)
    }
    return MORE | asked


def is_poll(record: LogRecord) -> bool:
    """Return whether a record is the access line of a poll that was answered: it says nothing of the load."""
    values = record.values
    if record.kind is not LogKind.ACCESS or values.get("method") != "GET" or values.get("code") != 200:
        return False
    return str(values.get("path", "")).partition("?")[0] in _paths()

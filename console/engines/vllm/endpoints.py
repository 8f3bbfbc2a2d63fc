"""What vLLM serves over HTTP, and how its replies are read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from console.engines import argv

READY = "/health"
"""Looks whether the engine lives, and generates nothing. `/v1/models` answers also when the engine is dead."""

IDENTITY = "/v1/models"
INFO = "/server_info?config_format=json"
"""Only with `DEV_MODE`; else the log tells."""

VERSION = "/version"
LOADS = ("/metrics",)
"""`/load` counts only with `--enable-server-load-tracking`, and says 0 without."""

ABORT: tuple[str, Mapping[str, object]] = ("/abort_requests", {})
"""Only with `DEV_MODE`; at SIGTERM a server aborts by itself."""

FLUSH = "/reset_prefix_cache"
"""Only with `DEV_MODE`."""

DEV_MODE = "VLLM_SERVER_DEV_MODE=1"

NAMES = {
    "cache_dtype": "kv_cache_dtype",
    "backend": "",
    "device": "",
    "max_seq_len": "max_model_len",
}
"""Names of settings to those of flags where they differ; empty: said of a part, no flag."""

PARTS = ("_config",)
_GAUGE = re.compile(
    r"^vllm:num_requests_(?P<what>running|waiting)(?:\{[^}\n]*\})? (?P<value>[-+\d.eE]+|NaN)(?: \d+)?$", re.MULTILINE
)


def in_flight(loads: object) -> int | None:
    """Return running plus waiting requests over all engines, from the text of metrics."""
    if not isinstance(loads, str):
        return None
    counts = [float(gauge["value"]) for gauge in _GAUGE.finditer(loads)]
    return int(sum(counts)) if counts and all(count == count for count in counts) else None


def resolved(info: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings in force of a `/server_info` reply, its parts laid beside each other.

    Up to 0.10, and without `config_format=json`, the configuration is one text.
    """
    config = info.get("vllm_config")
    if isinstance(config, str):
        return _plain(argv.keywords(config))
    if not isinstance(config, Mapping):
        return {}
    found: dict[str, object] = {}
    for name, part in config.items():
        if name.endswith(PARTS) and isinstance(part, Mapping):
            found[name] = dict(part)
            for key, value in part.items():
                flag = NAMES.get(key, key)
                if flag and not key.startswith("_") and not isinstance(value, Mapping):
                    found.setdefault(flag, value)
        elif name not in ("instance_id",):
            found[name] = part
    return _plain(found)


def _plain(found: Mapping[str, object]) -> dict[str, object]:
    told = {NAMES.get(name, name) or name: value for name, value in found.items()}
    if isinstance(dtype := told.get("dtype"), str):
        told["dtype"] = dtype.removeprefix("torch.")
    return told

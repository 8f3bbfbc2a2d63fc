"""What such servers tell over HTTP: `/v1/models` of all, `/props`, `/slots` and metrics of llama.cpp's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

READY = "/health"
"""llama.cpp answers 503 to it while the model loads."""

MODELS = "/v1/models"
PROPS = "/props"
LOADS = ("/metrics", "/slots")
"""`/slots` does not tell who waits; `/metrics` is there only with `--metrics`."""

_GAUGES = re.compile(
    r"^(?:llamacpp:requests_(?:processing|deferred)|\w+:num_requests_(?:running|waiting))(?:\{[^}\n]*\})? "
    r"(?P<value>[\d.eE+]+)$",
    re.MULTILINE,
)
_SAMPLING = "default_generation_settings"
_LONG = ("chat_template", "chat_template_tool_use", "media_marker", "bos_token", "eos_token")


def in_flight(loads: object) -> int | None:
    """Return running plus waiting requests, from the text of metrics or the list of slots."""
    if isinstance(loads, str):
        counts = [float(gauge["value"]) for gauge in _GAUGES.finditer(loads)]
        return int(sum(counts)) if counts else None
    if not isinstance(loads, Sequence) or not loads:
        return None
    busy = [slot.get("is_processing") for slot in loads if isinstance(slot, Mapping)]
    return sum(map(bool, busy)) if busy and None not in busy else None


def resolved(info: Mapping[str, object]) -> Mapping[str, object]:
    """Return what is in force from a reply of `/props` or of `/v1/models`, by the names of flags where they have one."""
    found: dict[str, object] = {}
    entries = info.get("data")
    if isinstance(entries, list) and entries and isinstance(entries[0], Mapping):
        found["alias"] = entries[0].get("id")
        meta = entries[0].get("meta")
        return found | ({f"model.{key}": value for key, value in meta.items()} if isinstance(meta, Mapping) else {})
    for name, value in info.items():
        if name not in (*_LONG, _SAMPLING):
            found[_NAMES.get(name, name)] = value
    defaults = info.get(_SAMPLING)
    if isinstance(defaults, Mapping):
        slots, per_slot = info.get("total_slots"), defaults.get("n_ctx")
        if isinstance(slots, int) and isinstance(per_slot, int):
            found["ctx_per_slot"] = per_slot
        params = defaults.get("params")
        if isinstance(params, Mapping):
            found.update((f"sampling.{key}", value) for key, value in params.items())
    return found


_NAMES = {
    "total_slots": "parallel",
    "model_path": "model",
    "model_alias": "alias",
    "endpoint_metrics": "metrics",
    "endpoint_slots": "slots",
    "endpoint_props": "props",
}

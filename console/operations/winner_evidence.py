"""The evidence of a winner: what a run's identity and measurements tell, as its sealed profile keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any

from console.domain.machine import compact
from console.domain.measurement import Measurement
from console.errors import UsageError
from console.operations.desk import Desk

if TYPE_CHECKING:
    from console.journal.records import RunEntry, WriteEntry

FRESH = 500
"""First repeat of a fresh measurement: other prompts than those that it won with."""

FRESH_REPEATS = 3

CLEAN = "none"
"""In the place of uncommitted files: there were none."""


def evidence(
    files: Mapping[str, Sequence[str]],
    entry: RunEntry,
    writes: Sequence[WriteEntry],
    definitions: Mapping[str, str],
    tolerate: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a winner is sealed with, but for what an experiment adds; what is not known is left out."""
    identity = entry.identity
    hashes: Mapping[str, str] = identity.get("hashes") or {}
    git: Mapping[str, Any] = identity.get("git") or {}
    code: Mapping[str, Any] = identity.get("code") or {}
    found = {
        "run": entry.id,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "launched": datetime.fromtimestamp(entry.started_at, UTC).isoformat(timespec="seconds"),
        "host": entry.host,
        "badge": entry.badge,
        "operator": identity.get("operator"),
        "gpus": gpu_words(identity.get("gpus") or ()),
        "package": identity.get("package"),
        "commit": git.get("commit"),
        "uncommitted": git["uncommitted"] or CLEAN if "uncommitted" in git else None,
        "versions": identity.get("versions"),
        "python": code.get("python"),
        **{name: code[name] or CLEAN for name in ("edited", "added", "startup") if name in code},
        "environment": identity.get("environment"),
        "host_environment": code["environment"] or CLEAN if "environment" in code else None,
        "model_files": identity.get("model_files"),
        "model_sizes": identity.get("model_sizes"),
        "argument_files": identity.get("argument_files"),
        "caches": {name: one["entries"] for name, one in (identity.get("caches") or {}).items()},
        "machine": compact(identity.get("machine") or {}),
        "resolved": toml_plain(identity.get("resolved") or {}),
        "patch": _patches(files, identity, hashes, writes, definitions),
        "fresh": is_fresh(entry.measurements, tolerate) or None,
        "measured": _measured(entry.measurements, tolerate),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def is_fresh(measurements: Sequence[Measurement], tolerate: Sequence[str] = ()) -> bool:
    """Return whether every concurrency that was measured has enough untainted fresh repeats."""
    rungs = {one.concurrency_limit for one in measurements}
    fresh = [one.concurrency_limit for one in measurements if one.repeat >= FRESH and not one.spoilt(tolerate)]
    return bool(rungs) and all(fresh.count(rung) >= FRESH_REPEATS for rung in rungs)


def gpu_words(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return `8 × NVIDIA RTX PRO 6000, 600 W each`."""
    if not gpus:
        return ""
    names = sorted({str(gpu.get("name") or "GPU") for gpu in gpus})
    limits = sorted({gpu["power_limit_w"] for gpu in gpus if gpu.get("power_limit_w") is not None})
    words = f"{len(gpus)} × {', '.join(names)}"
    return words + (f", {' / '.join(f'{limit:g}' for limit in limits)} W each" if limits else "")


def _patches(
    files: Mapping[str, Sequence[str]],
    identity: Mapping[str, Any],
    hashes: Mapping[str, str],
    writes: Sequence[WriteEntry],
    definitions: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return each patch that was on, with its definition's hash and its files' hashes before it and at launch."""
    found = []
    for name in identity.get("patches_on") or ():
        rows = []
        for shown in files.get(name, ()):
            loaded = next((sha for path, sha in hashes.items() if path == shown or path.endswith("/" + shown)), "")
            before = _before(name, shown, loaded, writes)
            rows.append({"file": shown, "before_sha256": before, "at_launch_sha256": loaded})
        told = {"name": name, "definition_sha256": definitions.get(name, "")}
        files_told = [{k: v for k, v in one.items() if v} for one in rows]
        found.append({**{k: v for k, v in told.items() if v}, "files": files_told})
    return found


def definition_of(desk: Desk, name: str) -> str:
    """Return the SHA-256 over what a patch's file makes of the host's files; empty where there is no such file."""
    from console.operations.patches import load_patch

    try:
        patch = load_patch(desk, name)
    except UsageError:
        return ""
    edits = [[edit.file, str(edit.kind), edit.within, edit.count, edit.find, edit.replace] for edit in patch.edits]
    text = json.dumps([edits, patch.diff, patch.skip], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _before(name: str, shown: str, loaded: str, writes: Sequence[WriteEntry]) -> str:
    """Return the hash that our own write found, when it led to the bytes that were loaded."""
    for write in writes:
        if write.receipt.get("name") != name or write.receipt.get("verb") != "apply":
            continue
        for file, before, after, *_ in write.receipt.get("files", ()):
            if (file == shown or str(file).endswith("/" + shown)) and (not loaded or after == loaded):
                return str(before)
    return ""


def _measured(measurements: Sequence[Measurement], tolerate: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row a concurrency: means over the untainted repeats, and each repeat's tok/s."""
    rows = []
    for concurrency in sorted({one.concurrency_limit for one in measurements}):
        fit = [one for one in measurements if one.concurrency_limit == concurrency and not one.spoilt(tolerate)]
        fit = [one for one in fit if one.repeat >= FRESH] or fit  # what it was chosen by is too good by luck
        speeds = [one.output_throughput_tok_s for one in fit if one.output_throughput_tok_s is not None]
        if not speeds:
            continue
        row = {
            "concurrency": concurrency,
            "output_tok_s": round(fmean(speeds), 2),
            "repeats_tok_s": [round(speed, 2) for speed in speeds],
            "ttft_p50_ms": _mean([one.ttft_ms.p50_ms for one in fit]),
            "itl_p50_ms": _mean([one.itl_ms.p50_ms for one in fit]),
            "power_mean_w": _mean([one.power_mean_w for one in fit]),
            "energy_j_per_token": _mean([one.energy_j_per_token for one in fit], 4),
            "goodput_req_s": _mean([one.goodput_req_s for one in fit]),
            "input_tokens": fit[0].protocol.get("input_tokens"),
            "output_tokens": fit[0].protocol.get("output_tokens"),
        }
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _mean(values: Sequence[float | None], digits: int = 2) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), digits) if known else None


def toml_plain(value: Any) -> Any:
    """Return a value as TOML can hold it: no null, no tuple."""
    if isinstance(value, Mapping):
        return {str(key): toml_plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [toml_plain(inner) for inner in value if inner is not None]
    return value if isinstance(value, (str, int, float, bool)) else str(value)

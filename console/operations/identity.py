"""Identity: under what a run is measured, so that two numbers are compared only where that is alike."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
from collections.abc import Mapping
from typing import Any

from console.config.secrecy import REDACTED, is_secret, without_secret_values
from console.domain.gpu import GpuReading
from console.domain.run import Run
from console.errors import ConsoleError
from console.operations.desk import Desk
from console.operations.machine import measured_under

MOST_DIFF = 100_000
"""Characters of an uncommitted diff that are kept."""

MODEL_FILES = (
    "config.json",
    "model.safetensors.index.json",
    "generation_config.json",
    "hf_quant_config.json",
    "quantization_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
"""What tells a model from another one of the same name without reading its weights."""


async def identity_of(desk: Desk, run: Run) -> dict[str, Any]:
    """Return under what a run is measured: arguments, environment, patches, versions, model, caches, GPUs, machine."""
    resolved = await _resolved(desk, run)
    with contextlib.suppress(ConsoleError):  # a host without the package has no package in its identity
        await _look_at_package(desk)
    machine = await measured_under(desk, run)
    snapshot = desk.store.snapshot
    host, gpus = desk.link.host, snapshot.gpus
    return {
        "host": host.name,
        "hostname": str(desk.link.facts.hostname),
        "badge": host.badge,
        "operator": desk.operator,
        "profile": run.profile,
        "engine": run.engine,
        "argv": list(run.argv),
        "environment": dict(run.env),
        "resolved": {name: REDACTED if value and is_secret(name, value) else value for name, value in resolved.items()},
        "patches_on": list(run.patches_on),
        "hashes": {one.path: one.sha256 for one in run.hashes},
        "loaded": run.loaded or None,
        "ready_s": None if run.ready_at is None else round(max(0.0, run.ready_at - run.started_at), 1),
        "versions": dict(run.versions),
        "package": None if snapshot.package is None else snapshot.package.version,
        "git": await _git(desk),
        "model_files": await model_hashes(desk, resolved),
        "caches": await _caches(desk),
        **machine,
        "gpus": [] if gpus is None else [_gpu(gpu) for gpu in gpus.gpus],
    }


def model_folder(resolved: Mapping[str, Any]) -> str:
    """Return the folder of the served model on the host; empty when it is a name of a hub."""
    model = resolved.get("model_path") or resolved.get("model")
    return model if isinstance(model, str) and model.startswith("/") else ""


async def _resolved(desk: Desk, run: Run) -> Mapping[str, Any]:
    from console.operations import server

    if not run.resolved:
        with contextlib.suppress(ConsoleError):  # an engine that does not tell is measured all the same
            return await server.resolved_arguments(desk, run)
    return run.resolved


async def _look_at_package(desk: Desk) -> None:
    from console.operations import host as installed

    if desk.store.snapshot.package is None:
        await installed.engine_package(desk)
    if desk.store.snapshot.git is None:
        await installed.git_state(desk)


async def _git(desk: Desk) -> dict[str, Any] | None:
    """Return commit and uncommitted changes: which files, their hashes, and the diff without secrets."""
    state = desk.store.snapshot.git
    if state is None:
        return None
    told: dict[str, Any] = {"commit": state.commit, "dirty": list(state.dirty)}
    if found := await uncommitted(desk):
        told["uncommitted"], told["diff"] = found
    return told


async def uncommitted(desk: Desk) -> tuple[dict[str, str], str] | None:
    """Return the hash of each file that differs from the commit, and the diff; `None` where git does not tell.

    One round trip, and none for a clean checkout.
    """
    from console.domain.comparison import Comparison
    from console.source import diffs
    from console.source.compare import patch_text

    state = desk.store.snapshot.git
    if state is None or not state.dirty:
        return None if state is None else ({}, "")
    try:
        pairs = await diffs.head_pairs(desk.link, [state.top])
    except ConsoleError:
        return None
    hashes = {
        one.name: "deleted" if one.after is None else hashlib.sha256(one.after).hexdigest() for one in pairs.files
    }
    text = patch_text(Comparison("HEAD", "working tree", pairs.files)).decode(errors="replace")
    return hashes, without_secret_values(text)[:MOST_DIFF]


async def model_hashes(desk: Desk, resolved: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of the model's small files; empty when they are not on the host or cannot be read."""
    if not (folder := model_folder(resolved)):
        return {}
    try:
        said = (await desk.link.call("hash", {"paths": [posixpath.join(folder, name) for name in MODEL_FILES]})).result
    except ConsoleError:
        return {}
    return {posixpath.basename(path): digest for path, digest in said.items() if isinstance(digest, str)}


async def _caches(desk: Desk) -> dict[str, Any]:
    """Return how warm the caches of compiled and tuned kernels are; empty on a host that cannot tell."""
    try:
        return dict((await desk.link.call("cache_warmth", {})).result)
    except ConsoleError:
        return {}


def _gpu(gpu: GpuReading) -> dict[str, Any]:
    return {"index": gpu.index, "uuid": gpu.uuid, "name": str(gpu.name), "power_limit_w": gpu.power_limit_w}

"""Identity: under what a run is measured, so that two numbers are compared only where that is alike."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any

from console.config.secrecy import REDACTED, is_secret, without_secret_values
from console.domain.gpu import GpuReading
from console.domain.run import Run
from console.errors import ConsoleError, RemoteError
from console.operations.desk import Desk
from console.operations.machine import measured_under

CODE_DEADLINE_S = 120.0
"""The first look at an installed package reads all its bytes."""

MOST_DIFF = 100_000
"""Characters of an uncommitted diff that are kept."""

MODELS_BESIDE = (
    "tokenizer_path",
    "tokenizer",
    "chat_template",
    "completion_template",
    "hf_chat_template_name",
    "speculative_draft_model_path",
    "quantization_param_path",
)
"""Arguments that name files which change what is computed, beside the model's own."""


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
        **await model_prints(desk, resolved),
        "caches": await caches(desk),
        "code": await launch_code(desk),
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


async def model_prints(desk: Desk, resolved: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the model's folder holds, also in the cache of a hub: hashes of small files, sizes of large ones.

    Files that other arguments name stand under `argument_files`. One round trip; empty where the host cannot tell.
    """
    from console.operations import ways

    found: dict[str, dict[str, Any]] = {"model_files": {}, "model_sizes": {}, "argument_files": {}}
    model = resolved.get("model_path") or resolved.get("model")
    named = {"": model, **{key: resolved.get(key) for key in MODELS_BESIDE}}
    places = {key: name for key, name in named.items() if isinstance(name, str) and name and (not key or name != model)}
    profile = desk.profile
    if profile is not None and ways.in_image(profile):
        places = {key: "".join(ways.host_paths(profile, [name])[:1]) for key, name in places.items()}
    env = profile.launch.env if profile is not None else {}
    args = {
        "models": sorted({name for name in places.values() if name}),
        "env": {name: value for name, value in env.items() if isinstance(value, str) and not is_secret(name, value)},
        "revision": str(resolved.get("revision") or ""),
    }
    try:
        said = (await desk.link.call("model_print", args)).result if args["models"] else {}
    except RemoteError:
        return found
    for key, name in places.items():
        told = said.get(name) or {}
        if not key:
            found["model_files"], found["model_sizes"] = dict(told.get("hashes") or {}), dict(told.get("sizes") or {})
            continue
        facts = {
            **(told.get("hashes") or {}),
            **{file: f"{size} B" for file, size in (told.get("sizes") or {}).items()},
        }
        found["argument_files"] |= {f"{key} {file}": fact for file, fact in facts.items()}
    return found


async def launch_code(desk: Desk) -> dict[str, Any]:
    """Return what beside versions and commit a launch would load: start-up files, stray code, variables of the host.

    One round trip; empty where the host cannot tell, or where an image holds it all.
    """
    from console.operations import host, ways

    if desk.profile is not None and ways.in_image(desk.profile):
        return {}
    python, env, cwd = host.launched_by(desk)
    package = desk.package or desk.store.snapshot.package
    args = {"python": python, "env": env, "cwd": cwd, "folder": package.folder if package is not None else ""}
    try:
        said = (await desk.link.call("launch_code", args, deadline_s=CODE_DEADLINE_S)).result
    except RemoteError:
        return {}
    variables = said.get("environment") or {}
    return {
        **said,
        "environment": {name: str(value) for name, value in variables.items() if not is_secret(name, value)},
    }


async def caches(desk: Desk) -> dict[str, Any]:
    """Return how warm the caches of compiled and tuned kernels are; empty on a host that cannot tell."""
    try:
        return dict((await desk.link.call("cache_warmth", {})).result)
    except ConsoleError:
        return {}


def _gpu(gpu: GpuReading) -> dict[str, Any]:
    return {"index": gpu.index, "uuid": gpu.uuid, "name": str(gpu.name), "power_limit_w": gpu.power_limit_w}

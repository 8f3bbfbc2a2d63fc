"""Before and at a launch: what stands in its way, and what a run must remember."""

from __future__ import annotations

import asyncio
import json
import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from console.config.secrecy import is_secret, with_secret_args, without_secret_words, without_secrets
from console.domain.patch import DiskState
from console.domain.profile import DOCKER_RUN, Profile, Secret, itself_in
from console.domain.run import Run
from console.engines.registry import engine
from console.errors import (
    AlreadySoError,
    ConsoleError,
    DeadlineError,
    LinkLostError,
    RefusedError,
    RemoteError,
    UsageError,
)
from console.operations import owners, profiles, running, units, ways
from console.operations.desk import Desk
from console.operations.holds import guarded
from console.operations.keeping import ids_kept
from console.operations.machine import fingerprint, look_quietly

BESIDE = ("torch", "flashinfer", "triton", "sgl_kernel")
"""Packages whose versions a run remembers beside the engine's."""

_OPEN = "whether it was launched is not known yet"
_LOOK = "`tokwatt serve status` tells, once the host answers; what was launched lives on and can be attached to"

FREE_MIB = 256.0
"""Below this much free space a log is likely to be cut."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a launch would meet on the host."""

    listeners: tuple[Mapping[str, Any], ...]
    gpu_processes: tuple[Mapping[str, Any], ...] | None
    free_mib: float
    unit: Mapping[str, Any] = field(default_factory=dict)
    """What runtime, queue or service manager say; empty for a plain process."""
    taken: tuple[Mapping[str, Any], ...] = ()
    """Who listens on the ports that the server's processes use between themselves."""


CACHES = ("~/.cache/huggingface", "~/.cache/flashinfer", "~/.triton/cache")


async def look(desk: Desk, profile: Profile, *, model: str = "") -> Mapping[str, Any]:
    """Return all that the host says of what a launch would meet, in one round trip.

    Args:
        desk: Whose host.
        profile: What would be launched.
        model: Folder of the model, where its facts are wanted, too.
    """
    adapter, inside = engine(profile.engine.kind), ways.in_image(profile)
    args = {
        "port": profile.launch.port,
        "ports": [] if inside else [*adapter.side_ports(profile)],
        "bind": "" if inside else str(profile.launch.args.get("host", "")),
        "program": "" if inside else adapter.command(profile)[0],
        "cwd": "" if inside else profile.launch.workdir,
        "paths": ways.host_paths(profile, adapter.model_paths(profile)),
        "model": "".join(ways.host_paths(profile, [model])[:1]) if model else "",
        "unit": ways.unit(profile),
        "caches": list(CACHES),
    }
    said = (await desk.link.call("preflight", args)).result
    people = ("listeners", "taken", "gpu_processes")
    return {**said, **{name: _without_secrets(said[name]) for name in people}}


def _without_secrets(entries: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return processes of anybody as they may be shown and kept: their command lines hold secrets, too."""
    return None if entries is None else [{**one, "title": owners.redacted(str(one["title"]))} for one in entries]


def passed(desk: Desk, profile: Profile, said: Mapping[str, Any]) -> Preflight:
    """Return what a look found, unless it keeps a launch from coming up at all.

    Raises:
        UsageError: Interpreter, folder or model of the profile is not there.
    """
    for key, text in lacking(profile, said):
        raise UsageError(f"{place_of(profile, key)}: {key} {_on(desk.link.host.name, text)}")
    return met(said)


def met(said: Mapping[str, Any]) -> Preflight:
    """Return what a look found in the way of a launch that could come up."""
    holders, unit = said["gpu_processes"], said.get("unit") or {}
    return Preflight(
        tuple(said["listeners"]),
        tuple(holders) if holders is not None else None,
        float(said["free_mib"]),
        unit,
        tuple(said["taken"]),
    )


def lacking(profile: Profile, said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the host does not have of what the profile names: each key, and its value with why."""
    faults = (said.get("unit") or {}).get("faults") or ()
    found = [("launch.via", f"{profile.launch.via}: {fault}") for fault in faults]
    if not said["program"] and not ways.in_image(profile):
        why = "may not be executed" if said["program_exists"] else "does not exist"
        found.append(("engine.python", f"{engine(profile.engine.kind).command(profile)[0]} {why}"))
    if not said["cwd_is_folder"]:
        found.append(("launch.workdir", f"{profile.launch.workdir} is no folder"))
    for path in said["missing"]:
        flags = [flag for flag, value in profile.launch.args.items() if value == path]
        found.append((f"launch.args.{flags[0]}" if flags else "launch.args", f"{path} does not exist"))
    return found


def _on(host: str, text: str) -> str:
    """Name the host before a fault's own words, which may be long."""
    what, colon, why = text.partition(": ")
    return f"{what} on {host}{colon}{why}"


def place_of(profile: Profile, key: str) -> str:
    """Return `FILE:LINE` of a key, `FILE` where it is not written."""
    file, line = profile.origins.get(key, (profile.path or profile.name, 0))
    return f"{file}:{line}" if line else file


def name_taken(said: Mapping[str, Any] | None) -> str:
    """Return who has the container name that a launch would take; empty when it is free."""
    taken = (said or {}).get("taken")
    if not taken:
        return ""
    who = f"container {str(taken['id'])[:12]} of {taken['image']}, {taken['state']}"
    return f"the container name {taken['name']} is taken by {who} (made {str(taken['created'])[:19]})"


def must_be_clean(states: Sequence[running.State]) -> None:
    """Raise `RefusedError` when something of an ended run lives on: it holds GPU memory and ports."""
    for state in states:
        if not state["alive"] and units.lives(state):
            run = running.run_of(state)
            left = running.orphans(state["processes"]) if run.left or run.unit is None else units.word(run.unit)
            raise RefusedError(
                f"run {run.id} is not gone: {left}",
                hint=f"tokwatt serve stop {run.id} ends them",
            )


def must_have_name(desk: Desk, found: Preflight) -> None:
    """Raise `RefusedError` naming the container that has the name already."""
    if text := name_taken(found.unit):
        tool, taken = posixpath.basename(str(found.unit["path"])), found.unit["taken"]
        verb = "stop" if taken["state"] == "running" else "rm"
        hint = f"{tool} {verb} {taken['name']} frees it; without name under [launch.docker] each run has its own"
        raise RefusedError(f"{desk.link.host.name}: {text}", hint=hint)


def must_have_port(desk: Desk, profile: Profile, found: Preflight, runs: Sequence[Run]) -> None:
    """Raise `RefusedError` naming the owner, a run of ours or anybody, when a port is taken that the launch will open."""
    for owner, flag in wanted_ports(profile, (*found.listeners, *found.taken)):
        ours = next((run for run in runs if run.process and run.process.pid == owner["pid"]), None)
        who = f"run {ours.id} of {ours.profile} (pid {owner['pid']})" if ours else owners.of_port(owner, 160)
        role = f", wanted for {flag} between the server's processes," if flag else ""
        key = f"{flag} under [launch.args]" if flag else "port under [launch]"
        raise RefusedError(
            f"{desk.link.host.name}: port {owner['port']}{role} is taken by {who}",
            f"it listens on {owner['address']}",
            "serve restart stops it first" if ours and not flag else f"stop it, or change {key}",
        )


def wanted_ports(profile: Profile, listeners: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    """Return who listens where a launch will, each with the flag that wants the port; empty for the server's own."""
    flags = engine(profile.engine.kind).side_ports(profile)
    return [(one, flags.get(one["port"], "") if one["port"] != profile.launch.port else "") for one in listeners]


def warn(desk: Desk, found: Preflight) -> None:
    """Tell what does not stop a launch but may spoil it."""
    for holder in found.gpu_processes or ():
        memory = f"{holder['memory_mib']:,.0f} MiB" if holder.get("memory_mib") is not None else "memory"
        desk.say(
            f"warning: pid {holder['pid']} ({holder['user']}: {owners.shown_title(holder['title'], 80)}) holds {memory} of a GPU"
        )
    if found.free_mib < FREE_MIB:
        desk.say(f"warning: only {found.free_mib:.0f} MiB are free for the log")


async def launch(desk: Desk, profile: Profile, found: Preflight) -> Mapping[str, Any]:
    """Start the server as a new run; return the state of its folder."""
    adapter = engine(profile.engine.kind)
    env, host_env = environment(profile)
    argv = adapter.command(with_secret_args(profile, lambda secret: _secret(profile, "launch.args", secret, host_env)))
    sent = ways.way(profile, argv)
    identity, state = await asyncio.gather(_identity(desk, found), look_quietly(desk))
    text, redacted = _text(profile)
    record: dict[str, Any] = {
        "profile": profile.name,
        "profile_text": text,
        "profile_redacted": redacted,
        "engine": profile.engine.kind,
        "port": profile.launch.port,
        "argv": list(profiles.argv(profile)),
        "before": list(without_secret_words(sent.before)),
        "env": shown_environment(profile),
        "operator": desk.operator,
        "host": desk.link.host.name,
        "badge": desk.link.host.badge,
        "gpu_processes": list(found.gpu_processes or ()),
        **identity,
        "machine": fingerprint(state),
    }
    inside = profile.launch.via == DOCKER_RUN  # the folder is one of the container
    args: dict[str, Any] = {"cwd": "" if inside else profile.launch.workdir, "record": record, "host_env": host_env}
    order = {
        "argv": sent.argv,
        "before": sent.before,
        "env": ways.inherited(profile, env),
        "unset": profile.launch.unset,
    }
    body = json.dumps(order).encode()
    args["unit"] = ways.unit(profile)
    args["kept"] = await ids_kept(desk)
    try:
        return (await guarded(desk, "launch", args, body, what=f"start {profile.name}", deadline_s=60)).result
    except RemoteError as error:
        if error.kind == "noenv":
            names = ", ".join(map(str, error.facts.get("names") or ()))  # type: ignore[call-overload]
            raise UsageError(f"{profile.path}: launch.env: {names} is not in the host's environment") from error
        if error.kind == "taken":
            told = {name: str(error.facts.get(name) or "—") for name in ("id", "profile", "operator")}
            what = f"run {told['id']} of {told['profile']}, launched meanwhile by {told['operator']}"
            if told["profile"] == profile.name:
                raise AlreadySoError(f"{what}, is on port {profile.launch.port}") from error
            raise RefusedError(f"{desk.link.host.name}: port {profile.launch.port} is taken by {what}") from error
        if isinstance(error, DeadlineError):
            raise DeadlineError(f"launch: {error.title}", _OPEN, _LOOK, kind=error.kind) from error
        raise
    except LinkLostError as error:
        raise LinkLostError(f"launch: {error.title}", _OPEN, _LOOK) from error


def shown_environment(profile: Profile) -> dict[str, str]:
    """Return the variables of a launch as they may be kept: secrets by their name, without a value."""
    return {
        name: value if isinstance(value, str) and not is_secret(name, value) else ""
        for name, value in profile.launch.env.items()
    }


def environment(profile: Profile) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a launch, secrets filled in, and the names that the host must have itself."""
    env: dict[str, str] = {}
    host_env: list[str] = []
    for name, value in profile.launch.env.items():
        if not isinstance(value, Secret):
            env[name] = _longer(name, value)
        elif value.source == "host-env" and value.name in ("", name):
            host_env.append(name)
        else:
            env[name] = _secret(profile, "launch.env", replace(value, name=value.name or name), host_env)
    for secret in profile.launch.secret_args.values():
        _secret(profile, "launch.args", secret, [])  # what is not there is told before anything is stopped
    return env, host_env


def _longer(name: str, value: str) -> str:
    """Return a value with its own name in it (`PATH = "/opt/bin:${PATH}"`) as one that the host fills in."""
    return itself_in(name).sub(f"\0{name}\0", value)


def _secret(profile: Profile, table: str, secret: Secret, host_env: list[str]) -> str:
    """Return a secret of this console's environment, or where the host finds it in its own."""
    if secret.source == "host-env":
        host_env.append(secret.name)
        return f"\0{secret.name}\0"
    if secret.name not in os.environ:
        place = f"{profile.path or profile.name}: {table}.{secret.name}"
        raise UsageError(f"{place} is not in this console's environment")
    return os.environ[secret.name]


async def _identity(desk: Desk, met: Preflight) -> dict[str, Any]:
    """Return what the process will have loaded: package, versions, patches on, hashes of patched files."""
    from console.operations.host import engine_package
    from console.operations.patches import statuses

    if desk.profile is not None and ways.in_image(desk.profile):
        image = desk.profile.launch.docker.image
        versions = {"image": image, "image_id": str(met.unit.get("image_id", ""))} if image else {}
        return {"package": "", "versions": {k: v for k, v in versions.items() if v}, "patches_on": [], "hashes": {}}
    if desk.profile is not None and not engine(desk.profile.engine.kind).package:
        return {"package": "", "versions": {}, "patches_on": [], "hashes": {}}  # no package of any interpreter
    try:
        package = await engine_package(desk)
    except RemoteError as error:
        if desk.profile is None or error.kind not in ("no_package", "no_python"):
            raise
        place = place_of(desk.profile, "engine.python")
        raise UsageError(f"{place}: engine.python: {error.title}", error.detail, error.hint) from error
    found: dict[str, Any] = {
        "package": package.folder,
        "versions": {package.name: package.version or "", **await versions_beside(desk)},
        "patches_on": [],
        "hashes": {},
    }
    try:
        known = await statuses(desk)
    except ConsoleError as error:
        desk.say(f"patches: {error.one_line()}")
        return found
    found["patches_on"] = [status.name for status in known if status.disk is DiskState.ON]
    files = sorted({posixpath.join(package.folder, file) for status in known for file in status.files})
    if files:
        hashes = (await desk.link.call("hash", {"paths": files})).result
        found["hashes"] = _digests(hashes)
    return found


async def versions_beside(desk: Desk) -> dict[str, str]:
    """Return the versions of what else makes a number, where the interpreter has it."""
    from console.operations.host import named_package

    async def version(name: str) -> tuple[str, str]:
        try:
            return name, (await named_package(desk, name)).version or ""
        except ConsoleError:
            return name, ""

    found = await asyncio.gather(*(version(name) for name in BESIDE))
    return {name: text for name, text in found if text}


def _digests(said: Mapping[str, Any]) -> dict[str, str]:
    table = said.get("hashes", said)
    return {path: digest for path, digest in table.items() if isinstance(digest, str) and len(digest) == 64}


def _text(profile: Profile) -> tuple[str, bool]:
    """Return what the profile's file says, and whether secrets were taken out of it: then it launches nothing again."""
    try:
        with open(profile.path, encoding="utf-8") as file:
            whole = file.read()
    except OSError:
        return "", False
    kept = without_secrets(whole, profile)
    return kept, kept != whole

"""Looking a host over: what works, what is slow, what is missing, each with a way out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from console.domain.text import clean
from console.errors import ConsoleError, RemoteError
from console.operations import host
from console.operations.desk import Desk

SLOW_LOGIN_MS = 300.0
"""A login shell that costs more than this, beyond the way there and back, is worth a word."""

LITTLE_DISK = 1 << 30

PACKAGES = ("sglang", "vllm", "torch", "flashinfer-python", "sgl-kernel", "transformers", "triton")

VERSIONS = """
import json, sys, importlib.metadata as m
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps({"python": sys.version.split()[0], "packages": found}))
"""

NVML = """
import ctypes
lib = ctypes.CDLL("libnvidia-ml.so.1")
code = lib.nvmlInit_v2()
count = ctypes.c_uint(0)
code = code or lib.nvmlDeviceGetCount_v2(ctypes.byref(count))
print(code, count.value)
"""


class Health(StrEnum):
    """How one check came out."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    health: Health
    said: str
    hint: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


async def examine(desk: Desk) -> AsyncIterator[Check]:
    """Yield the checks of a connected host, each as soon as it is known."""
    looks: tuple[Callable[[Desk], Awaitable[Check]], ...] = (
        _connection, _host_key, _login_shell, _python, _engine_python, _engine_package, _rights, _disk, _gpus, _git,
    )  # fmt: skip
    for look in looks:
        name = look.__name__.strip("_").replace("_", " ")
        try:
            yield await look(desk)
        except ConsoleError as error:
            yield Check(name, Health.FAILED, error.title, error.hint, {"detail": error.detail})
    for sentence in desk.link.ignored_settings():
        yield Check("ssh config", Health.WARNING, sentence)


async def _connection(desk: Desk) -> Check:
    link, login = desk.link, desk.link.login
    rtt = min([await link.measure() for _ in range(3)])
    if login is None:
        return Check("connection", Health.OK, f"this machine, {rtt:.1f} ms a request", values={"rtt_ms": rtt})
    via = f" via {', '.join(login.via)}" if login.via else ""
    said = (
        f"{login.user}@{login.address}:{login.port}{via}, {rtt:.1f} ms a round trip, {login.cipher or 'cipher unknown'}"
    )
    trips = login.ms / rtt if rtt else 0.0
    values = {
        "address": login.address,
        "port": login.port,
        "user": login.user,
        "rtt_ms": rtt,
        "login_ms": login.ms,
        "login_round_trips": round(trips, 1),
        "offered": list(login.offered),
    }
    return Check("connection", Health.OK, f"{said}; login took {login.ms:.0f} ms", values=values)


async def _host_key(desk: Desk) -> Check:
    login = desk.link.login
    if login is None:
        return Check("host key", Health.OK, "none needed on this machine")
    said = f"{login.key_type} {login.fingerprint}, known"
    return Check("host key", Health.OK, said, values={"type": login.key_type, "fingerprint": login.fingerprint})


async def _login_shell(desk: Desk) -> Check:
    link = desk.link
    took = min([await link.shell_ms() for _ in range(2)])
    rtt = link.state.rtt_ms or 0.0
    own = max(0.0, took - 2 * rtt)
    noise = clean(link.noise[:200]) if link.noise else ""
    values = {"start_ms": own, "noise": str(noise), "noise_bytes": len(link.noise)}
    if noise:
        return Check(
            "login shell",
            Health.WARNING,
            f"prints {len(link.noise)} bytes for programs too ({noise}), {own:.0f} ms a start",
            "in ~/.bashrc: return before printing when not interactive ([[ $- == *i* ]] || return)",
            values,
        )
    if own > SLOW_LOGIN_MS:
        hint = "a login script is slow (conda init, nvm?); it is paid once per program, the outpost pays it once"
        return Check("login shell", Health.WARNING, f"takes {own:.0f} ms to start a program", hint, values)
    return Check("login shell", Health.OK, f"silent, {own:.0f} ms to start a program", values=values)


async def _python(desk: Desk) -> Check:
    facts, state = desk.link.facts, desk.link.state
    if state.degraded:
        hint = "install python3, or name an interpreter in the profile: [engine] python"
        return Check("python", Health.WARNING, f"shell mode: {state.degraded}", hint)
    return Check("python", Health.OK, f"the outpost runs under {facts.python}", values={"python": facts.python})


async def _engine_python(desk: Desk) -> Check:
    python = desk.profile.engine.python if desk.profile else ""
    named = python or "python3"
    try:
        done = await desk.link.run([named, "-c", VERSIONS, *PACKAGES], deadline_s=60)
        said = json.loads(done.output.splitlines()[-1])
    except (RemoteError, ValueError, IndexError) as error:
        reason = error.title if isinstance(error, ConsoleError) else "it does not answer"
        health = Health.FAILED if python else Health.WARNING
        return Check("engine python", health, f"{named}: {reason}", "profile: [engine] python = /path/to/python3")
    found = ", ".join(f"{name} {version}" for name, version in said["packages"].items()) or "no engine package"
    health = Health.OK if said["packages"] else Health.WARNING
    return Check("engine python", health, f"{named} is {said['python']}: {found}", values=said)


async def _engine_package(desk: Desk) -> Check:
    try:
        package = await host.engine_package(desk)
    except ConsoleError as error:
        return Check("engine package", Health.WARNING, error.title, error.hint or "name it with --package DIR")
    values = {"folder": package.folder, "version": package.version, "origin": package.origin}
    return Check(
        "engine package",
        Health.OK,
        f"{package.name} {package.version or '(version unknown)'} in {package.folder}",
        values=values,
    )


async def _rights(desk: Desk) -> Check:
    if desk.package is None:
        return Check("rights", Health.WARNING, "no engine package to look at")
    folder = desk.package.folder
    facts = (await desk.link.call("stat", {"paths": [folder]})).result[folder]
    values = {"folder": folder, "writable": bool(facts and facts["writable"])}
    if facts and facts["writable"]:
        return Check("rights", Health.OK, f"{desk.link.facts.user} may write {folder}", values=values)
    return Check(
        "rights",
        Health.WARNING,
        f"{desk.link.facts.user} may not write {folder}",
        "patches cannot be applied as this login",
        values,
    )


async def _disk(desk: Desk) -> Check:
    home = desk.link.facts.state_home
    script = 'd=$1; while [ ! -d "$d" ]; do d=$(dirname -- "$d"); done; df -Pk -- "$d"; test -w "$d"; echo "$?"'
    done = await desk.link.run(["/bin/sh", "-c", script, "sh", home], deadline_s=20)
    lines = done.output.decode("utf-8", "replace").splitlines()
    try:
        free = int(lines[-2].split()[3]) * 1024
    except (IndexError, ValueError):
        return Check("disk", Health.WARNING, f"free space of {home} is not known")
    values = {"folder": home, "free_bytes": free}
    if lines[-1] != "0":
        return Check("disk", Health.FAILED, f"{home} cannot be written: no run can be started", values=values)
    said = f"{free / 2**30:,.1f} GiB free for runs in {home}"
    return Check("disk", Health.OK if free > LITTLE_DISK else Health.WARNING, said, values=values)


async def _gpus(desk: Desk) -> Check:
    smi, nvml = await asyncio.gather(_smi(desk), _nvml(desk))
    if smi is None and nvml is None:
        return Check(
            "gpus", Health.WARNING, "no NVIDIA driver answers, neither NVML nor nvidia-smi", "gauges will show dashes"
        )
    names = "; ".join(smi) if smi else "names unknown"
    values = {"nvml": nvml, "nvidia_smi": smi}
    if nvml is None:
        return Check("gpus", Health.WARNING, f"{names}; NVML cannot be loaded, nvidia-smi stands in", values=values)
    return Check("gpus", Health.OK, f"{names}; NVML answers for {nvml} GPUs", values=values)


async def _smi(desk: Desk) -> list[str] | None:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = await desk.link.run(query, deadline_s=20)
    except RemoteError:
        return None
    lines = [str(clean(line)) for line in done.output.splitlines() if line.strip()]
    counted = [f"{lines.count(line)} × {line}" for line in dict.fromkeys(lines)]
    return counted if done.status == 0 and lines else None


async def _nvml(desk: Desk) -> int | None:
    python = desk.link.facts.python.partition(" ")[2]
    if not python:
        return None
    try:
        done = await desk.link.run([python, "-c", NVML], deadline_s=20)
        code, count = done.output.split()
    except (RemoteError, ValueError):
        return None
    return int(count) if code == b"0" else None


async def _git(desk: Desk) -> Check:
    began = time.monotonic()
    try:
        done = await desk.link.run(["git", "--version"], deadline_s=20)
    except RemoteError:
        return Check("git", Health.WARNING, "no git on the host: its state and diffs cannot be shown")
    said = str(clean(done.output.strip()))
    if desk.package is None:
        return Check("git", Health.OK, said, values={"ms": (time.monotonic() - began) * 1000})
    state = await host.git_state(desk)
    if state is None:
        return Check("git", Health.OK, f"{said}; {desk.package.folder} is in no checkout")
    dirty = f", {len(state.dirty)} files changed" if state.dirty else ", clean"
    return Check("git", Health.OK, f"{said}; {state.top} on {state.branch or 'no branch'}{dirty}")

"""Servers of a host, whoever started them: found by what their processes run, told with what they serve and hold."""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.config.commands.dialects import dialect
from console.config.secrecy import without_secret_words
from console.domain.profile import EngineSection, LaunchSection, Profile
from console.domain.run import ProcessId, Run, RunPhase
from console.domain.server import Connection, GpuShare, HostServer, Member, Role
from console.domain.text import clean
from console.engines.registry import ENGINES, engine
from console.errors import RefusedError, UsageError
from console.operations import owners, running
from console.operations.desk import Desk

RUNS_LOOKED_AT = 50
MODELS = "/v1/models"


async def found(desk: Desk, *, ask: bool = True) -> tuple[HostServer, ...]:
    """Return every server of the host, then what is left of others: two round trips, and a few questions over HTTP.

    Args:
        desk: Whose host.
        ask: Whether servers are asked for version and model; each question is a line in their log.
    """
    asked = {
        "titles": {kind: list(each.titles) for kind, each in ENGINES.items() if each.titles},
        "workers": {kind: list(each.workers) for kind, each in ENGINES.items() if each.workers},
    }
    said, states = await asyncio.gather(
        desk.link.call("servers", asked), desk.link.call("runs", {"limit": RUNS_LOOKED_AT})
    )
    told = said.result
    servers = [_server(each, told, states.result["runs"]) for each in told["servers"]]
    if ask:
        servers = list(await asyncio.gather(*(_asked(desk, each) for each in servers)))
    order = list(Role)
    return tuple(sorted(servers, key=lambda each: (order.index(each.role), each.port or 0, each.process.pid)))


async def find(desk: Desk, pid: int) -> HostServer:
    """Return the server that a process is.

    Raises:
        UsageError: There is no such process.
        RefusedError: It is another program, or a worker of a server; what it is, is told.
    """
    servers = await found(desk, ask=False)
    for each in servers:
        if each.process.pid == pid or (each.role is Role.LEFT_OVER and any(one.pid == pid for one in each.members)):
            return await _asked(desk, each)
    for each in servers:
        for one in each.members:
            if one.pid == pid:
                what = f"pid {pid} is {one.title[:60]}, which belongs to the {each.engine} server of pid {each.process.pid}"
                raise RefusedError(what, hint=f"the server itself is pid {each.process.pid}")
    seen = (await desk.link.call("processes", {"pids": [pid]})).result["processes"]
    if not seen:
        raise UsageError(f"{desk.link.host.name}: no process has pid {pid}", hint="tokwatt serve status --all")
    title = owners.redacted(str(seen[0]["title"]))
    raise RefusedError(
        f"pid {pid} is no inference server: {title[:160]}",
        f"it belongs to {seen[0]['user']}",
        "tokwatt serve status --all",
    )


async def connections(desk: Desk, server: HostServer) -> tuple[tuple[Connection, ...], int]:
    """Return who is connected to a server, our own polls among them, and how many there are in all."""
    if not server.port:
        return (), 0
    args = {"pid": server.process.pid, "ports": [server.port]}
    said = (await desk.link.call("connections", args)).result
    return (
        tuple(
            Connection(
                int(one["port"]),
                clean(one["peer"]),
                one["pid"],
                clean(owners.redacted(one["title"])),
                bool(one["ours"]),
            )
            for one in said["connections"]
        ),
        int(said["count"]),
    )


def as_they_stand(runs: Sequence[Run], servers: Sequence[HostServer]) -> tuple[Run, ...]:
    """Return runs that were read from their folders alone, those that live as their servers answer."""
    ours = {each.run: _phase(each) for each in servers if each.ours and each.readiness}
    return tuple(
        replace(run, phase=ours.get(run.id, run.phase)) if run.phase is RunPhase.STARTING else run for run in runs
    )


def _phase(server: HostServer) -> RunPhase:
    phases = {"ok": RunPhase.READY, "": RunPhase.READY, "refused": RunPhase.STARTING, "unwell": RunPhase.STARTING}
    return phases.get(server.readiness, RunPhase.BUSY)


def as_run(server: HostServer) -> Run:
    """Return a server that is no run of ours as one that is only looked at."""
    return Run(
        id="",
        profile="",
        engine=server.engine,
        folder="",
        log=server.log,
        port=server.port or 0,
        started_at=server.started_at or 0.0,
        process=server.process,
        argv=server.argv,
        phase=_phase(server),
        adopted=False,
        operator=server.user,
        versions={engine(server.engine).package or server.engine: server.version} if server.version else {},
        members=tuple(ProcessId(one.pid, one.start_ticks) for one in server.members),
        log_why=str(server.output_why),
    )


def asked_for(argv: Sequence[str], kind: str) -> Profile:
    """Return what a command line asks for, as the profile that it would be; without arguments where it is not read."""
    from console.config.commands.imported import import_text  # 30 ms of readers of pasted text

    try:
        return import_text(shlex.join(argv), name="its command line", place="its command line").profile
    except UsageError:
        port = _word_after(argv, "--port")
        port_number = int(port) if port.isdigit() else dialect(kind).default_port
        return Profile("its command line", "", engine=EngineSection(kind), launch=LaunchSection(port=port_number))


def _server(told: Mapping[str, Any], around: Mapping[str, Any], states: Sequence[Mapping[str, Any]]) -> HostServer:
    kind, role = str(told["kind"]), Role(told["role"])
    process = ProcessId(int(told["pid"]), int(told["start_ticks"]), int(told["session"]))
    members = tuple(
        Member(int(one["pid"]), int(one["start_ticks"]), clean(owners.redacted(one["title"])))
        for one in told["processes"]
    )
    argv = without_secret_words(engine(kind).redacted([str(word) for word in told["argv"]]))
    state = _run_of(process, members, states)
    record = (state.get("record") or {}) if state is not None else {}
    profile = asked_for(told["argv"], kind) if role is Role.SERVER else None
    model = profile.launch.args.get(dialect(kind).model) if profile is not None else None
    return HostServer(
        engine=kind,
        role=role,
        process=process,
        user=str(told["user"]),
        argv=tuple(str(clean(word)) for word in argv),
        started_at=told["started_at"],
        cwd=str(told["cwd"]),
        port=_port(told, profile.launch.port, argv) if profile is not None else None,
        ports=tuple(told["ports"]) if told["ports_sure"] else (),
        model=str(clean(model)) if isinstance(model, str) else "",
        gpus=tuple(GpuShare(str(one["uuid"]), one["index"], one["memory_mib"]) for one in told["gpus"]),
        gpus_told=bool(around["gpus_told"]),
        members=members,
        run=str(record.get("id") or told["run"]),
        ours=state is not None,
        parent=clean(owners.redacted(told["parent"])),
        log=str((state or {}).get("log") or told["log"]),
        output=str(told["output"]),
        output_why=clean(told["output_why"]),
        container=str(told["container"])[:12],
        unit=str(told["unit"]),
        may_signal=around["uid"] in (0, told["uid"]),
    )


def _run_of(
    process: ProcessId, members: Sequence[Member], states: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the run folder that a server belongs to: by its process, or by any that is left of it."""
    ids = {(process.pid, process.start_ticks), *((one.pid, one.start_ticks) for one in members)}
    for state in states:
        whole = {(one["pid"], one["start_ticks"]) for one in state["processes"]}
        if (state["pid"], state["start_ticks"]) in ids or whole & ids:
            return state
    return None


def _port(told: Mapping[str, Any], asked: int, argv: Sequence[str]) -> int | None:
    """Return the port of a server's HTTP as the host reaches it; `None` when it does not listen yet.

    Beside it listen sockets between its processes, and those are open long before it is.
    """
    ports = list(told["ports"])
    named = any(word.partition("=")[0] == "--port" for word in argv)
    alone = len(ports) == 1 and told["ports_sure"] and told["kind"] != "vllm" and not named
    port = asked if asked in ports else ports[0] if alone else None
    if told["network"]:
        outside: int | None = told["published"].get(str(port or asked))
        return outside
    return port


async def _asked(desk: Desk, server: HostServer) -> HostServer:
    """Return a server with what it says of itself over HTTP."""
    if server.role is not Role.SERVER or not server.port:
        return server
    adapter = engine(server.engine)
    answer, models, about = await asyncio.gather(
        running.answers(desk, as_run(server)),
        running.get_told(desk, server.port, MODELS, of=adapter),
        _nothing()
        if not adapter.version_path
        else running.get_told(desk, server.port, adapter.version_path, of=adapter),
    )
    model = server.model
    if isinstance(models, Mapping) and isinstance(entries := models.get("data"), list) and entries and not model:
        model = str(clean(str(entries[0].get("id", "")))) if isinstance(entries[0], Mapping) else ""
    version = str(clean(adapter.version(about))) if isinstance(about, Mapping) else ""
    return replace(server, readiness=answer, model=model, version=version)


async def _nothing() -> None:
    return None


def _word_after(words: Sequence[str], flag: str) -> str:
    return next((after for word, after in itertools.pairwise(words) if word == flag), "")

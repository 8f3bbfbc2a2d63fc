"""The server: `serve start | stop | restart | status | attach`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.cli.run_text import run_fields, run_lines, table_lines
from console.domain.run import LIVING, Run
from console.errors import RefusedError

if TYPE_CHECKING:
    from console.operations.desk import Desk

DEADLINE_S = 3600.0


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    serve = verbs.add_parser("serve", help="the server: start, stop, restart, status, attach")
    actions = serve.add_subparsers(dest="action", metavar="ACTION", required=True)

    start = actions.add_parser("start", parents=parents, help="launch the profile's server; it outlives the console")
    start.set_defaults(act=start_server)
    stop = actions.add_parser(
        "stop", parents=parents, help="stop a run that tokwatt started, and prove that it is gone"
    )
    stop.add_argument("run", nargs="?", metavar="RUN", help="the profile's living run when none is named")
    stop.set_defaults(act=stop_server)
    restart = actions.add_parser("restart", parents=parents, help="stop, then start")
    restart.set_defaults(act=restart_server)
    for verb in (start, restart):
        verb.add_argument("--wait", action="store_true", help="until the engine says that it is ready")
        verb.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="S", help="seconds to wait at most")
    for verb in (stop, restart):
        verb.add_argument("--grace", type=float, default=15.0, metavar="S", help="seconds between SIGTERM and SIGKILL")

    status = actions.add_parser("status", parents=parents, help="the run that matters; exit 1 when none lives")
    status.add_argument("run", nargs="?", metavar="RUN")
    status.add_argument("--all", action="store_true", help="every run kept on the host")
    status.set_defaults(act=show_status)
    attach = actions.add_parser("attach", parents=parents, help="the living server, ours or not, with its arguments")
    attach.set_defaults(act=attach_server)


async def start_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve start`."""
    from console.operations import server

    run = await server.start(desk)
    if args.wait:
        run = await server.wait_ready(desk, run, deadline_s=args.deadline)
    else:
        out.say(f"run {run.id} is starting; tokwatt serve status tells how far it is")
    _print(run, out)
    return 0


async def stop_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve stop`."""
    from console.operations import server

    run: Run | None
    if args.run:
        run = await server.find_run(desk, args.run)
    else:
        run = await server.status(desk)
        if run is not None and run.profile and args.profile and desk.profile and run.profile != desk.profile.name:
            raise RefusedError(
                f"run {run.id} on port {run.port} was started from profile {run.profile}, not {desk.profile.name}",
                hint=f"tokwatt serve stop {run.id} stops it all the same",
            )
    _print(await server.stop(desk, run, grace_s=args.grace), out)
    return 0


async def restart_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve restart`."""
    from console.operations import server

    run = await server.restart(desk, grace_s=args.grace)
    if args.wait:
        run = await server.wait_ready(desk, run, deadline_s=args.deadline)
    _print(run, out)
    return 0


async def show_status(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve status`."""
    from console.operations import server

    if args.all:
        runs = await server.all_runs(desk)
        if out.json:
            out.document(runs=[run_fields(run) for run in runs])
        for line in () if out.json else table_lines(runs):
            out.line(line)
        return 0
    run = await server.find_run(desk, args.run) if args.run else await server.status(desk)
    if run is None:
        if out.json:
            out.document(run=None)
        out.say(f"{desk.link.host.name}: no server runs")
        return 1
    _print(run, out)
    return 0 if run.phase in LIVING else 1


async def attach_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve attach`."""
    from console.operations import server

    run = await server.attach(desk)
    if run is None:
        if out.json:
            out.document(run=None)
        out.say(f"{desk.link.host.name}: no server runs")
        return 1
    resolved = await server.resolved_arguments(desk, run)
    differences = server.differences(desk.profile, resolved) if desk.profile is not None else ()
    if out.json:
        changed = [{"name": d.name, "requested": d.requested, "resolved": d.resolved} for d in differences]
        out.document(run=run_fields(run), resolved=dict(resolved), differences=changed)
        return 0
    _print(run, out)
    for entry in differences:
        out.line(f"  asked for {entry.name} = {entry.requested!r}, in force is {entry.resolved!r}")
    out.say(f"{len(resolved)} arguments in force; {len(differences)} otherwise than asked for")
    return 0


def _print(run: Run, out: Output) -> None:
    if out.json:
        out.document(run=run_fields(run))
        return
    for line in run_lines(run):
        out.line(line)

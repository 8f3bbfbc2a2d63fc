"""The server: `serve start | stop | restart | status | attach | adopt`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.cli.run_text import run_fields, run_lines, table_lines
from console.domain.run import LIVING, Run
from console.errors import AlreadySoError, RefusedError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk

DEADLINE_S = 3600.0


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    serve = verbs.add_parser("serve", help="the server: start, stop, restart, status, attach, adopt")
    actions = serve.add_subparsers(dest="action", metavar="ACTION", required=True)

    start = actions.add_parser("start", parents=parents, help="launch the profile's server; it outlives the console")
    start.add_argument(
        "--dry-run", action="store_true", help="show what it would run and meet; 3 when it would be refused"
    )
    start.set_defaults(act=start_server)
    stop = actions.add_parser(
        "stop", parents=parents, help="stop a run that tokwatt started, and prove that it is gone"
    )
    stop.add_argument("run", nargs="?", metavar="RUN", help="the profile's living run when none is named")
    stop.add_argument(
        "--pid", type=_pid, metavar="PID", help="a server that tokwatt did not start; what it is is shown first"
    )
    stop.add_argument(
        "--confirm", default="", metavar="PID", help="the pid once more, where nobody can be asked to type it"
    )
    stop.set_defaults(act=stop_server)
    restart = actions.add_parser("restart", parents=parents, help="stop, then start")
    restart.set_defaults(act=restart_server)
    for verb in (start, restart):
        verb.add_argument("--force", action="store_true", help="although this install would not take its arguments")
        verb.add_argument("--wait", action="store_true", help="until the engine says that it is ready")
        verb.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="S", help="seconds to wait at most")
    for verb in (stop, restart):
        verb.add_argument("--grace", type=float, default=15.0, metavar="S", help="seconds between SIGTERM and SIGKILL")

    status = actions.add_parser("status", parents=parents, help="the run that matters; exit 1 when none lives")
    status.add_argument("run", nargs="?", metavar="RUN")
    status.add_argument(
        "--all", action="store_true", help="every server of the host, whoever started it, and every run kept there"
    )
    status.set_defaults(act=show_status)
    attach = actions.add_parser("attach", parents=parents, help="the living server, ours or not, with its arguments")
    attach.add_argument("pid", nargs="?", type=_pid, metavar="PID", help="one of serve status --all")
    attach.set_defaults(act=attach_server)
    adopt = actions.add_parser(
        "adopt", parents=parents, help="make a run of a server that was started otherwise; it goes on as it is"
    )
    adopt.add_argument("pid", type=_pid, metavar="PID", help="one of serve status --all")
    adopt.set_defaults(act=adopt_server)


def _pid(text: str) -> int:
    """Return the number of a process."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no pid")
    return int(text)


async def start_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve start`."""
    from console.operations import server

    if args.dry_run:
        return await _show_dry_run(desk, out)
    run = await server.start(desk, force=args.force)
    if args.wait:
        run = await server.wait_ready(desk, run, deadline_s=args.deadline)
    else:
        out.say(f"run {run.id} is starting; tokwatt serve status tells how far it is")
    _print(run, out)
    return 0


async def _show_dry_run(desk: Desk, out: Output) -> int:
    """Print what a start would meet: 2 for a wrong profile, 3 when the host is in the way."""
    from console.operations.dry_run import dry_run
    from console.operations.fitness import line_of

    found = await dry_run(desk)
    code = 2 if found.wrong else 3 if found.blocking else 0
    if out.json:
        out.document(
            command=found.command,
            env=dict(found.env),
            patches_on=list(found.patches_on),
            blocking=list(found.blocking),
            warnings=list(found.warnings),
            findings=[each.told for each in found.findings],
            host={
                name: found.facts[name] for name in ("gpus", "gpu_processes", "disks", "memory", "model", "listeners")
            },
        )
        return code
    out.line(found.command)
    out.line(f"patches on: {', '.join(found.patches_on) or 'none'}")
    for line in found.host_lines:
        out.line(line)
    findings = [line_of(each) for each in found.findings]
    for word, said in (("would be refused", found.blocking), ("warning", found.warnings), ("profile", findings)):
        for text in said:
            out.line(f"{word}: {text}")
    return code


async def stop_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve stop`."""
    from console.operations import server

    if args.pid is not None:
        return await _stop_process(args, desk, out)
    if args.confirm:
        raise UsageError("serve stop: --confirm goes with --pid")
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


async def _stop_process(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """End a server by its pid, typed once more after it was seen."""
    from console.cli.server_text import stake_fields
    from console.operations import foreign
    from console.operations.server_words import stake_lines

    if args.run:
        raise UsageError("serve stop: RUN and --pid name one thing each; give one of them")
    desk.must_write("serve stop")
    try:
        at_stake = await foreign.stake(desk, args.pid)
    except UsageError as error:
        raise AlreadySoError(error.title, error.detail, error.hint) from error
    for line in stake_lines(at_stake):
        out.say(f"  {line}")
    typed = args.confirm
    if not typed and not at_stake.server.ours and sys.stdin.isatty() and out.stderr.isatty():
        typed = await asyncio.to_thread(_typed, out, at_stake.server.process.pid)
    try:
        run = await foreign.stop(desk, at_stake, typed, grace_s=args.grace)
    except (RefusedError, AlreadySoError):
        if out.json:  # what a script must show before it asks for the pid
            out.document(stopped=False, run=None, **stake_fields(at_stake))
        raise
    if out.json:
        out.document(stopped=True, run=run_fields(run), **stake_fields(at_stake))
    else:
        out.line(f"stopped: {at_stake.server.engine} of {at_stake.server.user}, pid {at_stake.server.process.pid}")
    return 0


def _typed(out: Output, pid: int) -> str:
    out.stderr.write(f"type {pid} to stop it: ")
    out.stderr.flush()
    return sys.stdin.readline().strip()


async def adopt_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve adopt`."""
    from console.operations import foreign

    _print(await foreign.adopt(desk, args.pid), out)
    return 0


async def restart_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve restart`."""
    from console.operations import server

    run = await server.restart(desk, grace_s=args.grace, force=args.force)
    if args.wait:
        run = await server.wait_ready(desk, run, deadline_s=args.deadline)
    _print(run, out)
    return 0


async def show_status(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve status`."""
    from console.operations import server

    if args.all:
        return await _show_all(desk, out)
    run = await server.find_run(desk, args.run) if args.run else await server.status(desk)
    if run is None:
        if out.json:
            out.document(run=None)
        out.say(f"{desk.link.host.name}: no server runs")
        return 1
    _print(run, out)
    return 0 if run.phase in LIVING else 1


async def _show_all(desk: Desk, out: Output) -> int:
    """Print every server of the host, then every run that is kept there."""
    from console.cli.server_text import by_role, server_lines
    from console.operations import server, servers

    found = await servers.found(desk)
    runs = servers.as_they_stand(await server.all_runs(desk), found)
    if out.json:
        out.document(runs=[run_fields(run) for run in runs], **by_role(found))
        return 0
    for line in server_lines(found):
        out.line(line)
    if not found:
        out.say(f"{desk.link.host.name}: no engine server runs, whoever may have started one")
    for line in table_lines(runs):
        out.line(line)
    return 0


async def attach_server(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `serve attach`."""
    from console.operations import foreign, server, servers
    from console.operations.argument_table import differences_between, fields

    run = await foreign.attach(desk, args.pid) if args.pid is not None else await server.attach(desk)
    if run is None:
        if out.json:
            out.document(run=None)
        out.say(f"{desk.link.host.name}: no server runs")
        return 1
    resolved = await server.resolved_arguments(desk, run)
    # What a stranger was asked for stands on its own command line, not in a profile of ours.
    own = args.pid is None and run.adopted and run.launched and desk.profile is not None
    profile = desk.profile if own and desk.profile is not None else servers.asked_for(run.argv, run.engine)
    differences = server.differences(profile, resolved)
    rows = differences_between(profile, resolved)
    if out.json:
        changed = [{"name": d.name, "requested": d.requested, "resolved": d.resolved} for d in differences]
        out.document(run=run_fields(run), resolved=dict(resolved), differences=changed, arguments=fields(rows))
        return 0
    _print(run, out)
    for row in rows:
        if row.asked is not None:
            sign = "≠" if row.state == "different" else "=" if row.state == "as asked" else "?"
            out.line(
                f"  {sign} {row.name} = {row.asked!r}" + (f", in force is {row.in_force!r}" if sign == "≠" else "")
            )
    out.say(f"{len(resolved)} arguments in force; {len(differences)} otherwise than asked for")
    if not run.adopted:
        out.say(f"read-only until it is adopted: tokwatt serve adopt {run.process.pid if run.process else 'PID'}")
    return 0


def _print(run: Run, out: Output) -> None:
    if out.json:
        out.document(run=run_fields(run))
        return
    for line in run_lines(run):
        out.line(line)

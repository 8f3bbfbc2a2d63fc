"""The server: `serve start | stop | restart | status | attach | adopt`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.cli.run_text import run_fields, run_lines, table_lines
from console.domain.run import LIVING, Run
from console.errors import AlreadySoError, RefusedError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk

DEADLINE_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Help:
    """What the help of an action says."""

    told: str
    more: str
    codes: str


HELP = {
    "start": _Help(
        "launch the profile's server as a new run",
        "Host and install are asked first: port, interpreter, folders, flags; nothing is launched that cannot come up.",
        "0 launched (with --wait: ready), 1 it died or was not ready in time, 2 no profile, or host and install lack what "
        "it asks for, 3 the port is taken or something of an ended run is left, 6 a run of the profile lives",
    ),
    "restart": _Help(
        "stop the run of the profile, then start the profile",
        "What a start would lack is found before anything is stopped.",
        "as start; 3 also when the server is not ours, 6 when another console launched it meanwhile",
    ),
    "stop": _Help(
        "stop a server and prove that it is gone",
        "Requests are aborted, then SIGTERM, then SIGKILL to what is left; then processes, port and GPU memory are looked at.",
        "0 gone, 1 something is still there, 2 no such run, 3 not ours, or its pid was not typed, 6 it was gone already",
    ),
    "status": _Help(
        "tell how the server stands",
        "The living run of the profile, else whatever listens on its port, else the newest run.",
        "0 it lives, 1 none does, 2 no such run; always 0 with --all",
    ),
    "attach": _Help(
        "show a living server, ours or not, with the arguments in force",
        "Read-only; the server is not touched.",
        "0 shown, 1 no server runs, 2 no such process, 3 it is no server",
    ),
    "adopt": _Help(
        "make a run of a server that was started otherwise",
        "It goes on as it is. From then on its log, its numbers and its stop are those of a run; what it had loaded at its "
        "start stays unproven.",
        "0 adopted, 2 no such process, 3 it is no server, or another login's, 6 it is a run already",
    ),
}


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    serve = verbs.add_parser(
        "serve",
        help="the server: start, stop, restart, status, attach, adopt",
        description="The inference server of a host. It outlives the console; each launch or adoption is a run, kept on "
        "the host. What tokwatt did not start is only looked at until it is adopted, or its pid typed.",
    )
    actions = serve.add_subparsers(dest="action", metavar="ACTION", required=True)
    acts = {
        "start": start_server,
        "restart": restart_server,
        "stop": stop_server,
        "status": show_status,
        "attach": attach_server,
        "adopt": adopt_server,
    }
    made: dict[str, argparse.ArgumentParser] = {}
    for name, act in acts.items():
        words = HELP[name]
        about = f"{words.told[0].upper()}{words.told[1:]}. {words.more}"
        made[name] = actions.add_parser(
            name, parents=parents, help=words.told, description=about, epilog=f"Exit: {words.codes}."
        )
        made[name].set_defaults(act=act)
    _add_launching(made["start"], made["restart"])
    _add_stopping(made["stop"], made["restart"])
    a_run, a_pid = "a number of serve status --all", "one of serve status --all"
    made["status"].add_argument("run", nargs="?", metavar="RUN", help=a_run)
    made["status"].add_argument(
        "--all",
        action="store_true",
        help="every engine server of the host, whoever started it, and every run kept there",
    )
    made["attach"].add_argument("pid", nargs="?", type=_pid, metavar="PID", help=f"{a_pid}; else as serve status")
    made["adopt"].add_argument("pid", type=_pid, metavar="PID", help=a_pid)


def _add_launching(start: argparse.ArgumentParser, restart: argparse.ArgumentParser) -> None:
    start.add_argument(
        "--dry-run", action="store_true", help="only show what it would run and meet; exit 2 or 3 as a start"
    )
    for verb in (start, restart):
        verb.add_argument(
            "--force", action="store_true", help="although this install would not take the profile's arguments"
        )
        verb.add_argument("--wait", action="store_true", help="return when the engine is ready; its steps are told")
        verb.add_argument(
            "--deadline", type=float, default=DEADLINE_S, metavar="S", help="seconds to wait at most (%(default)g)"
        )


def _add_stopping(stop: argparse.ArgumentParser, restart: argparse.ArgumentParser) -> None:
    stop.add_argument(
        "run", nargs="?", metavar="RUN", help="a number of serve status --all; else the profile's living run"
    )
    stop.add_argument(
        "--pid",
        type=_pid,
        metavar="PID",
        help="a server that tokwatt did not start; its owner, command and clients are shown",
    )
    stop.add_argument(
        "--confirm", default="", metavar="PID", help="the same pid again, for a script; at a terminal it is asked for"
    )
    for verb in (stop, restart):
        verb.add_argument(
            "--grace", type=float, default=15.0, metavar="S", help="seconds between SIGTERM and SIGKILL (%(default)g)"
        )


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
            told = {"≠": f", in force is {row.in_force!r}", "?": ", which the server does not tell"}.get(sign, "")
            out.line(f"  {sign} {row.name} = {row.asked!r}{told}")
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

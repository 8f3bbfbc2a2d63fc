"""Profiles: `profile list | show | check | import | command | save | verify | reproduce`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.domain.profile import Profile
from console.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.operations.profile_import import ProfileImport


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    profile = verbs.add_parser("profile", help="profiles: list, show, check, import, command, save, verify, reproduce")
    actions = profile.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", parents=parents, help="every profile that a name can reach")
    listing.set_defaults(act=list_profiles, needs="nothing")
    for name, act, words in (
        ("show", show_profile, "one profile, layers resolved"),
        ("command", show_command, "the exact command line that it stands for"),
    ):
        verb = actions.add_parser(name, parents=parents, help=words)
        verb.add_argument("name", nargs="?", metavar="NAME-or-FILE")
        verb.set_defaults(act=act, needs="nothing")
        if name == "show":
            verb.add_argument("--resolved", action="store_true", help="beside what the running server has in force")
            verb.set_defaults(needs=_needs_of_show)
    _add_import(actions, parents)
    check = actions.add_parser("check", parents=parents, help="the file, and with a host also its install")
    check.add_argument("name", nargs="?", metavar="NAME-or-FILE")
    check.set_defaults(act=check_profile, needs=_needs_of_check)
    save = actions.add_parser("save", parents=parents, help="keep the running configuration with what it measured")
    save.add_argument("name", metavar="NAME")
    save.add_argument("--overwrite", action="store_true", help="replace an own profile of that name")
    save.add_argument("--fresh", action="store_true", help="measure it afresh first: the best of several is too good")
    save.add_argument("--dirty", action="store_true", help="although uncommitted changes are in no patch of it")
    save.set_defaults(act=save_profile)
    verify = actions.add_parser("verify", parents=parents, help="what has drifted on the host since a winner was saved")
    verify.add_argument("name", nargs="?", metavar="NAME-or-FILE")
    verify.set_defaults(act=verify_winner, needs=_needs_of_winner)
    again = actions.add_parser("reproduce", parents=parents, help="rebuild a winner, measure it again, and judge")
    again.add_argument("name", nargs="?", metavar="NAME-or-FILE")
    again.add_argument("--force", action="store_true", help="although something has drifted")
    again.set_defaults(act=reproduce_winner, needs=_needs_of_winner)


def _add_import(actions: Any, parents: list[argparse.ArgumentParser]) -> None:
    pasted = actions.add_parser("import", parents=parents, help="a profile out of a launch command as it was pasted")
    pasted.add_argument("file", metavar="FILE", help="the command or script, or - for standard input; nothing is run")
    pasted.add_argument("--name", default="", metavar="NAME", help="name of the new profile")
    pasted.add_argument(
        "--output", default="", metavar="PATH", help="file or folder to write to; - for standard output"
    )
    pasted.add_argument(
        "--set", action="append", default=[], metavar="VAR=VALUE", help="a variable that the text lacks"
    )
    pasted.add_argument("--pick", type=int, default=1, metavar="N", help="which launch, where the text has several")
    pasted.add_argument("--repair", action="store_true", help="take broken JSON and lost lines as they were meant")
    pasted.add_argument("--no-shell", action="store_true", help="an argument list that no shell reads (YAML, a form)")
    pasted.set_defaults(act=import_profile, needs="nothing")


def _needs_of_show(args: argparse.Namespace) -> str:
    """A server is asked only for what is in force."""
    if args.resolved and args.name and not args.profile:
        args.profile = args.name
    return "host" if args.resolved else "nothing"


def _needs_of_winner(args: argparse.Namespace) -> str:
    """A winner is held against the host of its profile, or the one that is named."""
    args.profile = args.name or args.profile
    return "host"


def _needs_of_check(args: argparse.Namespace) -> str:
    """A host is asked when one is named; the file alone is checked without."""
    if args.host and args.name and not args.profile:
        args.profile = args.name
    return "host" if args.host else "nothing"


async def list_profiles(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `profile list`."""
    from console.operations import profiles

    listed = profiles.listed()
    if out.json:
        rows = [
            {
                "name": entry.name,
                "path": str(entry.path),
                "title": entry.profile.title if entry.profile else None,
                "host": entry.profile.host.ssh if entry.profile else None,
                "winner": bool(entry.profile and entry.profile.winner),
                "fault": entry.fault or None,
            }
            for entry in listed
        ]
        out.document(profiles=rows)
        return 0
    for entry in listed:
        if entry.profile is None:
            out.line(f"! {entry.name:<28} {entry.fault}")
            continue
        sign = "★" if entry.profile.winner else " "
        out.line(f"{sign} {entry.name:<28} {entry.profile.host.ssh or '—':<16} {entry.profile.title}")
    return 0


async def show_profile(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `profile show`."""
    from console.operations import profiles

    if desk is not None:
        return await _show_resolved(desk, out)
    profile = _named(args)
    if out.json:
        out.document(profile=profiles.fields(profile))
        return 0
    out.line(f"{profile.name} · {profile.title}")
    out.line(f"  file      {profile.path}")
    out.line(f"  host      {profile.host.ssh or '—'}")
    out.line(f"  engine    {profile.engine.kind}, {profile.engine.python or 'python3'}")
    out.line(f"  patches   {', '.join(profile.patches_on) or '—'}")
    concurrency = ", ".join(map(str, profile.bench.concurrency))
    out.line(f"  bench     {concurrency} streams, {profile.bench.input_tokens} in, {profile.bench.output_tokens} out")
    if profile.target.output_tok_s:
        out.line(f"  target    {profile.target.output_tok_s:,.0f} tok/s ({profile.target.origin})")
    if len(profile.layers) > 1:
        out.line(f"  extends   {' → '.join(Path(file).stem for file in profile.layers[1:])}")
    for line in _arguments(profile):
        out.line(line)
    out.line(f"  command   {profiles.shell_command(profile)}")
    return 0


async def _show_resolved(desk: Desk, out: Output) -> int:
    """Show every argument asked for, defaulted and in force, differences first."""
    from console.operations import argument_table, server

    profile = desk.must_profile()
    run = await server.status(desk)
    if run is None or not run.port:
        raise RefusedError(f"{desk.link.host.name}: no server runs, what would be in force is not known")
    resolved = await server.resolved_arguments(desk, run)
    rows = argument_table.differences_between(profile, resolved)
    if out.json:
        out.document(profile=profile.name, run=run.id, arguments=argument_table.fields(rows))
        return 0
    size = max([8, *(len(row.name) for row in rows)])
    for row in rows:
        sign = "!" if row.state == argument_table.DIFFERENT else " "
        asked, in_force = ("—" if value is None else str(value) for value in (row.asked, row.in_force))
        out.line(f"{sign} {row.name:<{size}}  {asked:<28}  {in_force:<28}  {row.state}")
    if not resolved:
        out.say(f"run {run.id}: neither the server nor its log says what is in force yet")
    return 0


def _arguments(profile: Profile) -> list[str]:
    """Return every argument and variable with its place."""
    from console.operations import profiles

    rows = []
    for row in profiles.rows(profile):
        place = f"{Path(row.file).name}:{row.line}" if row.file else ""
        rows.append((row.name, row.value, place))
    sizes = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return [f"  {name:<{sizes[0]}}  {value:<{min(sizes[1], 40)}}   {place}" for name, value, place in rows]


async def show_command(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `profile command`."""
    from console.operations import profiles, ways

    profile = _named(args)
    if out.json:
        out.document(
            argv=list(profiles.argv(profile)),
            via=profile.launch.via,
            words=ways.shown(profile, profiles.argv(profile)),
            env=sorted(profile.launch.env),
            unset=list(profile.launch.unset),
            command=profiles.shell_command(profile),
        )
    else:
        out.line(profiles.shell_command(profile))
    return 0


async def import_profile(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `profile import`."""
    from console.operations import profile_import

    piped = args.file == "-"
    text = profile_import.decoded(sys.stdin.buffer.read(), "standard input") if piped else ""
    text = text if piped else profile_import.read_command(args.file)

    def imported(repair: bool) -> ProfileImport:
        return profile_import.import_command(
            text,
            place="standard input" if piped else args.file,
            name=args.name,
            known=_variables(args.set),
            pick=args.pick,
            repair=repair,
            shell=not args.no_shell,
        )

    made = imported(args.repair)
    if not args.repair and not piped and not out.json and _asked(made, out):
        made = imported(True)
    wrong = bool(made.found.wrong)
    if args.output != "-" and not wrong:
        made = profile_import.keep(made, args.output)
    for note in made.found.notes:
        out.say(f"{note.severity}: {note.sentence()}")
    if out.json:
        out.document(**profile_import.fields(made))
        return 2 if wrong else 0
    if wrong:
        profile_import.keep(made)  # tells what is wrong
    if made.path is None:
        out.raw(made.toml.encode())
        return 0
    flags, variables = len(made.profile.launch.args), len(made.profile.launch.env)
    out.say(
        f"{made.profile.engine.kind}, {flags} flags, {variables} variables · tokwatt profile check {made.path.stem}"
    )
    out.line(str(made.path))
    return 0


def _asked(made: ProfileImport, out: Output) -> bool:
    """Ask, where there is somebody to answer, whether the text is taken as it was meant."""
    offers = [note for note in made.found.notes if note.offer]
    if not offers or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for note in offers:
        out.say(f"{note.severity}: {note.sentence()}")
    out.say("take it as it was meant? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _variables(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--set {each}: not VAR=VALUE")
        found[name] = value
    return found


async def check_profile(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Run `profile check`."""
    from console.operations import profile_check

    profile = desk.must_profile() if desk is not None else _named(args)
    found = await profile_check.check(profile, desk)
    errors = [finding for finding in found if finding.severity == profile_check.ERROR]
    if out.json:
        rows = [
            {
                "severity": f.severity,
                "key": f.key or None,
                "file": f.file or None,
                "line": f.line or None,
                "text": f.text,
                "hint": f.hint or None,
            }
            for f in found
        ]
        host = desk.link.host.name if desk is not None else None
        out.document(profile=profile.name, path=profile.path, host=host, ok=not errors, findings=rows)
        return 2 if errors else 0
    for finding in found:
        out.line(
            f"{finding.place}: {finding.severity}: {finding.text}" + (f" · {finding.hint}" if finding.hint else "")
        )
    if not found:
        where = f" on {desk.link.host.name}" if desk is not None else " (the file alone; --host asks the install, too)"
        out.line(f"{profile.name}: nothing wrong found{where}")
    return 2 if errors else 0


async def save_profile(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `profile save`."""
    from console.operations import server
    from console.operations.winner import is_measured_afresh, measure_afresh, save_winner

    await server.status(desk)
    if args.fresh:
        said = 0
        async for progress in measure_afresh(desk):
            if progress.current is not None and progress.current != said:
                said = progress.current
                out.say(f"measuring {said} afresh")
    path = await save_winner(desk, args.name, overwrite=args.overwrite, dirty=args.dirty)
    if not await is_measured_afresh(desk):
        out.say("sealed with the numbers that it was chosen by; --fresh measures again first")
    if out.json:
        out.document(path=str(path))
    else:
        out.line(str(path))
    return 0


def _named(args: argparse.Namespace) -> Profile:
    from console.operations import profiles

    name = args.name or args.profile
    if not name:
        raise UsageError("no profile is named", hint="tokwatt profile list")
    return profiles.load(name)


async def verify_winner(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Print what has drifted; 3 when anything has."""
    from console.operations.verifying import summary, verify

    found = await verify(desk)
    if out.json:
        out.document(
            profile=found.profile,
            host=found.host,
            drifts=[
                {"what": one.what, "saved": one.saved, "now": one.now, "gravity": one.gravity} for one in found.drifts
            ],
            unknown=list(found.unknown),
            reasons=dict(found.reasons),
            checked=list(found.checked),
        )
        return 3 if found.drifts else 0
    for one in found.drifts:
        out.line(one.said)
    for what in found.unknown:
        out.say(f"not known, so not compared: {what}: {found.reasons.get(what) or 'not told'}")
    out.say(summary(found))
    return 3 if found.drifts else 0


async def reproduce_winner(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Measure a winner again; 0 reproduced within noise, 1 not, 5 when something could not be measured."""
    from console.operations.verifying import Again, Conclusion, concluded, reproduce

    rows: list[Again] = []
    async for part in reproduce(desk, force=args.force):
        if isinstance(part, str):
            out.say(part)
            continue
        rows.append(part)
        if not out.json:
            out.line(_again_words(part))
    if out.json:
        names = ("concurrency", "saved_tok_s", "now_tok_s", "change_pct", "low_pct", "high_pct", "verdict", "why")
        out.document(results=[{name: getattr(row, name) for name in names} for row in rows])
    told = concluded(rows)
    out.say(told)
    return {Conclusion.REPRODUCED: 0, Conclusion.NOT_REPRODUCED: 1, Conclusion.NONE: 5}[told]


def _again_words(row: Any) -> str:
    if row.now_tok_s is None:
        return f"{row.concurrency:>6}  {row.saved_tok_s:,.1f} → — tok/s  not measured: {row.why or 'no request was served'}"
    bounds = "" if row.low_pct is None else f" [{row.low_pct:+.1f}, {row.high_pct:+.1f}]"
    return (
        f"{row.concurrency:>6}  {row.saved_tok_s:,.1f} → {row.now_tok_s:,.1f} tok/s"
        f"  {row.change_pct:+.1f} %{bounds}  {row.verdict}"
    )

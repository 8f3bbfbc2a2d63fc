"""`tokwatt experiment`: change one thing at a time, measured in pairs, with a verdict that can be trusted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from console.cli.experiment_text import arm_lines, confirmed_line, document, ledger_lines, plan_lines
from console.domain.experiment import Verdict
from console.errors import ConsoleError, UsageError
from console.operations.experiment_words import left_words

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.domain.experiment import ExperimentSpec, ExperimentState
    from console.operations.desk import Desk

EXITS = {
    Verdict.KEEP: 0,
    Verdict.REVERT: 1,
    Verdict.INCONCLUSIVE: 5,
    Verdict.OPEN: 5,
    Verdict.SAME_ARM: 6,
}
"""Exit code of an experiment's verdict; every arm the same is "already so"."""


def add(verbs: Any, parents: Sequence[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    experiment = verbs.add_parser("experiment", parents=parents, help="arms, pairs, verdicts: what earns its place")
    inner = experiment.add_subparsers(dest="what", metavar="WHAT", required=True)
    for name, act, needs, text in (
        ("plan", plan, _host_if_named, "what would be done: arms, restarts, minutes, smallest detectable effect"),
        ("run", run, "host", "do it; 0 KEEP, 1 REVERT, 5 INCONCLUSIVE, 3 refused, 6 every arm is the base"),
        ("resume", resume, "host", "go on with one that was cut off"),
        ("abandon", abandon, "host", "end an unfinished one: changes taken back, base relaunched"),
        ("report", report, "nothing", "what came of it, from the journal"),
        ("list", list_all, "nothing", "the journal's experiments, the newest first"),
        ("save", save, "host", "keep the winner as a profile, with its evidence"),
        ("holder", holder, "host", "who measures on the host, from whichever machine; 1 when nobody does"),
        ("take-over", take_over, "host", "end the hold of an operator, named in full; their experiment stops"),
        ("new", new, "nothing", "write a file that asks what makes run (or profile) B another than A"),
    ):
        one = inner.add_parser(name, parents=parents, help=text)
        one.set_defaults(act=act, needs=needs)
        if name == "new":
            one.add_argument("a", metavar="A")
            one.add_argument("b", metavar="B")
            one.add_argument("file", metavar="FILE")
            one.add_argument("--profiles", action="store_true", help="A and B are profiles, not runs of the journal")
            one.add_argument(
                "--only",
                action="append",
                default=[],
                metavar="CHANGE",
                help="a flag (without dashes), a variable or a patch",
            )
            one.add_argument(
                "--hypothesis", action="append", default=[], metavar="CHANGE=TEXT", help="why an arm should win"
            )
            one.add_argument(
                "--together",
                choices=("both", "apart", "only"),
                default="both",
                help="an arm each and one with all (both), an arm each (apart), one with all (only)",
            )
        elif name == "take-over":
            one.add_argument("operator", metavar="OPERATOR", help="who holds it, as `experiment holder` says")
        elif name not in ("list", "holder"):
            words = "FILE" if name in ("plan", "run") else "FILE-or-ID"
            one.add_argument("file", metavar=words, help="an experiment file, or its name")
            one.set_defaults(prepare=_base_first)
        if name == "run":
            one.add_argument("--again", action="store_true", help="although one is unfinished on this host")
        if name == "save":
            one.add_argument("name", metavar="NAME")
            one.add_argument("--overwrite", action="store_true", help="replace an own profile of that name")
            one.add_argument("--dirty", action="store_true", help="although uncommitted changes are in no patch of it")


async def _base_first(args: argparse.Namespace) -> None:
    """Let the base profile of the file, or the journal's entry, say which host it is about, and which interpreter."""
    from console.operations import experiments

    if args.act is report:
        return
    if args.act in (plan, run):
        args.profile = experiments.base_profile(args.file)
        return
    entry = await experiments.entry_of(args.file, host=(args.host or [None])[0])
    args.host = args.host or [entry.host]
    args.profile = experiments.base_profile(entry.path)


def _host_if_named(args: argparse.Namespace) -> str:
    """A plan looks at the host when one is named."""
    from console.operations.experiments import load

    return "host" if args.host or load(args.file).base.host.ssh else "nothing"


async def plan(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print what would be done; 3 when an arm is of another model."""
    from console.operations import experiments

    found = await experiments.plan(desk, experiments.load(args.file))
    if out.json:
        out.document(**experiments.plain_plan(found))
    else:
        for line in plan_lines(found):
            out.line(line)
    refused = [arm for arm in found.arms if arm.refused]
    for arm in refused:
        out.say(f"arm {arm.name}: {arm.reason}")
    return 3 if refused else 0


async def run(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run an experiment, its steps on stderr, its table on stdout at the end."""
    from console.operations import experiments, experiments_run

    spec = experiments.load(args.file)
    if spec.search is not None:
        return await _searched(spec, desk, out)
    return await _followed(experiments_run.run(desk, spec, again=args.again), out)


async def _searched(spec: ExperimentSpec, desk: Desk, out: Output) -> int:
    from console.operations import experiments_search

    return await _followed(experiments_search.run(desk, spec), out)


async def resume(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Go on with an experiment that was cut off."""
    from console.operations import experiments, experiments_run

    entry = await experiments.entry_of(args.file, host=desk.link.host.name)
    spec = experiments.load(entry.path)
    if spec.search is not None:
        return await _searched(spec, desk, out)
    return await _followed(experiments_run.resume(desk, spec, entry), out)


async def abandon(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """End an unfinished experiment with the base in force."""
    from console.operations import experiments, experiments_run

    entry = await experiments.entry_of(args.file, host=desk.link.host.name)
    told = await experiments_run.abandon(desk, experiments.load(entry.path), entry)
    _tell(told, out)
    return 0


async def report(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print what came of an experiment; its verdict is the exit code."""
    from console.operations import experiments

    found = await experiments.report(args.file, host=(args.host or [None])[0])
    _tell(found, out)
    return EXITS[found.verdict]


async def list_all(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print the journal's experiments; 1 when there is none."""
    from console.operations import experiments

    found = await experiments.listed()
    if out.json:
        out.document(experiments=[document(one) for one in found])
    for one in found if not out.json else ():
        badge = f" [{one.badge}]" if one.badge else ""
        verdicts = ", ".join(f"{arm.name} {arm.verdict}" for arm in one.outcomes if arm.against)
        state = "" if one.finished else "  unfinished"
        out.line(f"{one.id}  {one.host}{badge}  {one.name}  {verdicts}{state}")
    if not found:
        out.say("no experiment yet: tokwatt experiment run FILE")
    return 0 if found else 1


async def holder(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Print who measures on the host; 1 when nobody does."""
    from console.operations import holds

    now = await holds.holder(desk)
    if out.json:
        out.document(host=desk.link.host.name, holder=holds.plain(now) if now else None)
    elif now:
        out.line(f"{now['operator']}: {holds.told(now)}")
    else:
        out.say(f"{desk.link.host.name}: nobody")
    return 0 if now else 1


async def take_over(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """End the hold of an operator who is named in full; 3 when it is another's, 6 when it is nobody's."""
    from console.operations import holds

    what = await holds.take_over(desk, args.operator)
    if out.json:
        out.document(host=desk.link.host.name, taken_from=args.operator, was=what)
    else:
        out.line(f"taken over from {args.operator}: {what}")
    return 0


async def save(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Save the winner as a profile of the operator's own."""
    from console.operations.experiments_winner import save_winner

    path = await save_winner(desk, args.file, args.name, overwrite=args.overwrite, dirty=args.dirty)
    if out.json:
        out.document(path=str(path))
    else:
        out.line(str(path))
    return 0


async def new(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Write an experiment file made of what differs between two runs, or two profiles."""
    from console.operations import experiments_new, profiles

    if faulty := next((text for text in args.hypothesis if "=" not in text), ""):
        raise UsageError(f"--hypothesis {faulty}: names no change", "--hypothesis CHANGE=TEXT")
    whys = dict(text.split("=", 1) for text in args.hypothesis)
    picked = {"only": args.only, "hypotheses": whys, "together": args.together}
    if args.profiles:
        a, b = profiles.load(args.a), profiles.load(args.b)
        path = experiments_new.write(
            experiments_new.changes_of_profiles(a, b),
            base=experiments_new.base_of(a),
            title=f"What makes {b.name} another than {a.name}",
            file=args.file,
            **picked,
        )
    else:
        base = profiles.load(args.profile) if args.profile else None
        path = await experiments_new.write_from_runs(
            args.a, args.b, args.file, profile=base, host=(args.host or [""])[0], **picked
        )
    if out.json:
        out.document(path=str(path))
    else:
        out.line(str(path))
    return 0


async def _followed(states: Any, out: Output) -> int:
    """Narrate an experiment and print what came of it; one that failed has its document, too, and then its fault."""
    said, settled = "", set()
    told: ExperimentState | None = None
    try:
        async with aclosing(states) as steps:
            async for told in steps:
                if told.step and told.step != said:
                    said = told.step
                    place = f"{told.done + 1} of {max(told.planned, told.done + 1)}: " if told.planned else ""
                    left = f" ({left_words(told.left_s)})" if told.left_s is not None else ""
                    out.say(place + told.step + left)
                for arm in told.outcomes:
                    if arm.against and arm.verdict is not Verdict.OPEN and arm.name not in settled:
                        settled.add(arm.name)
                        out.say(f"{arm.name}: {arm.verdict}{f': {arm.reason}' if arm.reason else ''}")
    except ConsoleError as error:
        if told is not None and out.json:
            out.document(**document(replace(told, error=told.error or error.one_line())))
        raise
    assert told is not None
    _tell(told, out)
    return EXITS[told.verdict]


def _tell(told: ExperimentState, out: Output) -> None:
    if out.json:
        out.document(**document(told))
        return
    for line in [*arm_lines(told), *confirmed_line(told), *ledger_lines(told)]:
        out.line(line)
    for note in told.notes:
        out.say(note)
    if told.error:
        out.say(told.error)

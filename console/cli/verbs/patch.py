"""Patches: `patch list | show | check | apply | revert | undo | capture`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any

from console.cli import patch_text
from console.cli.output import Output
from console.domain.patch import DiskState, ProcessState, WriteReceipt
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.operations.patch_table import Checked


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    package = argparse.ArgumentParser(add_help=False)
    package.add_argument(
        "--package", action="append", metavar="DIR", help="engine package folder, where no interpreter is to be asked"
    )
    patch = verbs.add_parser("patch", help="patches of the engine: state, apply, revert, capture")
    actions = patch.add_subparsers(dest="action", metavar="ACTION", required=True)
    both = [*parents, package]

    listing = actions.add_parser("list", parents=parents, help="every patch that a name can reach; no host is asked")
    listing.set_defaults(act=list_patches, needs="nothing")

    show = actions.add_parser("show", parents=both, help="one patch: what for, what it needs, what it would change")
    show.add_argument("name", metavar="NAME-or-FILE")
    show.add_argument("--conflict", action="store_true", help="where it does not fit: expected, there, wanted")
    show.set_defaults(act=show_patch, needs=_needs_of_show)

    check = actions.add_parser("check", parents=both, help="state on disk and in the process; exit 0 whatever it is")
    check.add_argument("names", nargs="*", metavar="NAME-or-FILE", help="all known patches when none is named")
    check.set_defaults(act=check_patches, needs=_needs_of_check, many_hosts=True)

    for name, act, words in (
        ("apply", apply_patches, "switch patches on, verified: all files of one or none"),
        ("revert", revert_patches, "switch patches off: exactly our edits"),
    ):
        verb = actions.add_parser(name, parents=both, help=words)
        verb.add_argument("names", nargs="*", metavar="NAME-or-FILE")
        verb.add_argument(
            "--set", action="store_true", help="the profile's [patches] on: one plan, one write, one undo"
        )
        verb.add_argument("--exact", action="store_true", help="with --set: every other known patch goes off")
        verb.add_argument(
            "--dry-run", action="store_true", help="with --set: show the plan and its diff, write nothing"
        )
        verb.add_argument("--force", action="store_true", help="also where only some of its edits are on")
        verb.add_argument("--take-over", action="store_true", help="end a writer that has held the lock for long")
        verb.set_defaults(act=act)
        if name == "apply":
            verb.add_argument("--accept-fuzz", action="store_true", help="take hunks whose context differs")

    undo = actions.add_parser("undo", parents=both, help="take back the last change written to the package")
    undo.set_defaults(act=undo_last)

    capture = actions.add_parser("capture", parents=both, help="make a patch out of uncommitted changes or a diff file")
    capture.add_argument("name", metavar="NAME")
    capture.add_argument("files", nargs="*", metavar="FILE", help="files of the package, or local .diff files")
    capture.add_argument("--changed", action="store_true", help="what differs from the package as installed")
    capture.add_argument("--wheel", action="append", default=[], metavar="FILE", help="where originals may be")
    capture.add_argument("--split", choices=("file", "hunk"), help="a patch of every file or hunk: NAME-1, NAME-2, …")
    capture.set_defaults(act=capture_patch)

    pasted = actions.add_parser("import", parents=both, help="explain a sed line, and make a patch of what it would do")
    pasted.add_argument("line", metavar="'sed -i …'", help="the line as pasted into a shell, or - for standard input")
    pasted.add_argument("--name", default="", metavar="NAME", help="name of the new patch")
    pasted.add_argument("--as-meant", action="store_true", help="match \\n across lines, as sed itself never does")
    pasted.set_defaults(act=import_line)


def _needs_of_show(args: argparse.Namespace) -> str:
    return "host" if args.host or args.profile or args.package or args.conflict else "nothing"


async def list_patches(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print the known patches as their files tell them."""
    from console.operations import patches

    known = patches.known_patches(desk)
    if out.json:
        out.document(patches=[patch_text.described(patch) for patch in known])
        return 0
    width = max((len(patch.name) for patch in known), default=0)
    for patch in known:
        out.line(f"{patch.name:<{width}}  {patch.fault or patch.title}")
    if not known:
        out.say("no patches: put them into ./profiles/patches or ~/.config/tokwatt/patches")
    return 0


async def show_patch(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print one patch; with a host also its state and live diff there."""
    from console.operations import patches

    patch = patches.load_patch(desk, args.name)
    status = None
    if desk is not None:
        await _look_at_server(desk)
        status = (await patches.statuses(desk, [args.name]))[0]
    if out.json:
        out.document(
            patch={**patch_text.described(patch), **(patch_text.row(status, "") if status else {})},
            edits=patch_text.edits(patch.edits),
        )
        return 0
    out.line(f"{patch.name}: {patch.title}" if patch.title else patch.name)
    for line in patch.why.strip().splitlines():
        out.line(f"  {line}")
    applies, requires = patch.applies_to, patch.requires
    facts = {
        "file": patch.path,
        "engine": " ".join(part for part in (applies.engine, applies.version) if part),
        "upstream from": applies.upstream_from,
        "compute capability": ", ".join(applies.compute_capability),
        "needs": ", ".join(f"--{name} {value}" for name, value in requires.args.items()),
        "must be without": ", ".join(f"--{name}" for name in requires.absent),
        "goes on after": ", ".join(patch.after),
        "not beside": ", ".join(patch.conflicts_with),
        "proven by": f"log line {patch.evidence_log!r}" if patch.evidence_log else "",
    }
    for name, value in facts.items():
        if value:
            out.line(f"  {name:<18} {value}")
    if status is not None:
        out.line(f"  {'state':<18} {status.disk} · {status.reason}")
        if status.loaded is not ProcessState.NO_SERVER or status.process_reason:
            out.line(f"  {'in process':<18} {patch_text.process(status)}")
        for file, sha in status.seen:
            out.line(f"  {'changes':<18} {file}  {sha[:12] or 'is not there'}")
        for warning in status.warnings:
            out.line(f"  {'mind':<18} {warning}")
        for diff_line in status.conflict if args.conflict or not status.diff else status.diff:
            out.line(diff_line)
        if args.conflict and not status.conflict:
            out.say("no conflict")
        return 0
    for row in (patch.diff or "").splitlines():
        out.line(row)
    for edit in patch.edits:
        out.line(f"--- {edit.file}" + (f"  in {edit.within}" if edit.within else ""))
        for text, sign in ((edit.find, "-"), (edit.replace, "+")):
            for line in text.split("\n"):
                out.line(sign + line)
    return 0


async def check_patches(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print the state of patches, in every package and on every host that is named."""
    rows: list[Checked] = []
    failed = 0
    if desk is not None:
        rows = await _checked(args, desk)
    else:
        for name in args.host:
            try:
                rows += await _checked_on(args, name, out)
            except ConsoleError as error:
                out.say(f"tokwatt: {name}: {error.one_line()}")
                failed = failed or error.exit_code
    if out.json:
        out.document(patches=[patch_text.checked(row) for row in rows], table=patch_text.table(rows))
        return failed
    for line in patch_text.check_lines(rows, out.say):
        out.line(line)
    return failed


def _needs_of_check(args: argparse.Namespace) -> str:
    return "nothing" if len(args.host or ()) > 1 else "host"


async def _checked_on(args: argparse.Namespace, name: str, out: Output) -> list[Checked]:
    from console.operations.demo import join_demo
    from console.operations.opening import open_desk

    host: Any = await join_demo() if name == "demo" else name
    desk = await open_desk(
        host=host,
        profile=args.profile,
        readonly=args.readonly,
        accept_key=args.accept_new_host_key,
        package_dirs=tuple(args.package or ()),
        say=lambda text: out.say(f"{name}: {text}"),
    )
    try:
        return await _checked(args, desk)
    finally:
        with contextlib.suppress(ConsoleError):
            await desk.link.close()


async def _checked(args: argparse.Namespace, desk: Desk) -> list[Checked]:
    from console.operations import patches
    from console.operations.patch_table import Checked

    rows = []
    for folder in desk.package_dirs or ("",):
        _turn_to(desk, folder)
        if not folder:
            await _look_at_server(desk)
        found = await patches.statuses(desk, args.names)
        rows += [Checked(desk.link.host.name, folder, status) for status in found]
    return rows


async def apply_patches(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Switch patches on, one after another; the first refusal ends it."""
    from console.operations import patches

    if args.set or not args.names:
        return await _switch_set(args, desk, out, off=False)
    receipts = []
    for folder, name in _each(args, desk):
        _turn_to(desk, folder)
        try:
            receipts.append(
                await patches.apply(
                    desk, name, force=args.force, accept_fuzz=args.accept_fuzz, take_over=args.take_over
                )
            )
        except ConsoleError as error:
            await _explain(desk, name, out)
            raise _after(error, receipts, out) from None
        _narrate(desk, receipts[-1], out)
    if out.json:
        out.document(writes=[patch_text.written(receipt) for receipt in receipts])
    return 0


async def revert_patches(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Switch patches off, one after another; the first refusal ends it."""
    from console.operations import patches

    if args.set or not args.names:
        return await _switch_set(args, desk, out, off=True)
    receipts = []
    for folder, name in _each(args, desk):
        _turn_to(desk, folder)
        try:
            receipts.append(await patches.revert(desk, name, force=args.force, take_over=args.take_over))
        except ConsoleError as error:
            raise _after(error, receipts, out) from None
        _narrate(desk, receipts[-1], out)
    if out.json:
        out.document(writes=[patch_text.written(receipt) for receipt in receipts])
    return 0


async def _switch_set(args: argparse.Namespace, desk: Desk, out: Output, *, off: bool) -> int:
    """Bring the host to the profile's set, or take the set off; or only show what that would be."""
    from console.operations import patches

    if args.names:
        raise UsageError("--set takes no names", hint="the profile's [patches] on names them")
    if not args.set:
        raise UsageError("no patch is named", hint="NAME-or-FILE, or --set for those of the profile")
    options = {"off": off, "exact": args.exact, "force": args.force, "accept_fuzz": getattr(args, "accept_fuzz", False)}
    found = await patches.plan_set(desk, **options)
    if args.dry_run:
        if out.json:
            out.document(plan=patch_text.planned(found))
        else:
            for line in (*found.told, *found.diff):
                out.line(line)
        return 3 if found.refused else 0 if found.changes else 6
    receipt = await patches.apply_set(desk, **options, take_over=args.take_over, seen=found)
    _narrate(desk, receipt, out)
    if out.json:
        out.document(writes=[patch_text.written(receipt)])
    return 0


async def undo_last(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Take the last change back."""
    from console.operations import patches

    receipt = await patches.undo(desk)
    _narrate(desk, receipt, out)
    if out.json:
        out.document(writes=[patch_text.written(receipt)])
    return 0


async def capture_patch(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Make a patch of the operator's own."""
    from console.operations import patches

    options = {"changed": args.changed, "wheels": args.wheel}
    if args.split:
        made = await patches.capture_split(desk, args.name, args.files, by=args.split, **options)
    else:
        made = (await patches.capture(desk, args.name, args.files, **options),)
    for path in made:
        out.say(f"captured into {path}; its diff is beside it")
    if out.json:
        first = {"name": args.name, "path": str(made[0])}
        out.document(patch=first, patches=[{"name": path.stem, "path": str(path)} for path in made])
    else:
        for path in made:
            out.line(str(path))
    return 0


async def import_line(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Explain a sed line; make a patch when it would have changed anything."""
    from console.operations import patch_import

    text = sys.stdin.read() if args.line == "-" else args.line
    found = await patch_import.import_sed(desk, text, name=args.name, as_meant=args.as_meant)
    for line in found.told:
        out.say(line)
    if out.json:
        out.document(
            patch={"name": found.path.stem, "path": str(found.path)} if found.path else None,
            told=list(found.told),
            edits=patch_text.edits(found.edits),
        )
    elif found.path:
        out.line(str(found.path))
    return 0 if found.path else 1


def _each(args: argparse.Namespace, desk: Desk) -> list[tuple[str, str]]:
    return [(folder, name) for folder in desk.package_dirs or ("",) for name in args.names]


def _turn_to(desk: Desk, folder: str) -> None:
    """Work on another of the packages that were named."""
    if folder and (desk.package is None or desk.package.folder != folder):
        desk.package_dirs = (folder,)
        desk.package = None


async def _look_at_server(desk: Desk) -> None:
    """Find out what runs, for the column of the process; a host without any is no error."""
    from console.operations import server

    with contextlib.suppress(ConsoleError):
        await server.status(desk)


async def _explain(desk: Desk, name: str, out: Output) -> None:
    """Show the diff of a refused write, so that --force or --accept-fuzz is no blind answer."""
    for status in desk.store.snapshot.patches:
        if status.name == name and (status.needs_fuzz or status.conflict or status.disk is DiskState.DRIFTED):
            for line in (*status.conflict, *status.diff):
                out.say(line)


def _after(error: ConsoleError, receipts: list[WriteReceipt], out: Output) -> ConsoleError:
    """Print what was done before a refusal, and return the refusal."""
    if out.json and receipts:
        out.document(writes=[patch_text.written(receipt) for receipt in receipts])
    return error


def _narrate(desk: Desk, receipt: WriteReceipt, out: Output) -> None:
    from console.operations import patches

    out.say(f"{receipt.verb} {receipt.name}: {patches.told(receipt)} · tokwatt patch undo takes it back")
    for note in receipt.notes:
        out.say(f"  {note}")
    if not out.json:
        for file, before, after, added, removed in receipt.files:
            out.line(f"{file}  +{added} −{removed}  {before[:12] or 'new'} → {after[:12] or 'removed'}")

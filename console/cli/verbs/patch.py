"""Patches: `patch list | show | check | apply | revert | undo | capture`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from console.cli.output import Output
from console.domain.patch import DiskState, Edit, Patch, PatchStatus, ProcessState, WriteReceipt
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.operations.patch_sets import SetPlan

SIGNS = {
    DiskState.ON: "●",
    DiskState.OFF: "○",
    DiskState.DRIFTED: "◌",
    DiskState.CONFLICT: "✗",
    DiskState.ALREADY_UPSTREAM: "▲",
    DiskState.NOT_APPLICABLE: "·",
    DiskState.INVALID: "!",
    DiskState.UNKNOWN: "?",
}
"""Beside the word, never instead of it."""


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
    check.set_defaults(act=check_patches)

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
        out.document(patches=[_described(patch) for patch in known])
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
    status = (await patches.statuses(desk, [args.name]))[0] if desk is not None else None
    if out.json:
        out.document(patch={**_described(patch), **(_row(status, "") if status else {})}, edits=_edits(patch.edits))
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


async def check_patches(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Print the state of patches, for each package when several are named."""
    from console.operations import patches

    rows: list[tuple[PatchStatus, str]] = []
    folders = desk.package_dirs or ("",)
    for folder in folders:
        _turn_to(desk, folder)
        if not folder:
            await _look_at_server(desk)
        rows += [(status, folder) for status in await patches.statuses(desk, args.names)]
    if out.json:
        out.document(patches=[_row(status, folder) for status, folder in rows])
        return 0
    width = max((len(status.name) for status, _ in rows), default=0)
    for status, folder in rows:
        where = f"{folder} ({status.version or 'version unknown'})  " if len(folders) > 1 else ""
        process = f" · {_word(status.loaded)}" if status.loaded not in _SILENT else ""
        out.line(f"{SIGNS[status.disk]} {status.disk:<16} {status.name:<{width}}  {where}{status.reason}{process}")
        for warning in status.warnings:
            out.say(f"{status.name}: {warning}")
        if status.process_reason and status.loaded not in _SILENT:
            out.line(f"  {'':<16} {'':<{width}}  {status.process_reason}")
    return 0


_SILENT = (ProcessState.UNKNOWN, ProcessState.NO_SERVER)


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
        out.document(writes=[_written(receipt) for receipt in receipts])
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
        out.document(writes=[_written(receipt) for receipt in receipts])
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
            out.document(plan=_planned(found))
        else:
            for line in (*found.told, *found.diff):
                out.line(line)
        return 3 if found.refused else 0 if found.changes else 6
    receipt = await patches.apply_set(desk, **options, take_over=args.take_over, seen=found)
    _narrate(desk, receipt, out)
    if out.json:
        out.document(writes=[_written(receipt)])
    return 0


def _planned(found: SetPlan) -> dict[str, Any]:
    return {
        "steps": [
            {"name": step.name, "verb": step.verb, "files": [change.shown for change in step.changes]}
            for step in found.steps
        ],
        "already": [{"name": name, "reason": why} for name, why in found.already],
        "refused": [{"name": name, "reason": why} for name, why in found.refused],
        "left_on": list(found.left),
        "diff": list(found.diff),
    }


async def undo_last(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Take the last change back."""
    from console.operations import patches

    receipt = await patches.undo(desk)
    _narrate(desk, receipt, out)
    if out.json:
        out.document(writes=[_written(receipt)])
    return 0


async def capture_patch(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Make a patch of the operator's own."""
    from console.operations import patches

    path = await patches.capture(desk, args.name, args.files, changed=args.changed, wheels=args.wheel)
    out.say(f"captured into {path}; its diff is beside it")
    if out.json:
        out.document(patch={"name": args.name, "path": str(path)})
    else:
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
            edits=_edits(found.edits),
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
        out.document(writes=[_written(receipt) for receipt in receipts])
    return error


def _narrate(desk: Desk, receipt: WriteReceipt, out: Output) -> None:
    from console.operations import patches

    out.say(f"{receipt.verb} {receipt.name}: {patches.told(receipt)} · tokwatt patch undo takes it back")
    for note in receipt.notes:
        out.say(f"  {note}")
    if not out.json:
        for file, before, after, added, removed in receipt.files:
            out.line(f"{file}  +{added} −{removed}  {before[:12] or 'new'} → {after[:12] or 'removed'}")


def _row(status: PatchStatus, folder: str) -> dict[str, Any]:
    return {
        "name": status.name,
        "title": status.title,
        "state": status.disk.value,
        "loaded": status.loaded.value,
        "reason": status.reason,
        "evidence": status.process_reason,
        "files": list(status.files),
        "package": folder or None,
        "version": status.version,
        "needs_fuzz": status.needs_fuzz,
        "ours": status.ours,
        "asks": list(status.asks),
        "warnings": list(status.warnings),
        "conflict": list(status.conflict),
        "diff": list(status.diff),
    }


def _described(patch: Patch) -> dict[str, Any]:
    return {
        "name": patch.name,
        "title": patch.title,
        "why": patch.why,
        "path": patch.path,
        "engine": patch.applies_to.engine,
        "versions": patch.applies_to.version,
        "upstream_from": patch.applies_to.upstream_from,
        "compute_capability": list(patch.applies_to.compute_capability),
        "after": list(patch.after),
        "conflicts_with": list(patch.conflicts_with),
        "requires": {"args": dict(patch.requires.args), "absent": list(patch.requires.absent)},
        "evidence_log": patch.evidence_log,
        "fault": patch.fault,
    }


def _edits(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    return [
        {
            "file": edit.file,
            "kind": edit.kind.value,
            "within": edit.within,
            "find": edit.find,
            "replace": edit.replace,
            "count": edit.count,
        }
        for edit in edits
    ]


def _written(receipt: WriteReceipt) -> dict[str, Any]:
    return {
        "name": receipt.name,
        "verb": receipt.verb,
        "files": [
            {
                "file": file,
                "sha256_before": before,
                "sha256_after": after,
                "lines_added": added,
                "lines_removed": removed,
            }
            for file, before, after, added, removed in receipt.files
        ],
        "compiled_by": receipt.compiled_by,
        "round_trips": receipt.round_trips,
        "duration_ms": round(receipt.ms, 1),
        "notes": list(receipt.notes),
    }


def _word(state: ProcessState) -> str:
    return state.value.replace("_", " ")

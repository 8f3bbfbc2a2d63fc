"""What differs: `diff` (HEAD, as installed, another place, another host, two runs) and `changed`."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from console.cli.names import json_name, json_text
from console.cli.output import Output
from console.errors import UsageError

if TYPE_CHECKING:
    from console.domain.comparison import Comparison
    from console.domain.installed import PackageCheck
    from console.operations.desk import Desk

RUN = re.compile(r"(?:.+:)?\d{4}-\d\d-\d\d-\d+")


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    package = argparse.ArgumentParser(add_help=False)
    package.add_argument(
        "--package", action="append", metavar="DIR", help="engine package folder; with two, one beside the other"
    )
    package.add_argument(
        "--wheel", action="append", default=[], metavar="FILE", help="where originals may be, on the host or here"
    )
    both = [*parents, package]
    diff = verbs.add_parser(
        "diff",
        parents=both,
        help="work tree against HEAD, a file against another, two runs by what they had loaded",
        description="diff [FILE]: against HEAD. diff A B: two files or folders. diff RUN RUN: the bytes that each had "
        "loaded. diff FILE with two --host or two --package: the same file there and there.",
    )
    diff.add_argument("names", nargs="*", metavar="FILE|RUN", help="none: all that differs from HEAD")
    diff.add_argument("--installed", action="store_true", help="against what the package was installed with")
    diff.add_argument("--rev", default="HEAD", metavar="REV", help="against another revision")
    diff.add_argument("-U", "--context", type=int, default=3, metavar="N", help="equal lines around each change")
    diff.add_argument("-w", "--ignore-space", action="store_true", help="do not tell changes of white space")
    diff.add_argument("-y", "--side-by-side", action="store_true")
    diff.set_defaults(act=show_diff, many_hosts=True)

    changed = verbs.add_parser(
        "changed", parents=both, help="what was changed by hand: every engine package against RECORD or git"
    )
    changed.add_argument("names", nargs="*", metavar="PACKAGE", help="all engine packages when none is named")
    changed.add_argument("--diff", action="store_true", help="with the differences, where the original can be had")
    changed.add_argument("--no-added", action="store_true", help="leave out files that no RECORD lists")
    changed.set_defaults(act=show_changed)


async def show_diff(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `diff`."""
    from console.operations import comparing, installed
    from console.operations.host import known_package

    names, hosts, packages = args.names, args.host or [], args.package or []
    if args.context < 0:
        raise UsageError("diff: -U takes no negative number")
    runs = len(names) == 2 and all(RUN.fullmatch(name) for name in names)
    if not runs and any(not name.startswith(("/", "~")) for name in names or [""]):
        await known_package(desk)
    if runs:
        found = await comparing.two_runs(desk, *names, wheels=args.wheel)
    elif len(hosts) > 1 or len(packages) > 1:
        found = await _elsewhere(args, desk)
    elif len(names) == 2:
        found = await comparing.two_places(desk, names[0], desk, names[1])
    elif len(names) > 2:
        raise UsageError("diff: at most two files or runs")
    elif args.installed:
        if not names:
            raise UsageError("diff --installed needs a file", hint="tokwatt changed --diff shows all")
        from console.operations.source import resolve

        found = await installed.pristine(desk, resolve(desk, names[0]), wheels=args.wheel)
    else:
        found = await comparing.with_head(desk, names[0] if names else "", args.rev)
    _print(found, args, out)
    return 0


async def _elsewhere(args: argparse.Namespace, desk: Desk) -> Comparison:
    """Compare a file or folder with its counterpart on another host, or in another package folder."""
    from dataclasses import replace

    from console.operations import comparing
    from console.operations.host import known_package

    hosts, packages = args.host or [], args.package or []
    if len(args.names) > 1 or max(len(hosts), len(packages)) > 2:
        raise UsageError("diff: one FILE, and two --host or two --package")
    name = args.names[0] if args.names else "."
    if len(hosts) < 2:
        left, right = (
            replace(desk, package_dirs=tuple(packages[:1]), package=None),
            replace(desk, package_dirs=tuple(packages[1:]), package=None),
        )
        await known_package(left)
        await known_package(right)
        return await comparing.two_places(left, name, right, name)
    dirs = packages[1:] or packages
    async with comparing.visiting(desk, hosts[1], accept_key=args.accept_new_host_key, package_dirs=dirs) as other:
        return await comparing.two_places(desk, name, other, name)


def _print(found: Comparison, args: argparse.Namespace, out: Output) -> None:
    from console.operations import comparing

    patch = comparing.patch_text(found, context=args.context)
    if out.json:
        files = [
            {"file": json_name(pair.name), "path": json_name(pair.path) or None, "note": pair.note or None}
            for pair in found.files
        ]
        out.document(left=found.left, right=found.right, files=files, notes=found.notes, diff=json_text(patch))
        return
    for note in found.notes:
        out.say(note)
    if args.side_by_side or args.ignore_space:
        rows = comparing.rows(found, context=args.context, ignore_space=args.ignore_space)
        if args.side_by_side:
            _beside(rows, found, out)
        else:
            _unified(comparing.flat(rows), out)
    else:
        for pair in found.files:
            if pair.note:
                out.say(f"{pair.name}: {pair.note}")
        if patch:
            out.raw(patch.removesuffix(b"\n") if out.stdout.isatty() else patch)
    if not found.files:
        out.say(f"no difference between {found.left} and {found.right}")


def _unified(rows: Any, out: Output) -> None:
    signs = {"same": " ", "removed": "-", "added": "+"}
    for row in rows:
        text = row.after if row.kind == "added" else row.before
        name = f"=== {row.before}  {row.after}".rstrip()
        out.line(name if row.kind == "file" else f"{signs.get(row.kind, '')}{text}")


def _beside(rows: Any, found: Comparison, out: Output) -> None:
    import shutil

    half = max(20, (shutil.get_terminal_size((160, 40)).columns - 3) // 2)
    out.line(f"{found.left[:half]:<{half}} │ {found.right[:half]}")
    marks = {"same": "│", "changed": "┃", "removed": "<", "added": ">"}
    for row in rows:
        if row.kind in marks:
            left = f"{row.left or '':>5} {row.before}"[:half]
            right = f"{row.right or '':>5} {row.after}"[:half]
            out.line(f"{left:<{half}} {marks[row.kind]} {right}".rstrip())
        else:
            out.line(f"{row.before}  {row.after}".rstrip())


async def show_changed(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `changed`: 0 when nothing was changed or all is told; files in the answer are the finding."""
    from console.operations import installed

    checks: list[PackageCheck] = []
    async for check in installed.changed(desk, args.names, added=not args.no_added):
        checks.append(check)
        if not out.json:
            _told(check, out)
    if out.json:
        found = await installed.differences(desk, checks, wheels=args.wheel) if args.diff else None
        out.document(packages=[_fields(check) for check in checks], **_diff_field(found))
        return 0
    if not checks:
        out.say("none of the engine packages is installed here")
    if args.diff and any(check.files for check in checks):
        args.context, args.side_by_side, args.ignore_space = 3, False, False
        _print(await installed.differences(desk, checks, wheels=args.wheel), args, out)
    return 0


def _told(check: PackageCheck, out: Output) -> None:
    package = check.package
    version = package.version or "version unknown"
    if not check.against:
        out.say(f"{package.name} {version}: {check.reason}")
        return
    against = "RECORD" if check.against == "RECORD" else f"git {check.commit[:12]}"
    sums = f"{len(check.files)} of {check.checked:,} files differ" if check.files else f"{check.checked:,} files as"
    out.say(f"{package.name} {version}: {sums} {'from ' if check.files else ''}{against}, {check.ms:.0f} ms")
    if len(check.distributions) > 1:
        out.say(f"{package.name}: two installs share it: {', '.join(check.distributions)}")
    if check.reason:
        out.say(f"{package.name}: {check.reason}")
    for file in check.files:
        by = f"\tpatch {file.patch}" if file.patch else f"\t{file.reason}" if file.reason else ""
        out.line(f"{file.kind}\t{file.path}{by}")


def _fields(check: PackageCheck) -> dict[str, Any]:
    package = check.package
    return {
        "name": package.name,
        "version": package.version,
        "folder": json_name(package.folder),
        "origin": package.origin,
        "against": check.against or None,
        "commit": check.commit or None,
        "distributions": check.distributions,
        "checked": check.checked,
        "reason": check.reason or None,
        "files": [
            {
                "path": json_name(file.path),
                "file": json_name(file.shown),
                "kind": file.kind,
                "expected_sha256": file.expected or None,
                "found_sha256": file.found or None,
                "patch": file.patch or None,
            }
            for file in check.files
        ],
    }


def _diff_field(found: Comparison | None) -> dict[str, Any]:
    from console.operations import comparing

    if found is None:
        return {}
    notes = {pair.name: pair.note for pair in found.files if pair.note}
    return {"diff": json_text(comparing.patch_text(found)), "not_to_be_had": notes}

"""Reading code: `ls`, `cat`, `outline`, `which`, `edit`; `grep` and `refs` stand beside."""

from __future__ import annotations

import argparse
import difflib
import posixpath
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.cli.names import json_name
from console.cli.output import Output
from console.cli.verbs import searching
from console.cli.verbs.searching import find_package
from console.domain.source import Document, Place, Symbol, TreeEntry
from console.domain.text import clean
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk

AROUND = 10
"""Lines shown before and after a line on a terminal."""


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    package = argparse.ArgumentParser(add_help=False)
    package.add_argument(
        "--package", action="append", metavar="DIR", help="engine package folder, where no interpreter is to be asked"
    )
    both = [*parents, package]

    ls = verbs.add_parser(
        "ls", parents=both, help="list a folder of the host, with git letters; --find finds files below it by letters"
    )
    ls.add_argument("path", nargs="?", default="", metavar="PATH", help="relative to the engine package")
    ls.add_argument(
        "--find", metavar="TEXT", help="every file below PATH whose name has these letters in order, best first"
    )
    ls.add_argument("--limit", type=int, default=100, metavar="N", help="names of --find, 0 for all")
    ls.set_defaults(act=list_folder)

    cat = verbs.add_parser("cat", parents=both, help="show a file, some lines, or a whole def or class")
    cat.add_argument("place", metavar="FILE[:LINE|:FROM-TO|:SYMBOL]")
    cat.add_argument("--def", dest="whole_def", action="store_true", help="the whole def or class around LINE")
    cat.set_defaults(act=show_file)

    outline = verbs.add_parser("outline", parents=both, help="classes and defs of a Python file")
    outline.add_argument("file", metavar="FILE")
    outline.set_defaults(act=show_outline)

    searching.add(verbs, both)

    which = verbs.add_parser("which", parents=both, help="which copy of each engine package a launch would import")
    which.add_argument(
        "name", nargs="?", default="", metavar="PACKAGE", help="the engine's with its git; all with --all"
    )
    which.add_argument("--all", action="store_true", help="sglang, vllm, flashinfer, sgl_kernel, triton, torch")
    which.set_defaults(act=show_package)

    edit = verbs.add_parser("edit", parents=both, help="a file of the host in your $EDITOR, written back verified")
    edit.add_argument("place", metavar="FILE[:LINE]")
    edit.add_argument("--capture", metavar="NAME", help="make a patch of the edit")
    edit.set_defaults(act=edit_file)


async def list_folder(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `ls`."""
    from console.operations import source

    await find_package(desk, args.path)
    if args.find is not None:
        return await _find_files(args, desk, out)
    entries = await source.tree(desk, args.path)
    if out.json:
        path = posixpath.dirname(entries[0].path) if entries else source.resolve(desk, args.path or ".")
        out.document(path=json_name(path), entries=[_entry(entry) for entry in entries])
        return 0
    for entry in entries:
        out.line(_entry_line(entry))
    return 0


async def _find_files(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `ls --find`."""
    from console.operations import source

    if args.limit < 0:
        raise UsageError("ls: --limit takes no negative number")
    found = [part async for part in source.names(desk, args.path)][-1]
    finder = source.Finder(found.names)
    names = [name for name, _ in finder.find(args.find, args.limit or len(found.names))]
    total = finder.count(args.find)
    if out.json:
        files = [json_name(found.path(name)) for name in names]
        out.document(
            path=json_name(found.root), files=files, matching=total, names=len(found.names), limited=found.limited
        )
    else:
        for name in names:
            out.line(found.path(name))
        if total > len(names):
            out.say(f"the best {len(names):,} of {total:,}; --limit 0 tells all")
    if found.limited:
        out.say(f"{found.root}: only the first {len(found.names):,} names were looked at")
    if found.unreadable:
        out.say(f"{found.root}: {found.unreadable:,} folders cannot be read")
    return 0 if names else 1


def _entry(entry: TreeEntry) -> dict[str, Any]:
    return {
        "name": json_name(entry.name),
        "path": json_name(entry.path),
        "kind": entry.kind,
        "size": entry.size,
        "mtime": _when(entry.mtime),
        "target": json_name(entry.target) or None,
        "target_kind": entry.target_kind or None,
        "git": entry.git or None,
    }


def _entry_line(entry: TreeEntry) -> str:
    tail = {"dir": "/", "link": f" -> {entry.target}"}.get(entry.kind, "")
    return f"{entry.git or ' '} {entry.size:>12} {_when(entry.mtime)[:16]} {entry.name}{tail}"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


async def show_file(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `cat`."""
    from console.operations import source

    place = source.parse_place(args.place)
    if args.whole_def and place.first is None:
        raise UsageError("--def needs a line: cat --def FILE:LINE")
    await find_package(desk, place.path)
    terminal = out.stdout.isatty() and not out.json
    if place.first is None and not place.symbol and not out.json and not terminal:
        async for data in source.raw_bytes(desk, place):
            out.raw(data)
        return 0
    around = AROUND if terminal and place.first is not None and place.first == place.last else 0
    document = await source.open_place(desk, place, around=around, whole=args.whole_def)
    shown = _chosen(document, place, args.whole_def)
    if out.json:
        out.document(**_document(document, shown))
    elif terminal and (shown is not document or place.first is not None):
        _numbered(shown, place, out)
    else:
        data = source.content(shown)
        out.raw(data.removesuffix(b"\n") if terminal else data)
    return 0


def _chosen(document: Document, place: Place, whole_def: bool) -> Document:
    """Return the lines of a document that a place means."""
    from console.operations import source

    if place.text != place.path and posixpath.basename(document.path) == posixpath.basename(place.text):
        return document  # a file of just that name
    if place.symbol:
        found = _symbol(document, place)
        return source.part(document, found.first_line, found.last_line)
    if place.first is None:
        return document
    if not document.lines or (document.total_lines or place.first) < place.first:
        raise ConsoleError(f"{document.path} has no line {place.first}", f"it has {document.total_lines} lines")
    if whole_def:
        around = source.enclosing(document, place.first)
        if around is None:
            raise ConsoleError(f"{document.path}:{place.first} is in no def or class")
        return source.part(document, around.first_line, around.last_line)
    return document


def _symbol(document: Document, place: Place) -> Symbol:
    from console.operations import source

    symbols = source.outline(document)
    found = source.named(symbols, place.symbol)
    if not found:
        close = difflib.get_close_matches(place.symbol, [symbol.qualified for symbol in symbols], 3, 0.5)
        hint = f"there is {', '.join(close)}" if close else f"tokwatt outline {place.path}"
        raise ConsoleError(f"{document.path} has no def or class {place.symbol!r}", hint=hint)
    return found[0]


def _document(document: Document, shown: Document) -> dict[str, Any]:
    return {
        "file": json_name(document.path),
        "size": document.size,
        "mtime": _when(document.mtime),
        "sha256": document.sha256 or None,
        "git": document.git or None,
        "binary": document.binary,
        "crlf": document.crlf,
        "mixed_ends": document.mixed_ends,
        "final_newline": document.final_newline,
        "total_lines": document.total_lines,
        "first_line": shown.first_line,
        "complete": shown.complete,
        "lines": [line.decode("utf-8", "replace") for line in shown.lines],
    }


def _numbered(shown: Document, place: Place, out: Output) -> None:
    width = len(str(shown.first_line + len(shown.lines)))
    for number, line in enumerate(shown.lines, shown.first_line):
        mark = "▸" if number == place.first == place.last else " "
        out.line(f"{mark}{number:>{width}} │ {clean(line)}")


async def show_outline(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `outline`."""
    from console.operations import source

    await find_package(desk, args.file)
    document = await source.open_document(desk, args.file)
    symbols = source.outline(document)
    if out.json:
        out.document(file=json_name(document.path), symbols=[_symbol_fields(symbol) for symbol in symbols])
        return 0
    for symbol in symbols:
        out.line(f"{symbol.first_line}-{symbol.last_line}\t{'  ' * symbol.depth}{symbol.kind} {symbol.name}")
    if not symbols:
        out.say(f"no classes or defs in {document.path}")
    return 0


def _symbol_fields(symbol: Symbol) -> dict[str, Any]:
    names = ("name", "kind", "qualified", "first_line", "last_line", "depth")
    return {name: getattr(symbol, name) for name in names}


async def show_package(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `which`."""
    from console.operations import host

    if args.all:
        return await _show_all(desk, out)
    package = await (host.named_package(desk, args.name) if args.name else host.engine_package(desk))
    git = await host.git_state(desk, package.folder)
    if out.json:
        state = git and {
            "top": git.top,
            "commit": git.commit,
            "branch": git.branch or None,
            "dirty": git.dirty,
            "untracked": git.untracked,
        }
        out.document(
            name=package.name,
            folder=package.folder,
            version=package.version,
            version_from=package.version_from or None,
            origin=package.origin,
            interpreter=package.interpreter or None,
            also=package.also,
            git=state,
        )
        return 0
    out.line(package.folder)
    out.say(f"{package.name} {package.version or '(version unknown)'}, {package.origin}")
    if package.interpreter:
        out.say(f"as {package.interpreter} resolves it")
    if git is not None:
        dirty = f", {len(git.dirty)} files changed" if git.dirty else ", clean"
        out.say(f"git {git.branch or 'detached'} {git.commit[:12]}{dirty}")
    for other in package.also:
        out.say(f"not imported: {other}")
    return 0


async def _show_all(desk: Desk, out: Output) -> int:
    from console.operations import installed

    found, absent = await installed.packages(desk)
    where = desk.profile.host.container if desk.profile is not None else ""
    if out.json:
        fields = [
            {
                "name": one.name,
                "folder": json_name(one.folder),
                "version": one.version,
                "version_from": one.version_from or None,
                "origin": one.origin,
                "layer": one.layer or None,
                "interpreter": one.interpreter or None,
                "also": one.also,
            }
            for one in found
        ]
        out.document(packages=fields, absent=absent, container=where or None)
        return 0 if found else 1
    for one in found:
        layer = f", {one.layer}" if one.layer else ""
        out.line(f"{one.name}\t{one.version or '-'}\t{one.origin}{layer}\t{one.folder}")
        for other in one.also:
            out.say(f"{one.name}: not imported: {other}")
    if absent:
        out.say(f"not installed: {', '.join(absent)}")
    if where:
        out.say(f"in the container {where}")
    return 0 if found else 1


async def edit_file(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `edit`."""
    import subprocess

    from console.operations import editing, source
    from console.operations.patches import told

    place = source.parse_place(args.place)
    await find_package(desk, place.path)
    edited = await editing.edit(desk, place, lambda argv: subprocess.run(argv, check=False).returncode)
    patch = await editing.capture_edit(desk, edited, args.capture) if args.capture else None
    if out.json:
        file, before, after, added, removed = edited.receipt.files[0]
        out.document(
            file=json_name(file),
            before_sha256=before,
            after_sha256=after,
            lines_added=added,
            lines_removed=removed,
            compiled_by=edited.receipt.compiled_by or None,
            notes=edited.receipt.notes,
            warning=edited.warning or None,
            patch=None if patch is None else str(patch),
        )
        return 0
    out.say(told(edited.receipt))
    for note in (*edited.receipt.notes, edited.warning):
        if note:
            out.say(note)
    if patch is not None:
        out.line(str(patch))
    else:
        out.say(
            f"tokwatt patch capture NAME --changed {edited.change.shown} makes a patch of it; patch undo takes it back"
        )
    return 0

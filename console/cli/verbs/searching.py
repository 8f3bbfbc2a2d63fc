"""Searching code: `grep` and `refs`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from console.cli.hits import Hits
from console.cli.names import json_name, json_text
from console.cli.output import Output
from console.domain.source import GrepHit
from console.errors import UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk

CLIP = 1 << 20
"""Bytes of one hit's line that are printed."""


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    _add_grep(verbs.add_parser("grep", parents=parents, help="search as grep -rnI does, on the host"))
    refs = verbs.add_parser("refs", parents=parents, help="where a name is defined and used, definitions first")
    refs.add_argument("name", metavar="NAME")
    refs.add_argument("path", nargs="?", default="", metavar="PATH", help="the engine package when none is named")
    refs.add_argument("--defs", action="store_true", help="definitions only")
    refs.set_defaults(act=show_references)


def _add_grep(grep: argparse.ArgumentParser) -> None:
    grep.add_argument("pattern", metavar="PATTERN", help="a basic regular expression, as grep has it")
    grep.add_argument("paths", nargs="*", metavar="PATH", help="the engine package when none is named")
    kinds = grep.add_mutually_exclusive_group()
    kinds.add_argument("-F", "--fixed", action="store_true", help="PATTERN is plain text")
    kinds.add_argument("-E", "--extended", action="store_true", help="PATTERN is an extended regular expression")
    grep.add_argument("-i", "--ignore-case", action="store_true")
    grep.add_argument("-w", "--word", action="store_true", help="whole words only")
    grep.add_argument("--include", action="append", default=[], metavar="GLOB", help="search only files named so")
    grep.add_argument(
        "--exclude", action="append", default=[], metavar="GLOB", help="leave out files named so, or folders: 'tests/'"
    )
    grep.add_argument("-C", "--context", type=int, default=0, metavar="N", help="lines around each hit")
    grep.add_argument("--limit", type=int, default=0, metavar="N", help="stop after N hits")
    grep.set_defaults(act=search)


async def find_package(desk: Desk, *paths: str) -> None:
    """Ask for the engine package when a relative path may mean a file of it."""
    from console.operations.host import known_package

    if any(not path.startswith(("/", "~")) for path in paths):
        await known_package(desk)


async def search(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `grep`."""
    from console.operations import source

    if min(args.context, args.limit) < 0:
        raise UsageError("grep: -C and --limit take no negative numbers")
    await find_package(desk, *(args.paths or [""]))
    hits = source.grep(
        desk,
        args.pattern,
        args.paths,
        fixed=args.fixed,
        extended=args.extended,
        ignore_case=args.ignore_case,
        word=args.word,
        include=args.include,
        exclude=args.exclude,
        context=args.context,
        limit=args.limit,
        clip=CLIP,
    )
    count = 0
    printed = Hits(out)
    async for hit in hits:
        count += 1
        if out.json:
            out.record(_hit(hit, args.context))
        else:
            printed.take(hit, args.context)
    printed.end()
    return 0 if count else 1


def _hit(hit: GrepHit, context: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"file": json_name(hit.file), "line": hit.line, "text": json_text(hit.raw)}
    if hit.size > len(hit.raw):
        fields["text_bytes"] = hit.size
    if context:
        fields["before"] = [json_text(raw) for raw in hit.raw_before]
        fields["after"] = [json_text(raw) for raw in hit.raw_after]
    return fields


async def show_references(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `refs`."""
    from console.operations import source

    await find_package(desk, args.path)
    found = await source.references(desk, args.name, args.path)
    rows = [one for one in found.found if one.defines or not args.defs]
    if out.json:
        out.document(
            name=found.name,
            limited=found.limited,
            references=[
                {
                    "file": json_name(one.file),
                    "line": one.line,
                    "column": one.column + 1,
                    "kind": one.kind,
                    "scope": one.scope or None,
                    "defines": one.defines,
                    "text": json_text(one.raw),
                }
                for one in rows
            ],
        )
        return 0 if rows else 1
    for one in rows:
        out.line(f"{one.file}:{one.line}\t{one.kind}\t{one.scope or '-'}\t{one.text.strip()}")
    if found.limited:
        out.say(f"more than {len(found.found):,} lines hold {found.name}; the rest is not told")
    if found.unparsed:
        out.say(f"{len(found.unparsed)} files are newer Python than the host's: what is in them counts as text")
    return 0 if rows else 1

"""`tokwatt runs`: what the journal knows: list, show, compare, export."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from console.cli.output import when
from console.cli.replaying import PICTURES, replay_run
from console.domain.text import dash
from console.errors import UsageError

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.journal.records import RunEntry
    from console.operations.compare import Comparison, Row
    from console.operations.desk import Desk


def _change(row: Row) -> str:
    """Return how B stands to A, with its interval where there is one."""
    if row.change_pct is None:
        return "—"
    said, told = f"{row.change_pct:+.1f} %", row.interval
    if told is None:
        return said
    word = {True: "better", False: "worse", None: "may be noise"}[row.better]
    return f"{said} [{told.low_pct:+.1f}, {told.high_pct:+.1f}]  {word}"


FORMATS = ("jsonl", "csv", "markdown", "bench")
"""What `operations.exports` makes of measurements."""


def add(verbs: Any, parents: Sequence[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    runs = verbs.add_parser("runs", parents=parents, help="the journal: list, show, compare, export")
    inner = runs.add_subparsers(dest="what", metavar="WHAT", required=True)

    def verb(name: str, act: Any, text: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = inner.add_parser(name, parents=parents, help=text)
        one.set_defaults(act=act, needs="nothing")
        return one

    listing = verb("list", list_runs, "runs with measurements, the newest first")
    listing.add_argument("--tag", action="append", default=[], metavar="TAG", help="only runs that have it")
    listing.add_argument("--engine", metavar="KIND", help="only runs of this engine")
    listing.add_argument(
        "--find",
        metavar="TEXT",
        help="only runs whose id, host, engine, profile, note, tags or patches hold all its words",
    )
    listing.add_argument("--sort", choices=("started", "best", "profile", "host"), default="started")
    verb("show", show_run, "one run: identity and measurements").add_argument(
        "run", metavar="RUN", help="its id, or HOST:ID"
    )
    comparing = verb("compare", compare_runs, "what differs between two runs, and what it did")
    comparing.add_argument("a", metavar="A")
    comparing.add_argument("b", metavar="B")
    exporting = verb("export", export_runs, "measurements, requests, telemetry or a picture, for other tools")
    exporting.add_argument("run", metavar="RUN", nargs="?", help="all when none is named")
    exporting.add_argument("--csv", action="store_true", help="the same as --format csv")
    exporting.add_argument(
        "--format",
        choices=(*FORMATS, "json", "md", *PICTURES),
        help="jsonl (default), json, csv, markdown (md), bench: as the engines' own clients; svg, png: the run over time",
    )
    exporting.add_argument(
        "--telemetry", action="store_true", help="what was recorded over time instead (json, jsonl, csv)"
    )
    exporting.add_argument(
        "--output", metavar="FILE", help="write there; .csv, .json, .md, .svg and .png say the format"
    )
    exporting.add_argument("--requests", action="store_true", help="a row for each request instead (jsonl or csv)")
    replaying = verb("replay", replay_run, "play a recorded run in the cockpit, or print it over time")
    replaying.add_argument("run", metavar="RUN")
    replaying.add_argument("--speed", type=float, default=10.0, metavar="N", help="times as fast; 0 does not wait")
    replaying.add_argument("--text", action="store_true", help="lines instead of the cockpit, on a terminal too")
    replaying.add_argument("--plot", metavar="FILE", help="write a picture (.svg or .png) instead")
    replaying.add_argument("--csv", action="store_true", help="a table instead")
    tagging = verb("tag", tag_run, "add tags to a run, or take them away")
    tagging.add_argument("run", metavar="RUN")
    tagging.add_argument("tags", metavar="TAG", nargs="+")
    tagging.add_argument("--remove", action="store_true")
    noting = verb("note", note_run, "write a note to a run; an empty one takes it away")
    noting.add_argument("run", metavar="RUN")
    noting.add_argument("text", metavar="TEXT")


def _began(entry: RunEntry) -> str | None:
    """Return when a run was launched; none where nobody knows."""
    return when(entry.started_at) if entry.started_at else None


def _host(args: argparse.Namespace) -> str:
    """Return the host that was named; empty when none was."""
    return str((args.host or [""])[0])


async def list_runs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print the runs; 1 when there is none."""
    from console.operations.compare import listed

    entries = await listed(host=_host(args) or None, tags=args.tag, engine=args.engine, find=args.find, sort=args.sort)
    if out.json:
        out.document(runs=[_plain(entry, whole=False) for entry in entries])
        return 0 if entries else 1
    for entry in entries:
        ladder = ", ".join(map(str, entry.rungs))
        badge = f" [{entry.badge}]" if entry.badge else ""
        out.line(
            f"{entry.id}  {entry.host}{badge}  {entry.profile or '—'}  {_began(entry) or '—'}"
            f"  best {dash(entry.best_tok_s)} tok/s  at {ladder or '—'}"
            + "".join(f"  #{tag}" for tag in entry.tags)
            + (f"  {entry.note}" if entry.note else "")
        )
    if not entries:
        if args.tag or args.engine or args.find:
            out.say("no run is like that")
        else:
            out.say(f"{args.host[0]}: no run is in the journal yet" if args.host else "nothing measured yet: tokwatt bench run")  # fmt: skip
    return 0 if entries else 1


async def show_run(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print one run."""
    from console.operations import machine
    from console.operations.compare import find_run
    from console.operations.run_words import told

    entry = await find_run(args.run, host=_host(args))
    if out.json:
        base, since = await machine.since_base(entry)
        out.document(**_plain(entry, whole=True), base_run=base or None, machine_changes_since_base=list(since))
        return 0
    badge = f" [{entry.badge}]" if entry.badge else ""
    out.line(f"{entry.id}  {entry.host}{badge}  profile {entry.profile or '—'}  {entry.engine}  {_began(entry) or '—'}")
    if entry.tags or entry.note:
        out.line(f"  {' '.join(f'#{tag}' for tag in entry.tags)}  {entry.note}".rstrip())
    for name, text in told(entry):
        out.line(f"  {name}: {text}")
    base, since = await machine.since_base(entry)
    for text in since:
        out.line(f"  ! since base run {base}: {text}")
    for one in entry.identity.get("machine_changes") or ():
        out.line(f"  ! since its launch: {one.get('text')}")
    for one in entry.measurements:
        out.line(
            f"  {one.concurrency_limit:>5} × {one.repeat + 1}  {dash(one.output_throughput_tok_s)} tok/s"
            f"  TTFT p50 {dash(one.ttft_ms.p50_ms)} ms  ITL p50 {dash(one.itl_ms.p50_ms, 1)} ms"
            f"  {dash(one.power_mean_w)} W  {dash(one.energy_j_per_token, 3)} J/token"
        )
        for reason in one.tainted:
            out.line(f"          ! {reason}")
    return 0


async def compare_runs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print a comparison; 3 when the runs are not alike."""
    from console.operations import plots
    from console.operations.compare import find_run, must_be_alike, side_by_side

    host = _host(args)
    found = side_by_side(await find_run(args.a, host=host), await find_run(args.b, host=host))
    if out.json:
        drawn = {} if found.refused else await plots.of_runs((found.a, found.b))
        out.document(
            a=found.a.id,
            a_host=found.a.host,
            b=found.b.id,
            b_host=found.b.host,
            differences=[dataclasses.asdict(one) for one in found.differences],
            concurrency=[
                {**dataclasses.asdict(rung), "ratio": rung.ratio, "clear": rung.clear} for rung in found.rungs
            ],
            note=found.note,
            refused=found.refused or None,
            plots={name: plots.plain(plot) for name, plot in drawn.items()},
        )
    else:
        for line in _compared(found):
            out.line(line)
    must_be_alike(found)
    if found.note and not out.json:
        out.say(found.note)
    return 0


def _compared(found: Comparison) -> Iterator[str]:
    """Yield a comparison for people: whose, what differs, and what it did where the two are alike."""
    from console.operations.run_words import side

    for letter, entry in (("A", found.a), ("B", found.b)):
        badge = f" [{entry.badge}]" if entry.badge else ""
        yield f"{letter}  {entry.id}  {entry.host}{badge}  {entry.profile or '—'}  {_began(entry) or '—'}"
    for one in found.differences:
        name = "patches on" if one.what == "patches_on" else one.what
        yield f"{name}: {side(found.a, one.what, one.a)} → {side(found.b, one.what, one.b)}"
    for rung in found.rungs:
        repeats = f"{rung.a_repeats} and {rung.b_repeats} repeats"
        yield f"concurrency {rung.concurrency:,} · {rung.note or repeats}"
        for row in rung.rows:
            sides = f"{dash(row.a, row.digits):>9} → {dash(row.b, row.digits):<9}"
            yield f"  {row.what:<12} {sides} {_change(row)}".rstrip()


def _format(args: argparse.Namespace) -> str:
    """Return the format that was asked for, or that the name of the file says."""
    named = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown", ".svg": "svg", ".png": "png"}
    end = "." + str(args.output or "").rpartition(".")[2].lower()
    if not args.format and end in (".pdf", ".jpg", ".jpeg", ".xlsx", ".parquet"):
        raise UsageError(f"runs export: {args.output}: no format is called {end}", hint="--format, or .csv, .json, .jsonl, .md, .svg or .png")  # fmt: skip
    return "markdown" if args.format == "md" else str(args.format or ("csv" if args.csv else named.get(end, "jsonl")))


async def export_runs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print or write measurements of a run or of all, or one run over time; 1 when there is nothing."""
    from console.cli.replaying import export_telemetry, put
    from console.operations import exports
    from console.operations.compare import find_run, listed

    form = _format(args)
    if args.requests and (form not in ("jsonl", "csv") or args.telemetry):
        raise UsageError(f"runs export: --requests has no form {'telemetry' if args.telemetry else form}", hint="jsonl or csv")  # fmt: skip
    if args.telemetry or form in PICTURES:
        return await export_telemetry(args, form, out)
    host = _host(args)
    entries = (await find_run(args.run, host=host),) if args.run else await listed(host=host or None)
    if await put(exports.pieces(entries, form, requests=args.requests), args.output, out):
        return 0
    said = "no requests were kept of that" if args.requests else f"nothing was measured of run {args.run}"
    out.say(said if args.run or (args.requests and entries) else "nothing measured yet: tokwatt bench run")
    return 1


async def tag_run(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Add or take tags; 6 when nothing changed."""
    from console.operations.compare import find_run, remark

    entry = await find_run(args.run, host=_host(args))
    if any(not tag.strip() or any(mark in tag for mark in " ,#\n") for tag in args.tags):
        raise UsageError("runs tag: a tag is one word without # and commas")
    said = await remark(entry, **({"untag": args.tags} if args.remove else {"tags": args.tags}))
    if out.json:
        out.document(run=entry.id, host=entry.host, tags=list(said["tags"]), note=said["note"])
    else:
        out.say(f"{entry.id}: {' '.join(f'#{tag}' for tag in said['tags']) or 'no tags'}")
    return 0 if tuple(said["tags"]) != entry.tags else 6


async def note_run(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Write a note; 6 when it stands there already."""
    from console.operations.compare import find_run, remark

    entry = await find_run(args.run, host=_host(args))
    text = " ".join(args.text.split())
    said = await remark(entry, note=text)
    if out.json:
        out.document(run=entry.id, host=entry.host, tags=list(said["tags"]), note=said["note"])
    else:
        out.say(f"{entry.id}: {text or 'no note'}")
    return 0 if text != entry.note else 6


def _plain(entry: RunEntry, *, whole: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": entry.id,
        "host": entry.host,
        "badge": entry.badge,
        "profile": entry.profile,
        "engine": entry.engine,
        "started_at": _began(entry),
        "best_output_tok_s": entry.best_tok_s,
        "tags": list(entry.tags),
        "note": entry.note,
    }
    if whole:
        found["identity"] = entry.identity
        found["measurements"] = [
            {**dataclasses.asdict(one), "started_at": when(one.started_at)} for one in entry.measurements
        ]
    else:
        found["measurements"] = entry.measured
    return found

"""`tokwatt runs`: what the journal knows: list, show, compare, export."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from console.cli.output import when
from console.domain.text import dash

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.journal.records import RunEntry
    from console.operations.desk import Desk


def add(verbs: Any, parents: Sequence[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    runs = verbs.add_parser("runs", parents=parents, help="the journal: list, show, compare, export")
    inner = runs.add_subparsers(dest="what", metavar="WHAT", required=True)
    for name, act, text in (
        ("list", list_runs, "runs with measurements, the newest first"),
        ("show", show_run, "one run: identity and measurements"),
        ("compare", compare_runs, "what differs between two runs, and what it did"),
        ("export", export_runs, "measurements as JSON lines or CSV"),
    ):
        one = inner.add_parser(name, parents=parents, help=text)
        one.set_defaults(act=act, needs="nothing")
        if name == "show":
            one.add_argument("run", metavar="RUN", help="its id, or HOST:ID")
        elif name == "compare":
            one.add_argument("a", metavar="A")
            one.add_argument("b", metavar="B")
        elif name == "export":
            one.add_argument("run", metavar="RUN", nargs="?")
            one.add_argument("--csv", action="store_true")


async def list_runs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print the runs; 1 when there is none."""
    from console.operations.compare import listed

    entries = await listed(host=(args.host or [None])[0])
    if out.json:
        out.document(runs=[_plain(entry, whole=False) for entry in entries])
        return 0 if entries else 1
    for entry in entries:
        ladder = ", ".join(str(number) for number in sorted({one.concurrency_limit for one in entry.measurements}))
        badge = f" [{entry.badge}]" if entry.badge else ""
        out.line(
            f"{entry.id}  {entry.host}{badge}  {entry.profile or '—'}  {when(entry.started_at)}"
            f"  best {dash(entry.best_tok_s)} tok/s  at {ladder or '—'}"
        )
    if not entries:
        out.say("nothing measured yet: tokwatt bench run")
    return 0 if entries else 1


async def show_run(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print one run."""
    from console.operations.compare import find_run

    entry = await find_run(args.run)
    if out.json:
        out.document(**_plain(entry, whole=True))
        return 0
    badge = f" [{entry.badge}]" if entry.badge else ""
    out.line(
        f"{entry.id}  {entry.host}{badge}  profile {entry.profile or '—'}  {entry.engine}  {when(entry.started_at)}"
    )
    for name in ("package", "patches_on", "git"):
        value = entry.identity.get(name)
        if value:
            out.line(f"  {name}: {', '.join(value) if isinstance(value, list) else value}")
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
    from console.operations.compare import compare

    found = await compare(args.a, args.b)
    if out.json:
        out.document(
            a=found.a.id,
            b=found.b.id,
            differences=[dataclasses.asdict(one) for one in found.differences],
            concurrency=[{**dataclasses.asdict(rung), "ratio": rung.ratio} for rung in found.rungs],
            note=found.note,
        )
        return 0
    for one in found.differences:
        out.line(f"{one.what}: {one.a} → {one.b}")
    for rung in found.rungs:
        ratio = "—" if rung.ratio is None else f"× {rung.ratio:.3f}"
        out.line(
            f"{rung.concurrency:>5}  {dash(rung.a_tok_s)} → {dash(rung.b_tok_s)} tok/s  {ratio}  {rung.note}".rstrip()
        )
    if found.note:
        out.say(found.note)
    return 0


async def export_runs(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print every measurement of a run, or of all."""
    from console.operations.compare import find_run, listed

    entries = (await find_run(args.run),) if args.run else await listed(host=(args.host or [None])[0])
    rows = [_row(entry, one) for entry in entries for one in entry.measurements]
    if args.csv and rows:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        out.raw(text.getvalue().encode())
    elif not args.csv:
        for row in rows:
            out.record(row)
    return 0 if rows else 1


def _row(entry: RunEntry, one: Any) -> dict[str, Any]:
    """Return a measurement as one flat row, its distributions as columns."""
    row: dict[str, Any] = {"host": entry.host, "badge": entry.badge, "profile": entry.profile}
    for name, value in dataclasses.asdict(one).items():
        if name.endswith("_ms") and isinstance(value, dict):
            row |= {f"{name[:-3]}_{statistic}": number for statistic, number in value.items()}
        elif name == "tainted":
            row[name] = "; ".join(value)
        elif name == "started_at":
            row[name] = when(value)
        elif name != "protocol":
            row[name] = value
    return row


def _plain(entry: RunEntry, *, whole: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": entry.id,
        "host": entry.host,
        "badge": entry.badge,
        "profile": entry.profile,
        "engine": entry.engine,
        "started_at": when(entry.started_at),
        "best_output_tok_s": entry.best_tok_s,
    }
    if whole:
        found["identity"] = entry.identity
        found["measurements"] = [
            {**dataclasses.asdict(one), "started_at": when(one.started_at)} for one in entry.measurements
        ]
    else:
        found["measurements"] = len(entry.measurements)
    return found

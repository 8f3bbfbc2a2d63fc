"""`tokwatt bench`: measure the running server, or read results of the engines' own clients."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from console.cli.output import read_file, when
from console.domain.measurement import Measurement, SweepProgress
from console.domain.text import dash
from console.errors import UsageError

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.operations.desk import Desk


def add(verbs: Any, parents: Sequence[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    bench = verbs.add_parser("bench", parents=parents, help="measure the running server; read result files")
    inner = bench.add_subparsers(dest="what", metavar="WHAT", required=True)
    run = inner.add_parser("run", parents=parents, help="the profile's ladder against the ready server")
    run.add_argument("--concurrency", metavar="N,N", type=_numbers, default=(), help="instead of the profile's")
    run.add_argument("--repeats", metavar="N", type=int, default=0, help="instead of the profile's")
    run.add_argument(
        "--rate", metavar="R", type=_rate, help="open loop: requests a second; concurrency is the most in flight"
    )
    run.add_argument("--arrival", choices=("poisson", "constant", "burst"), default="", help="how they arrive")
    run.set_defaults(act=run_ladder, needs="host")
    read = inner.add_parser(
        "import",
        parents=parents,
        help="results of sglang.bench_serving, vllm bench serve, guidellm, genai-bench or aiperf",
    )
    read.add_argument("file", metavar="FILE")
    read.set_defaults(act=import_file, needs="nothing")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: numbers with commas between them") from None
    if any(number < 1 for number in found):
        raise argparse.ArgumentTypeError(f"{text!r}: must be over 0")
    return found


def _rate(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number over 0")
    return found


async def run_ladder(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Measure; 1 when a concurrency had no completed request."""
    from console.operations.measure import sweep

    shown, said, failed = 0, "", False
    badge = desk.link.host.badge
    if args.arrival and args.rate is None:
        raise UsageError("bench run: --arrival is for an open loop", hint="give --rate, too")
    asked = {"concurrency": args.concurrency, "repeats": args.repeats, "rate": args.rate, "arrival": args.arrival}
    async with aclosing(sweep(desk, **asked)) as steps:  # type: ignore[type-var]
        async for progress in steps:
            for one in progress.done[shown:]:
                failed = failed or not one.completed
                if out.json:
                    plain = {**dataclasses.asdict(one), "started_at": when(one.started_at)}
                    out.record({"host": desk.link.host.name, "badge": badge, **plain})
                else:
                    if one is progress.done[0]:
                        out.line(_header())
                    _show(one, out)
            shown = len(progress.done)
            said = _say_step(progress, said, out)
    _say_knee(progress, out)
    return 1 if failed else 0


def _say_step(progress: SweepProgress, said: str, out: Output) -> str:
    """Narrate each new step once, and every ten seconds of a silence."""
    step = f"concurrency {progress.current}, repeat {progress.repeat + 1}: {progress.step}" if progress.current else ""
    if silent_s := int(progress.silent_s // QUIET_S * QUIET_S):
        step += f", nothing has come for {silent_s} s"
    if step and step != said:
        out.say(step)
    return step or said


def _say_knee(progress: SweepProgress, out: Output) -> None:
    """Say where the ladder saturates, if it does."""
    from console.operations.measure import knee

    if (found := knee(progress.done)) is not None:
        tok_s = dash(found.output_throughput_tok_s)
        out.say(
            f"saturated from concurrency {found.concurrency} on ({tok_s} tok/s): more streams wait longer, and gain less than a tenth"
        )
    elif len({one.concurrency_limit for one in progress.done}) > 1:
        out.say("no saturation knee: the speed grew up to the last rung")


QUIET_S = 10.0
COLUMNS = ("conc", "tok/s", "req/s", "TTFT p50", "p99 ms", "ITL p50", "p99 ms", "mean W", "J/token", "failed")


def _header() -> str:
    return " ".join(f"{name:>9}" for name in COLUMNS)


def _show(one: Measurement, out: Output) -> None:
    cells = (
        str(one.concurrency_limit),
        dash(one.output_throughput_tok_s),
        dash(one.request_throughput_req_s, 1),
        dash(one.ttft_ms.p50_ms),
        dash(one.ttft_ms.p99_ms),
        dash(one.itl_ms.p50_ms, 1),
        dash(one.itl_ms.p99_ms, 1),
        dash(one.power_mean_w),
        dash(one.energy_j_per_token, 3),
        str(one.failed),
    )
    out.line(" ".join(f"{cell:>9}" for cell in cells))
    for reason in one.tainted:
        out.say(f"concurrency {one.concurrency_limit}: not to be compared: {reason}")


async def import_file(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print the results of a file; 1 when there is none in it."""
    from console.operations.compare import import_results

    found = import_results(read_file(args.file))
    if out.json:
        out.document(
            results=[_plain(result) for result in found.results],
            notes=found.notes,
            damaged=[{"line": line, "text": text} for line, text in found.damaged],
            others=[{"line": line, "keys": keys} for line, keys in found.others],
            warnings=found.warnings,
            winner=None if found.winner is None else found.winner.line,
        )
        return 0 if found.results else 1
    for result in found.results:
        told = "inf (all at once)" if result.request_rate == "inf" else result.request_rate
        rate = f", rate {told}" if told is not None else ""
        limit = dash(result.concurrency_limit) if not result.unlimited else "unlimited"
        out.line(
            f"line {result.line}  {result.backend or '—'}  concurrency {limit}{rate}"
            f"  {dash(result.output_throughput_tok_s, 1)} tok/s out"
            f"  TTFT p50 {dash(result.latencies.get('ttft_ms', {}).get('p50_ms'), 1)} ms"
            f"  TPOT mean {dash(result.latencies.get('tpot_ms', {}).get('mean_ms'), 2)} ms"
        )
        for flag in result.flags:
            out.line(f"        ! {flag}")
    for line, text in found.damaged:
        out.say(f"{args.file}:{line}: damaged, not read: {text}…")
    for warning in found.warnings:
        out.say(f"{args.file}: {warning}")
    for line, keys in found.others:
        out.say(f"{args.file}:{line}: no result of a benchmark: its keys are {keys or 'none'}")
    if not found.results:
        out.say(f"{args.file}: no results in it")
    return 0 if found.results else 1


def _plain(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = {item.name: getattr(result, item.name) for item in dataclasses.fields(result)}
    return {**found, **found.pop("latencies")}

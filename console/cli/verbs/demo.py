"""The demo host: `demo`, `demo stop`, `demo --tour`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from console.cli.output import Output

if TYPE_CHECKING:
    from console.operations.desk import Desk

PROFILE = "demo"


def add(verbs: Any, parents: list[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    demo = verbs.add_parser("demo", parents=parents, help="a pretend host to try everything on")
    demo.add_argument("action", nargs="?", choices=("stop",), help="end the demo host and every process on it")
    demo.add_argument("--tour", action="store_true", help="walk the whole loop without a screen, and check each step")
    demo.set_defaults(act=run_demo, needs="nothing")


async def run_demo(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Run `demo`: the cockpit on the demo host, or the tour where there is no terminal."""
    if args.action == "stop":
        return await _stop(out)
    if args.tour or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from console.cli.tour import tour

        return await tour(out)
    from console.operations.demo import join_demo

    out.say("joining the demo host …")
    args.target = await join_demo()
    args.profile = args.profile or PROFILE
    return 0


async def _stop(out: Output) -> int:
    from console.errors import AlreadySoError
    from console.operations.demo import stop_demo

    if not await stop_demo():
        raise AlreadySoError("no demo host runs")
    if out.json:
        out.document(demo={"running": False})
    else:
        out.say("the demo host and everything on it have ended")
    return 0

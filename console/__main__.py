"""Picks the front door: the shell's when there is a verb, the cockpit otherwise."""

from __future__ import annotations

import argparse
import sys


def main() -> None:
    """Run `tokwatt`."""
    from console.cli.main import run
    from console.cli.output import finish

    try:
        status = run(sys.argv[1:], cockpit)
    except SystemExit as leaving:  # --help and --version
        status = leaving.code if isinstance(leaving.code, int) else 0
    sys.exit(finish(status))


def cockpit(args: argparse.Namespace) -> int:
    """Open the cockpit for a parsed command line, or replay a run in it."""
    if getattr(args, "tape", None) is not None:
        from console.ui.replaying import run_replay

        return run_replay(args.tape, args.speed or 1.0)
    from console.ui.app import run_cockpit

    return run_cockpit(
        hosts=tuple(args.host or ()),
        profile=args.profile,
        readonly=args.readonly,
        accept_key=args.accept_new_host_key,
        target=getattr(args, "target", None),
    )


if __name__ == "__main__":
    main()

"""Picks the front door: the shell's when there is a verb, the cockpit otherwise."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `tokwatt`."""
    from console.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""`systemd-run --scope`, and of `systemctl` and `loginctl` what a run asks for."""

from __future__ import annotations

import os
import signal
import sys

from tests.stand_ins.holding import STATE, alive, options, put, read

UNITS = STATE / "units"
VALUED = {"--unit", "--property", "--slice"}


def main(name: str, words: list[str]) -> int:
    """Do what was asked; return the exit status."""
    if (STATE / "offline").exists():
        print("offline" if "is-system-running" in words else "", end="")
        print("System has not been booted with systemd as init system (PID 1). Can't operate.", file=sys.stderr)
        return 1
    if name == "loginctl":
        print("no" if (STATE / "no-linger").exists() else "yes")
        return 0
    if name == "systemd-run":
        return _run(words)
    words = [word for word in words if word not in ("--user", "--system")]
    if words[0] == "is-system-running":
        print("running")
        return 0
    unit = words[-1] if words[0] == "kill" else words[1]
    told = read(UNITS / f"{unit}.json")
    lives = alive(told.get("pid", 0))
    if words[0] == "kill":
        os.killpg(told["pid"], signal.SIGKILL)
    else:
        print(f"Result=success\nControlGroup=\nLoadState={'loaded' if lives else 'not-found'}")
        print(f"ActiveState={'active' if lives else 'inactive'}")
    return 0


def _run(words: list[str]) -> int:
    given, argv = options(words, VALUED)
    for name, value in given:
        if name == "--property" and value.startswith("Limit"):
            print(f"Unknown assignment: {value}", file=sys.stderr)
            return 1
    put(UNITS / f"{dict(given)['--unit']}.scope.json", pid=os.getpid())
    os.execvp(argv[0], argv)

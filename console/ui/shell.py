"""Shell: the terminal handed to a login shell on the host, and taken back."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from console.errors import UsageError

if TYPE_CHECKING:
    from console.ui.app import TokwattApp


def shell_argv(app: TokwattApp) -> list[str]:
    """Return the command of a login shell on the host: the same login, keys and known hosts as the console's own."""
    host = app.snapshot.host
    if host.is_local:
        return [os.environ.get("SHELL", "/bin/sh"), "-l"]
    target = app.seat.target
    argv = ["ssh", "-t"]
    if not getattr(target, "read_config", True):
        argv += ["-F", "none"]
    for key in getattr(target, "key_files", ()):
        argv += ["-i", key, "-o", "IdentitiesOnly=yes"]
    if known := getattr(target, "known_hosts", ""):
        argv += ["-o", f'UserKnownHostsFile="{known}"']
    if target is None and "@" not in host.name:
        return [*argv, "--", host.name]  # an alias: ssh reads its own configuration
    return [*argv, "-p", str(host.port), "--", f"{host.user}@{host.address}"]


async def hand_over(app: TokwattApp) -> None:
    """Run a shell in the terminal until it ends; the link lives on meanwhile, and the screen is drawn anew.

    Raises:
        UsageError: There is no host, no such program, or the terminal cannot be handed over.
    """
    from textual.app import SuspendNotSupported

    if not app.snapshot.host.name:
        raise UsageError("no host yet: there is nothing to open a shell on", hint="tokwatt --host ALIAS")
    argv = shell_argv(app)
    try:
        with app.batch_update(), app.suspend():
            sys.stderr.write(f"\ntokwatt: a shell on {app.snapshot.host.name}; exit comes back to the cockpit\n\n")
            sys.stderr.flush()
            process = await asyncio.create_subprocess_exec(*argv)
            try:
                code = await process.wait()
            finally:
                if process.returncode is None:
                    process.terminate()
    except SuspendNotSupported:
        raise UsageError("this terminal cannot be handed over", hint=f"in another one: {' '.join(argv)}") from None
    except FileNotFoundError:
        raise UsageError(f"{argv[0]} is not installed here: no shell can be opened on the host") from None
    app.refresh(layout=True)
    if code == 255 and argv[0] == "ssh":
        raise UsageError(f"ssh could not log in: {' '.join(argv)}", hint="! shows its words again")

"""Before and after the screen: can this terminal show it, and what goes on when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING

from console.domain.run import UP
from console.errors import ConsoleError, UsageError
from console.ui.connecting import READINGS

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.ui.app import TokwattApp


def terminal_fault() -> UsageError | None:
    """Return why the cockpit cannot be shown here, if it cannot."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return UsageError("the cockpit needs a terminal", hint="give a verb: tokwatt --help")
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        term = os.environ.get("TERM", "")
        return UsageError(f"the cockpit cannot draw on TERM={term or '(not set)'}", hint="give a verb: tokwatt --help")
    return None


async def disconnect(app: TokwattApp) -> None:
    """End our programs on every host; a host that does not answer is waited for no longer than 3 s."""
    for seat in app.seats:
        for group in READINGS:
            app.workers.cancel_group(app, seat.group(group))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3):
            await asyncio.gather(*(_closed(seat.desk) for seat in app.seats if seat.desk is not None))


async def _closed(desk: Desk) -> None:
    with contextlib.suppress(ConsoleError):
        await desk.link.close()


def last_words(app: TokwattApp) -> None:
    """Say on stderr what goes on without us."""
    for seat in app.seats:
        run = seat.snapshot.run
        if run is not None and run.phase in UP:
            pid = f", pid {run.process.pid}" if run.process else ""
            sys.stderr.write(f"tokwatt: the server goes on: run {run.id}{pid} on {seat.snapshot.host.name}\n")

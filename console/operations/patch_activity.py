"""A write as the operator follows it: begun, done or refused, and told in one line."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

from console.domain.activity import Activity, Outcome
from console.domain.patch import WriteReceipt
from console.domain.text import clean
from console.errors import AlreadySoError, ConsoleError, RefusedError, UsageError
from console.operations.desk import Desk
from console.patching.process import GONE
from console.state.store import Mark


@contextlib.asynccontextmanager
async def activity(desk: Desk, verb: str, text: str, undo_key: str) -> AsyncIterator[list[WriteReceipt]]:
    """Show an operation in the store from begin to end; the body hands its receipt over."""
    began = time.monotonic()
    number = desk.store.begin(Activity(0, verb, clean(text), started_at=time.time()))
    receipts: list[WriteReceipt] = []
    try:
        yield receipts
    except ConsoleError as error:
        refused = isinstance(error, (RefusedError, AlreadySoError, UsageError))
        outcome = Outcome.REFUSED if refused else Outcome.FAILED
        desk.store.amend(number, outcome=outcome, detail=clean(error.one_line()), ms=(time.monotonic() - began) * 1000)
        raise
    except BaseException:
        desk.store.amend(number, outcome=Outcome.FAILED, detail=clean("interrupted"))
        raise
    receipt = receipts[0]
    mark = Mark(time.time(), "patch", f"{receipt.verb} {receipt.name}")
    desk.store.update(marks=(*desk.store.snapshot.marks, mark))
    desk.store.amend(number, outcome=Outcome.DONE, detail=clean(told(receipt)), ms=receipt.ms, undo=undo_key)


def told(receipt: WriteReceipt) -> str:
    """Return a receipt in one line, as the screen tells it."""
    files = [
        f"{file.rpartition('/')[2]} +{added} −{removed}, {before[:8] or 'new'} → {after[:8] or 'removed'}"
        for file, before, after, added, removed in receipt.files
    ]
    by = f"compiled by {receipt.compiled_by}" if receipt.compiled_by else "not compiled"
    trips = "1 round trip" if receipt.round_trips == 1 else f"{receipt.round_trips} round trips"
    return f"{'; '.join(files)}; {by}, {trips}, {receipt.ms:.0f} ms"


def running(desk: Desk) -> list[str]:
    """Return the note that a server which runs has not seen a write."""
    run = desk.store.snapshot.run
    if run is None or run.phase in GONE:
        return []
    return [f"run {run.id} keeps the old code until it is restarted"]

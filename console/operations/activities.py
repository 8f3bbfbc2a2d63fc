"""An operation told while it goes on: begun, its detail, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from console.domain.activity import Activity, Outcome
from console.domain.text import clean
from console.errors import AlreadySoError, ConsoleError, RefusedError
from console.operations.desk import Desk


@contextlib.asynccontextmanager
async def activity(desk: Desk, verb: str, text: str, undo: str = "") -> AsyncIterator[_Done]:
    """Tell what is done as it goes on, and how it ended."""
    began = time.monotonic()
    number = desk.store.begin(Activity(0, verb, clean(text), started_at=time.time(), undo=undo))
    done = _Done(desk, number)
    try:
        yield done
    except ConsoleError as error:
        outcome = Outcome.REFUSED if isinstance(error, RefusedError | AlreadySoError) else Outcome.FAILED
        desk.store.amend(number, outcome=outcome, detail=clean(error.one_line()), ms=(time.monotonic() - began) * 1000)
        raise
    except asyncio.CancelledError:
        desk.store.amend(number, outcome=Outcome.FAILED, detail=clean("cancelled"))
        raise
    desk.store.amend(number, outcome=Outcome.DONE, ms=(time.monotonic() - began) * 1000)


class _Done:
    """Tells an activity's detail as it goes on."""

    def __init__(self, desk: Desk, number: int) -> None:
        self._desk = desk
        self._number = number

    def __call__(self, text: str) -> None:
        self._desk.store.amend(self._number, detail=clean(text))

    def say(self, text: str) -> None:
        """Tell it to whoever looks on, too."""
        self._desk.say(text)
        self(text)

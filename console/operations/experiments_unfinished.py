"""An experiment that was cut off on a host; asked at each connect, so what tells of one loads only where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.journal import experiments as entries
from console.journal.book import Journal
from console.journal.holding import holder

if TYPE_CHECKING:
    from console.domain.experiment import ExperimentState


async def interrupted(host: str) -> tuple[ExperimentState, float] | None:
    """Return the newest unfinished experiment that no console is at, with the time of what happened last in it."""
    if holder(host) is not None:
        return None
    found = await entries.unfinished(Journal(), host)
    if not found:
        return None
    from console.experiments.report import state_of

    newest = found[0]
    return state_of(newest), newest.events[-1].at if newest.events else newest.created_at

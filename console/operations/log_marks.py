"""Moments of a run that its log shows: those of this session, and those that earlier sessions kept."""

from __future__ import annotations

from console.domain.run import Run
from console.domain.text import dash
from console.journal.book import Journal
from console.journal.recordings import marks_of as kept_of
from console.operations.desk import Desk
from console.state.store import Mark

SHOWN = frozenset({"patch", "restart", "measurement"})
"""What every history shows; the phases of a start stand in the log itself."""


async def marks_of(desk: Desk, run: Run) -> tuple[Mark, ...]:
    """Return patches, launches and measurements of a run in the order of time, each once."""
    snapshot, journal, host = desk.store.snapshot, Journal(), desk.link.host.name
    found: dict[tuple[str, float], Mark] = {}
    if run.id:
        for one in await kept_of(journal, host, run.id):
            found[one.kind, round(one.time, 3)] = Mark(one.time, one.kind, one.text)
        entry = await journal.run(f"{host}:{run.id}")
        for told in entry.measurements if entry is not None else ():
            words = f"{told.concurrency_limit}: {dash(told.output_throughput_tok_s)} tok/s"
            mark = Mark(told.started_at, "measurement", words)
            found[mark.kind, round(mark.time, 3)] = mark
    if snapshot.run is not None and snapshot.run.key == run.key:
        for mark in snapshot.marks:
            found.setdefault((mark.kind, round(mark.time, 3)), mark)
    return tuple(sorted((one for one in found.values() if one.kind in SHOWN), key=lambda one: one.time))

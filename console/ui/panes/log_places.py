"""Places of a log that are not at hand: the next problem on the host, and what stands around it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from console.domain.run import Run
from console.errors import UsageError
from console.operations.log_filter import LEVELS, RecordFilter
from console.ui.panes import log_reading
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.operations.log_search import Found
    from console.ui.panes.log import LogPane


def none_left(way: int, level: int) -> str:
    """Return what to say when there is no further problem."""
    what = "failure or error" if level > 1 else "failure, error or warning"
    return f"no {'further' if way > 0 else 'earlier'} {what} in the log"


def seek(pane: LogPane, way: int, level: int) -> bool:
    """Look on the host for a problem beyond what is at hand; false where everything is."""
    run, edge = pane.shown_run, _edge(pane, way)
    if run is None or edge is None:
        return False
    launch(owner(pane), _seek, pane, run, way, level, edge, group="find", exclusive=True)
    return True


def go_beyond(pane: LogPane, way: int, far: bool) -> None:
    """Show what comes before or behind what is at hand; at the log's end it is followed."""
    run, edge, stretch = pane.shown_run, _edge(pane, way), pane.view.stretch
    if way > 0 and stretch is not None and (far or stretch.is_end):
        log_reading.come_back(pane)
    elif run is not None and edge is not None:
        _open(pane, run, 0 if far else edge, 0 if far else min(0, way))


def _edge(pane: LogPane, way: int) -> int | None:
    """Return the offset behind or before which nothing is at hand; `None` when there is nothing more."""
    run, stretch = pane.shown_run, pane.view.stretch
    if run is None or not run.log or pane.searched:
        return None
    if way > 0:
        return stretch.last if stretch is not None else None
    return (stretch.first if stretch is not None else pane.view.book.begins) or None


def _open(pane: LogPane, run: Run, offset: int, by: int = 0) -> None:
    # in the group of what follows the log: one of them feeds the rows
    launch(owner(pane), _show, pane, run, offset, by, group="log", exclusive=True, watching="log")


async def _show(pane: LogPane, run: Run, offset: int, by: int) -> None:
    from console.operations import log_stretch

    app = owner(pane)
    stretch = await log_stretch.around(app.need_desk(), run, offset)
    if not stretch.records:  # the log was truncated meanwhile
        log_reading.come_back(pane)
        return
    pane.begin(run)
    pane.view.stretch = stretch
    pane.view.following = False
    pane.feed(stretch.records)
    pane.mark_stretch(app.need_desk().store.snapshot.marks)
    pane.view.stand_at(offset, by)
    pane.name_it()


async def _seek(pane: LogPane, run: Run, way: int, level: int, edge: int) -> None:
    from console.operations import log_search

    first, last = (edge, None) if way > 0 else (0, edge)
    desk, wanted = owner(pane).need_desk(), _worse(pane.view.book.filter, level)
    source = log_search.search(desk, run, wanted, first=first, last=last, backward=way < 0)
    hit, hit_at = -1, -1
    pane.seeking = "searching the whole log, esc leaves it"
    try:
        async with contextlib.aclosing(source) as finds:
            async for found in finds:
                before, hit = hit, _nearest(found, edge, way, hit)
                if hit >= 0 and (way > 0 or (before >= 0 and found.at != hit_at)):
                    break
                hit_at = found.at if hit >= 0 else -1
                pane.seeking = f"searching the whole log: at {found.at / 1e6:,.0f} MB, esc leaves it"
                pane.name_it()
    finally:
        pane.seeking = ""
        pane.name_it()
    if hit < 0:
        raise UsageError(none_left(way, level))
    _open(pane, run, hit)


def _nearest(found: Found, edge: int, way: int, hit: int) -> int:
    """Return the offset of the record that is nearest to what is at hand, of those found and one before; or -1.

    A search backward tells the latest block first, and in it the latest record last, or even with the next block.
    """
    offsets = [one.offset for one in found.records if (one.offset >= edge) is (way > 0)]
    offsets += [hit] if hit >= 0 else []
    return (min if way > 0 else max)(offsets, default=-1)


def _worse(wanted: RecordFilter, level: int) -> RecordFilter:
    """Return a filter that wants what another does, from a level on."""
    known = LEVELS.index(wanted.level) if wanted.level else 0
    return replace(wanted, level=LEVELS[max(known, level)])

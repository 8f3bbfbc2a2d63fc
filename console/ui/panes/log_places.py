"""Places of a log that are not at hand: what stands before and behind, the next problem, and files rotated away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from console.domain.run import Run
from console.errors import UsageError
from console.operations.log_filter import LEVELS, RecordFilter
from console.ui.panes import log_reading
from console.ui.widgets.log_rows import NO_FILE, Row
from console.ui.worker import end_group, launch, owner

if TYPE_CHECKING:
    from console.operations.log_parts import LogFile
    from console.operations.log_search import Found
    from console.operations.log_stretch import Stretch
    from console.ui.panes.log import LogPane


class Edge(NamedTuple):
    """Where what is at hand begins or ends."""

    offset: int
    file: LogFile


def none_left(way: int, level: int) -> str:
    """Return what to say when there is no further problem."""
    what = "failure or error" if level > 1 else "failure, error or warning"
    return f"no {'further' if way > 0 else 'earlier'} {what} in the log"


def step(pane: LogPane, way: int, level: int) -> None:
    """Go to the next problem, at hand or on the host; where there is none, the same again goes on from the other end."""
    anew, pane.ended = pane.ended == (way, level), None
    if anew:
        _from_other_end(pane, way, level)
        return
    run, edge = pane.shown_run, _edge(pane, way)
    if pane.view.step(way, level):
        return
    if run is None or edge is None or not (edge.offset or edge.file.inode or way > 0):
        _say_none(pane, way, level)
        return
    launch(owner(pane), _seek, pane, run, way, level, edge, group="find", exclusive=True)


def _from_other_end(pane: LogPane, way: int, level: int) -> None:
    run = pane.shown_run
    first = _edge(pane, -1)
    whole = pane.view.stretch is None and (first is None or not (first.offset or first.file.inode))
    if run is None or not run.log or pane.searched or whole:
        if not pane.view.step(way, level, anew=True):
            owner(pane).tell(UsageError(none_left(way, level)))
        return
    launch(owner(pane), _seek, pane, run, way, level, None, group="find", exclusive=True)


def _say_none(pane: LogPane, way: int, level: int) -> None:
    pane.ended = (way, level)
    owner(pane).tell(UsageError(none_left(way, level), hint=f"again: from the {'top' if way > 0 else 'end'}"))


def go_beyond(pane: LogPane, way: int, far: bool) -> None:
    """Show what comes before or behind what is at hand; at the log's end it is followed."""
    run, edge, stretch = pane.shown_run, _edge(pane, way), pane.view.stretch
    if pane.seeking:
        return  # a held key asks once
    if way > 0 and stretch is not None and (far or (stretch.is_end and not stretch.newer)):
        log_reading.come_back(pane)
    elif run is not None and edge is not None:
        if not pane.view.book.filter.wants_all:
            if edge.offset or not far:
                edge, way = (Edge(0, edge.file), 1) if far else (edge, way)
                launch(owner(pane), _show_wanted, pane, run, edge, way, group="find", exclusive=True)
        elif way > 0 and stretch is not None and stretch.is_end:
            _launch(pane, run, 0, 0, NO_FILE, stretch.newer)
        elif edge.offset or way > 0:
            _launch(pane, run, 0 if far else edge.offset, 0 if far else min(0, way), edge.file)
        elif edge.file.inode and not far:
            launch(owner(pane), _show_older, pane, run, edge, group="find", exclusive=True)


def keep_place(pane: LogPane, row: Row) -> None:
    """Show from the host what the operator reads: the rows that came since have taken its place."""
    run = pane.shown_run
    if run is None or not run.log or pane.searched or not row.file.inode or pane.seeking:
        return
    owner(pane).say("more came than is kept: what you read is shown from the host; G follows the log again")
    _launch(pane, run, row.offset, 0, row.file)


def _edge(pane: LogPane, way: int) -> Edge | None:
    """Return where nothing more is at hand; `None` when that cannot be asked for."""
    run, stretch = pane.shown_run, pane.view.stretch
    if run is None or not run.log or pane.searched:
        return None
    if stretch is not None:
        return Edge(stretch.last if way > 0 else stretch.first, stretch.file)
    oldest = pane.view.book.oldest
    return Edge(oldest.offset, oldest.file) if way < 0 and oldest is not None else None


def _launch(pane: LogPane, run: Run, offset: int, by: int, file: LogFile, path: str = "") -> None:
    launch(owner(pane), _show, pane, run, offset, by, file, path, group="find", exclusive=True)


async def _show(pane: LogPane, run: Run, offset: int, by: int, file: LogFile, path: str = "") -> None:
    from console.operations import log_stretch

    with _busy(pane, "reading from the host, esc leaves it"):
        stretch = await log_stretch.around(owner(pane).need_desk(), run, offset, file, path)
    if not stretch.records and not path:
        raise UsageError("nothing stands there in the log any more", hint="G follows the log that is there now")
    _put(pane, run, stretch, stretch.last if offset < 0 else offset, by)
    await _mark(pane)


async def _show_older(pane: LogPane, run: Run, edge: Edge) -> None:
    """Show the end of the file that the log was before it was rotated."""
    from console.operations import log_stretch

    stretch = pane.view.stretch
    with _busy(pane, "reading from the host, esc leaves it"):
        if stretch is None:
            stretch = await log_stretch.around(owner(pane).need_desk(), run, 0, edge.file)
    if stretch.older:
        await _show(pane, run, -1, 0, NO_FILE, stretch.older)


async def _show_wanted(pane: LogPane, run: Run, edge: Edge, way: int) -> None:
    """Show what the filter wants of what stands before or behind, in this file of the log or in those beside it."""
    from console.operations import log_stretch

    desk, shown = owner(pane).need_desk(), pane.view.stretch
    with _busy(pane, "searching the log, esc leaves it"):
        found = await _wanted(pane, run, edge, way)
        while not found.records:
            shown = await log_stretch.beside(desk, run, edge.file, way)
            if shown is None:
                which = "further" if way > 0 else "earlier"
                raise UsageError(f"no {which} line of the log matches the filter", hint="esc shows all, G follows")
            edge = Edge(0 if way > 0 else shown.size, shown.file)
            found = await _wanted(pane, run, edge, way)
    if shown is not None:
        found = replace(found, name=shown.name, older=shown.older, newer=shown.newer)
    _put(pane, run, found, found.first if way > 0 else found.records[-1].offset, 0)
    await _mark(pane)


async def _wanted(pane: LogPane, run: Run, edge: Edge, way: int) -> Stretch:
    from console.operations import log_stretch

    wanted = pane.view.book.filter
    source = log_stretch.wanted_of(owner(pane).need_desk(), run, wanted, edge.offset, way, edge.file)
    async with contextlib.aclosing(source) as finds:
        async for found in finds:
            if isinstance(found, log_stretch.Stretch):
                break
            pane.seeking = f"searching the log: at {found.at / 1e6:,.0f} MB, esc leaves it"
            pane.name_it()
    assert isinstance(found, log_stretch.Stretch)  # it comes last, whatever was found
    return found


def _put(pane: LogPane, run: Run, stretch: Stretch, offset: int, by: int) -> None:
    end_group(owner(pane), "log")  # what followed the log feeds these rows no more
    pane.begin(run)
    pane.view.stretch = stretch
    pane.view.following = False
    pane.feed(stretch.records, stretch.file)
    pane.view.stand_at(offset, by)
    pane.name_it()


async def _mark(pane: LogPane) -> None:
    """Put the marks of this session and of earlier ones into what is shown."""
    from console.operations import log_marks

    app, run, stretch = owner(pane), pane.shown_run, pane.view.stretch
    if run is None:
        return
    marks = await log_marks.marks_of(app.need_desk(), run)
    if pane.view.stretch is stretch:
        pane.mark_stretch(marks)
        pane.name_it()


async def _seek(pane: LogPane, run: Run, way: int, level: int, edge: Edge | None) -> None:
    """Go to the next problem, in this file of the log or in those beside it; without an edge, from the other end."""
    from console.operations import log_stretch

    desk = owner(pane).need_desk()
    file = edge.file if edge is not None else NO_FILE
    with _busy(pane, "searching the whole log, esc leaves it"):
        while edge is None and way > 0 and (older := await log_stretch.beside(desk, run, file, -1)) is not None:
            file = older.file
        hit = await _hit(pane, run, way, level, file, edge.offset if edge is not None else None)
        while hit < 0 and (beside := await log_stretch.beside(desk, run, file, way)) is not None:
            file = beside.file
            hit = await _hit(pane, run, way, level, file, None)
    if hit < 0:
        _say_none(pane, way, level)
        return
    await _show(pane, run, hit, 0, file)


async def _hit(pane: LogPane, run: Run, way: int, level: int, file: LogFile, at: int | None) -> int:
    """Return where the next problem of one file is, from an offset or from its end that is first on this way; or -1."""
    from console.operations import log_search

    desk, wanted = owner(pane).need_desk(), _worse(pane.view.book.filter, level)
    first, last = (at or 0, None) if way > 0 else (0, at)
    source = log_search.search(desk, run, wanted, first=first, last=last, backward=way < 0, file=file)
    hit = -1
    async with contextlib.aclosing(source) as finds:
        async for found in finds:
            hit = _nearest(found, at, way, hit)
            if hit >= 0 and (way > 0 or found.whole):
                break
            pane.seeking = f"searching the whole log: at {found.at / 1e6:,.0f} MB, esc leaves it"
            pane.name_it()
    return hit


@contextlib.contextmanager
def _busy(pane: LogPane, words: str) -> Iterator[None]:
    pane.seeking = words
    pane.name_it()
    try:
        yield
    finally:
        pane.seeking = ""
        pane.name_it()


def _nearest(found: Found, edge: int | None, way: int, hit: int) -> int:
    """Return the offset of the record that is nearest to what is at hand, of those found and one before; or -1."""
    offsets = [one.offset for one in found.records if edge is None or (one.offset >= edge) is (way > 0)]
    offsets += [hit] if hit >= 0 else []
    return (min if way > 0 else max)(offsets, default=-1)


def _worse(wanted: RecordFilter, level: int) -> RecordFilter:
    """Return a filter that wants what another does, from a level on."""
    known = LEVELS.index(wanted.level) if wanted.level else 0
    return replace(wanted, level=LEVELS[max(known, level)])

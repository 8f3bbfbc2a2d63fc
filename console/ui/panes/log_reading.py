"""Reading in the log pane: opening records, earlier runs, the whole log, copying."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from console.domain.run import Run
from console.domain.text import counted, plain, strip_sequences
from console.errors import UsageError
from console.operations import log_filter
from console.operations.log_filter import RecordFilter
from console.ui.clipboard import copy
from console.ui.modals.prompt import PromptModal
from console.ui.modals.text import TextModal
from console.ui.widgets.log_rows import Row
from console.ui.widgets.log_words import SHOWN
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.ui.panes.log import LogPane


async def ask(pane: LogPane, label: str, value: str, hint: str) -> str | None:
    """Return a line of the operator; `None` when they think better of it."""
    return await owner(pane).push_screen_wait(PromptModal(label, value, hint))


def open_record(pane: LogPane) -> None:
    """Unfold the record under the cursor; one that is too long for that is read whole in a window of its own."""
    view = pane.view
    row = view.here
    if row is None:
        return
    long = any(len(line) > SHOWN for line in row.raw.split("\n")) or row.length
    if not long and view.toggle_fold():
        pane.name_it()
    elif long or len(row.raw) > view.size.width:
        launch(owner(pane), _read, pane, row, group="find", exclusive=True)


async def _read(pane: LogPane, row: Row) -> None:
    text = await _whole(pane, row)
    await owner(pane).push_screen_wait(TextModal("record of the log", text))


async def _whole(pane: LogPane, row: Row) -> str:
    """Return a record's text without what could act on a terminal; what is not kept is read from the host."""
    raw = row.raw
    if row.length:
        from console.operations import logs

        run = pane.shown_run
        if run is None:
            raise UsageError("the run of this record is not known any more")
        raw = await logs.whole(owner(pane).need_desk(), run, row.offset, row.length, row.file)
    return plain(strip_sequences(raw).encode("utf-8", "surrogateescape"))


async def copy_record(pane: LogPane) -> None:
    """Send the record under the cursor to the terminal's clipboard."""
    row = pane.view.here
    if row is None:
        raise UsageError("there is no record to copy")
    copy(owner(pane), await _whole(pane, row), "record")


def copy_shown(pane: LogPane) -> None:
    """Send all records that are shown to the clipboard; of very long ones the beginning."""
    rows = [row for row, line in pane.view.rows if not line]
    text = plain("\n".join(strip_sequences(row.raw) for row in rows).encode("utf-8", "surrogateescape"))
    copy(owner(pane), text, counted(len(rows), "record"))


async def previous_log(pane: LogPane) -> None:
    """Show the log of the run before the one that is shown."""
    from console.operations import logs

    shown = pane.shown_run
    if shown is None:
        raise UsageError("no run is known yet, so none came before it")
    earlier = await logs.earlier_runs(owner(pane).need_desk(), shown.id)
    if not earlier:
        raise UsageError(f"no earlier run than {shown.id} left a log on this host")
    pane.past = earlier[0]
    _follow(pane, earlier[0])


async def search_whole(pane: LogPane) -> None:
    """Show what the filter wants of the whole log, found by the host; without a filter, ask for an expression."""
    run = pane.shown_run
    if run is None or not run.log:
        raise UsageError("no log is known yet that could be searched")
    wanted = pane.view.book.filter
    if wanted.wants_all:
        text = await ask(pane, "search the whole log ", "", "regular expression")
        if not text:
            return
        wanted = RecordFilter(pattern=log_filter.compiled(text))
        pane.view.filter(wanted)
    pane.begin(run)
    pane.searched = "searching the whole log, esc leaves it"
    pane.name_it()
    launch(owner(pane), _search, pane, run, wanted, group="log", exclusive=True, watching="log")


async def _search(pane: LogPane, run: Run, wanted: RecordFilter) -> None:
    from console.operations import log_search

    count = 0
    async with contextlib.aclosing(log_search.search(owner(pane).need_desk(), run, wanted)) as source:
        async for found in source:
            count += len(found.records)
            pane.searched = f"searching the whole log: {found.at / 1e6:,.0f} MB, {count:,} found"
            pane.feed(found.records)
    pane.searched = f"whole log: {count:,} found, esc comes back"
    pane.name_it()


def present_log(pane: LogPane) -> None:
    """Come back to the log of the run that matters."""
    pane.past = None
    come_back(pane)


def come_back(pane: LogPane) -> None:
    """Come back from a search to the log that it searched."""
    if pane.shown_run is not None:
        _follow(pane, pane.shown_run)


def _follow(pane: LogPane, run: Run) -> None:
    from console.ui.connecting import follow_log

    app = owner(pane)
    pane.begin(run)
    pane.name_it()
    launch(app, follow_log, app, app.need_desk(), run, group="log", exclusive=True, watching="log")

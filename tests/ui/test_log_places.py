"""Places of a log that are not at hand: the pane goes on where its rows end, and comes back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from console.domain.run import LogKind, LogRecord, Run
from console.operations import log_parts, log_search, log_stretch
from console.operations.log_filter import RecordFilter, compiled
from console.operations.log_parts import LogFile
from console.operations.log_stretch import Stretch
from console.state.store import Mark
from console.ui.panes.log import LogPane
from console.ui.widgets import log_rows
from console.ui.widgets.log_rows import MARK, Book, Row, mark_row
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

LINE = 100
"""Bytes of every record here."""

LINES = 5000
AT_HAND = 20
BEGAN = int(time.time())


def record(number: int) -> LogRecord:
    wrong = number in (1200, 1204, 3000)
    text = f"line {number}" + (" went wrong" if wrong else "")
    moment = datetime.fromtimestamp(BEGAN + number, UTC).isoformat()
    severity = "error" if wrong else ""
    return LogRecord(LogKind.OTHER, text, moment, severity=severity, offset=number * LINE)


WHOLE = [record(number) for number in range(LINES)]


async def around(desk: Any, run: Run, offset: int, file: LogFile | None = None, path: str = "") -> Stretch:
    first, last = max(0, offset // LINE - 100), min(LINES, offset // LINE + 200)
    return Stretch(tuple(WHOLE[first:last]), first * LINE, last * LINE, LINES * LINE)


async def search(
    desk: Any,
    run: Run,
    wanted: RecordFilter,
    *,
    first: int = 0,
    last: int | None = None,
    backward: bool = False,
    limit: int = 0,
    block: int = 0,
    file: LogFile | None = None,
) -> AsyncIterator[log_search.Found]:
    """As the host does it: by blocks, the finds of a block in two parts and in their order."""
    blocks = list(range(0, LINES, 1000))
    for block in reversed(blocks) if backward else blocks:
        asked = [one for one in WHOLE[block : block + 1000] if first <= one.offset < (last or LINES * LINE)]
        hits = [one for one in asked if wanted.accepts(one)]
        at = (block if backward else block + 1000) * LINE
        yield log_search.Found(tuple(hits[:1]), at)
        yield log_search.Found(tuple(hits[1:]), at, True, LINES * LINE)


async def alone(desk: Any, run: Run, *, path: str = "", file: LogFile | None = None) -> tuple[str, str]:
    return "", ""


@pytest.fixture
def opened(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(log_search, "search", search)
    monkeypatch.setattr(log_stretch, "around", around)
    monkeypatch.setattr(log_parts, "beside", alone)
    app, _, operations = cockpit()
    operations.records = tuple(WHOLE[-AT_HAND:])
    return app


async def pane_of(pilot: Any, app: Any) -> LogPane:
    await open_cockpit(pilot)
    pane: LogPane = app.cockpit.log_pane
    await until(pilot, lambda: pane.view.count() >= AT_HAND)
    await pilot.press("3")
    return pane


def here(pane: LogPane) -> str:
    row = pane.view.here
    return row.raw if row is not None else ""


async def test_the_error_before_is_found_wherever_it_is(opened: Any) -> None:
    async with opened.run_test(size=(120, 40), notifications=True) as pilot:
        pane = await pane_of(pilot, opened)
        for number in (3000, 1204, 1200):
            await pilot.press("E")
            await until(pilot, lambda: here(pane) == f"line {number} went wrong")  # noqa: B023
        assert "of 0.5 MB · G follows" in shown(opened) and not pane.view.following
        await pilot.press("E")
        await until(pilot, lambda: "no earlier failure or error in the log" in shown(opened))
        await pilot.press("e", "e")
        await until(pilot, lambda: here(pane) == "line 3000 went wrong")
        await pilot.press("e")
        await until(pilot, lambda: "no further failure or error in the log" in shown(opened))
        assert "again: from the top" in shown(opened)
        await pilot.press("e")
        await until(pilot, lambda: here(pane) == "line 1200 went wrong")
        await pilot.press("G")
        await until(pilot, lambda: pane.view.following and here(pane) == f"line {LINES - 1}")
        assert pane.view.stretch is None and pane.view.count() == AT_HAND


OLD, NOW = LogFile(7, b"line"), LogFile(8, b"line")
OLD_LINES = [one._replace(raw=one.raw.replace("line", "old")) for one in WHOLE]


@pytest.fixture
def rotated(opened: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A log whose file before the rotation has problems and lines of its own."""

    async def around_either(desk: Any, run: Run, offset: int, file: LogFile | None = None, path: str = "") -> Stretch:
        is_old = path.endswith(".1") or file == OLD
        found = await around(desk, run, LINES * LINE - 1 if offset < 0 else offset)
        if not is_old:
            return replace(found, file=NOW, older=f"{run.log}.1")
        part = slice(found.first // LINE, found.last // LINE)
        return replace(found, records=tuple(OLD_LINES[part]), file=OLD, name=f"{run.log}.1", newer=run.log)

    async def search_either(*args: Any, file: LogFile | None = None, **how: Any) -> AsyncIterator[log_search.Found]:
        async for found in search(*args, **how):
            lines = OLD_LINES if file == OLD else WHOLE
            yield replace(found, records=tuple(lines[one.offset // LINE] for one in found.records))

    async def beside(desk: Any, run: Run, *, path: str = "", file: LogFile | None = None) -> tuple[str, str]:
        return ("", run.log) if file == OLD else (f"{run.log}.1", "")

    monkeypatch.setattr(log_parts, "beside", beside)
    monkeypatch.setattr(log_search, "search", search_either)
    monkeypatch.setattr(log_stretch, "around", around_either)
    return opened


async def test_problems_are_found_before_and_after_a_rotation(rotated: Any) -> None:
    async with rotated.run_test(size=(120, 40), notifications=True) as pilot:
        pane = await pane_of(pilot, rotated)
        for words in ("line 3000", "line 1204", "line 1200", "old 3000", "old 1204", "old 1200"):
            await pilot.press("E")
            await until(pilot, lambda: here(pane) == f"{words} went wrong")  # noqa: B023
        await pilot.press("E")
        await until(pilot, lambda: "no earlier failure or error in the log" in shown(rotated))
        for words in ("old 1204", "old 3000", "line 1200"):
            await pilot.press("e")
            await until(pilot, lambda: here(pane) == f"{words} went wrong")  # noqa: B023
        pane.ended = (1, 2)
        await pilot.press("e")  # from the top: that of the oldest file
        await until(pilot, lambda: here(pane) == "old 1200 went wrong")


async def test_a_filter_goes_on_before_and_after_a_rotation(rotated: Any) -> None:
    async with rotated.run_test(size=(120, 40), notifications=True) as pilot:
        pane = await pane_of(pilot, rotated)
        pane.view.filter(compiled("1200"))
        await pilot.press("k")
        await until(pilot, lambda: here(pane) == "line 1200 went wrong")
        await pilot.press("k")
        await until(pilot, lambda: here(pane) == "old 1200 went wrong")
        await pilot.press("k")
        await until(pilot, lambda: "no earlier line of the log matches the filter" in shown(rotated))
        await pilot.press("j")
        await until(pilot, lambda: here(pane) == "line 1200 went wrong")


async def test_going_up_and_down_goes_on_where_the_rows_end(opened: Any) -> None:
    async with opened.run_test(size=(120, 40)) as pilot:
        pane = await pane_of(pilot, opened)
        await pilot.press("g")
        await until(pilot, lambda: here(pane) == "line 0")
        await pilot.press(*"kkkkk")  # past the marks from before the first line
        assert pane.view.cursor == 0 and pane.view.stretch is not None and not pane.view.stretch.first
        pane.view.place(pane.view.count() - 1)
        last = int(here(pane).split()[1])
        await pilot.press("j")
        await until(pilot, lambda: here(pane) == f"line {last + 1}")
        pane.view.place(0)
        top = int(here(pane).split()[1])
        await pilot.press("k")
        await until(pilot, lambda: here(pane) == f"line {top - 1}")
        await pilot.press("escape")
        await until(pilot, lambda: pane.view.following and here(pane) == f"line {LINES - 1}")
        pane.view.action_move(-AT_HAND)
        await pilot.press("k")
        await until(pilot, lambda: here(pane) == f"line {LINES - AT_HAND - 1}")
        pane.view.place(pane.view.count() - 1)
        await pilot.press("j")
        await until(pilot, lambda: pane.view.following and pane.view.stretch is None)


async def test_a_filter_is_used_on_what_is_loaded(opened: Any) -> None:
    async with opened.run_test(size=(120, 40), notifications=True) as pilot:
        pane = await pane_of(pilot, opened)
        pane.view.filter(compiled("wrong"))
        pane.view.action_move(-1)
        await until(pilot, lambda: here(pane) == "line 3000 went wrong")
        said = [row.raw for row, _ in pane.view.rows if row.word != MARK]
        assert said == [f"line {one} went wrong" for one in (1200, 1204, 3000)]
        assert "filter wrong" in shown(opened)


async def test_a_flood_takes_nothing_from_a_reader(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened.run_test(size=(120, 40), notifications=True) as pilot:
        pane = await pane_of(pilot, opened)
        monkeypatch.setattr(log_rows, "CHUNK", 10)
        file = LogFile(7, b"line")
        pane.begin(pane.shown_run)  # type: ignore[arg-type]
        pane.view.book.all = log_rows.Ring(50)
        pane.view.book.shown = log_rows.Ring(50)
        pane.feed(tuple(WHOLE[4000:4030]), file)
        await pilot.pause(0.3)
        pane.view.action_move(-20)
        read = here(pane)
        assert read == "line 4009"
        pane.feed(tuple(WHOLE[4030:4200]), file)
        await until(pilot, lambda: pane.view.stretch is not None)
        assert here(pane) == read and "more came than is kept" in shown(opened)


async def test_marks_stand_at_their_time_in_the_past_too(opened: Any) -> None:
    async with opened.run_test(size=(120, 40)) as pilot:
        pane = await pane_of(pilot, opened)
        desk = opened.need_desk()
        desk.store.update(marks=(Mark(BEGAN + 1210.5, "patch", "one"), Mark(BEGAN + 4000, "patch", "elsewhere")))
        await pilot.press("E")
        await until(pilot, lambda: here(pane) == "line 3000 went wrong")
        await pilot.press("E")
        await until(pilot, lambda: here(pane) == "line 1204 went wrong")
        said = [row.raw for row, _ in pane.view.rows]
        [place] = [number for number, text in enumerate(said) if "patch one" in text]
        assert (said[place - 1], said[place + 1]) == ("line 1210", "line 1211")
        assert not any("elsewhere" in text for text in said)


def test_a_mark_goes_where_its_time_is() -> None:
    book = Book()
    for one in (WHOLE[0], LogRecord(LogKind.OTHER, "no time"), WHOLE[1], WHOLE[2]):
        book.feed(one)
    assert book.mark(mark_row(BEGAN + 1.5, "◆", "between", "now"))
    assert not book.mark(mark_row(BEGAN + 9, "◆", "behind", "now"))
    said = ["mark" if row.word == MARK else row.raw for row, _ in book.shown]
    assert said == ["line 0", "no time", "line 1", "mark", "line 2", "mark"]


def test_a_mark_from_before_what_is_at_hand_is_left_out() -> None:
    book = Book()
    book.feed(WHOLE[100])
    assert not book.mark(mark_row(BEGAN + 1, "◆", "long ago", "now"))
    assert [row.raw for row, _ in book.shown] == ["line 100"]
    assert isinstance(book.shown[0][0], Row)

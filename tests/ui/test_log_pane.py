"""The log pane: what it keeps, folds, filters and copies; bars, marks, monsters, hostile text."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.domain.run import LogKind, LogRecord, Run
from console.domain.text import SafeText, clean
from console.engines.records import LogParser
from console.engines.registry import engine
from console.operations import log_search
from console.operations.log_filter import RecordFilter, make
from console.state.store import Mark
from console.ui.modals.prompt import PromptModal
from console.ui.modals.text import TextModal
from console.ui.panes.log import LogPane
from console.ui.widgets.log import LogView
from console.ui.widgets.log_rows import HEAD_KEPT, LINES_KEPT, Book, Ring, Row, moment_of
from console.ui.widgets.log_words import amount, ranks_of
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

DATA = Path(__file__).parents[1] / "data"
WIDE = (160, 45)


def records(text: str | bytes) -> tuple[LogRecord, ...]:
    parser = LogParser(engine("sglang").grammar())
    data = text.encode() if isinstance(text, str) else text
    return tuple(parser.feed(data) + parser.close())


def drawn(view: LogView, width: int = 100) -> list[str]:
    return ["".join(part for part, _ in view.line(index, width)) for index in range(view.count())]


def view_of(*found: LogRecord) -> LogView:
    view = LogView()
    for record in found:
        view.book.feed(record)
    return view


TRACE = """[2026-01-02 03:04:05 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):
  File "x.py", line 1, in step
ValueError: boom
"""


def test_brackets_survive_character_for_character() -> None:
    """H01: in the log, and on the way to the clipboard."""
    lines = (DATA / "logs" / "H01.txt").read_text().splitlines()
    view = view_of(*(LogRecord(LogKind.OTHER, line) for line in lines))
    assert drawn(view, 200) == lines
    assert [row.raw for row, _ in view.rows] == lines


def test_a_monster_line_is_cut_and_its_size_is_told() -> None:
    """H05: `(+1.9 MB)` inside the window, no layout of two megabytes."""
    size = next(
        entry["one_line_bytes"]
        for entry in json.loads((DATA / "logs" / "H05.json").read_text())["generate"]
        if entry["name"] == "monster"
    )
    view = view_of(LogRecord(LogKind.OTHER, ("input_ids=[" + "1, " * 700_000)[:size], offset=7))
    [line] = drawn(view, 80)
    assert line.startswith("input_ids=[1, 1, ") and line.endswith("… (+1.9 MB)") and len(line) == 80
    row = view.rows[0][0]
    assert (len(row.raw), row.length, row.offset) == (HEAD_KEPT, size, 7)


def test_nul_tabs_and_escapes_are_signs() -> None:
    [line] = drawn(view_of(LogRecord(LogKind.OTHER, "a\0b\tc \x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m")))
    assert line == "a␀b     c ␛]0;owned␇␛[2Jred"


def test_eight_ranks_are_one_folded_row_that_unfolds() -> None:
    view = view_of(*records("".join(TRACE.format(rank=rank) for rank in range(8))))
    [line] = drawn(view, 120)
    assert "▸ 2 more lines  TP 0-7  ValueError: boom" in line
    view.following = False
    assert view.toggle_fold()
    assert drawn(view)[1:] == ['  File "x.py", line 1, in step', "ValueError: boom"]
    assert not view.toggle_all() and view.count() == 1


def test_a_bar_is_one_live_row_and_what_was_glued_to_it_stands_alone() -> None:
    """A07: at most one line a bar, the newest state; search finds the foreign record as its own line."""
    view = view_of(*records((DATA / "engines" / "A07.log").read_bytes()))
    rows = [row.raw for row, _ in view.rows]
    bars = [raw for raw in rows if "%" in raw and "|" in raw]
    assert sum("Loading safetensors" in raw for raw in bars) == 1 and any("8/8" in raw for raw in bars)
    assert sum("Capturing batches" in raw for raw in bars) == 1 and any("36/36" in raw for raw in bars)
    view.filter(make(pattern="flashinfer.jit"))
    assert view.count() == 1


def test_the_next_bar_of_a_name_is_another_row() -> None:
    bar = "Capturing batches:  {pct}%|#    | {done}/4 [00:01<00:09,  1.0s/it]"
    text = "\r".join(bar.format(pct=done * 25, done=done) for done in range(5)) + "\n"
    book = Book()
    for record in records(text * 2):
        book.feed(record)
    assert [row.raw.split("| ")[1][:3] for row, _ in book.shown] == ["4/4", "4/4"]


def test_kept_rows_are_bounded_in_number_and_in_size() -> None:
    book = Book()
    for number in range(LINES_KEPT + 5000):
        book.feed(LogRecord(LogKind.OTHER, f"line {number}"))
    assert LINES_KEPT - 1000 <= len(book.shown) <= LINES_KEPT
    assert book.shown[len(book.shown) - 1][0].raw == f"line {LINES_KEPT + 4999}"
    ring = Ring(characters=1_000_000)
    for _ in range(20_000):
        ring.add((Row(LogRecord(LogKind.OTHER, "x" * 500)), 0))
    assert len(ring) <= 3000 and ring.dropped >= 17_000


def test_filters_look_again_at_what_is_kept() -> None:
    view = view_of(
        *records(
            "".join(TRACE.format(rank=rank).replace("line 1", f"line {rank}") for rank in range(3))
            + "[2026-01-02 03:04:06] plain\n"
        )
    )
    view.filter(make(rank="TP2"))
    assert view.count() == 1
    view.filter(make(level="error"))
    assert view.count() == 3
    view.filter(make(pattern="boom", inverse=True))
    assert [row.raw for row, _ in view.rows] == ["[2026-01-02 03:04:06] plain"]
    view.filter(None)
    assert view.count() == 4


def test_words() -> None:
    assert [amount(size) for size in (900, 20_000, 1_999_920)] == ["(+900 B)", "(+20 kB)", "(+1.9 MB)"]
    assert ranks_of({"ranks": {"TP": [0, 2, 5]}}) == "TP 0,2,5" and ranks_of({"ranks": {"TP": 3}}) == ""
    assert moment_of("2026-01-01T00:00:00+01:00") == moment_of("2025-12-31T23:00:00.123456789Z") == 1_767_222_000.0
    assert moment_of("nonsense") is None and moment_of(None) is None


async def pane_of(pilot: Any, app: Any) -> LogPane:
    await open_cockpit(pilot)
    pane: LogPane = app.cockpit.log_pane
    await until(pilot, lambda: pane.view.count() > 3)
    await pilot.press("3")
    return pane


async def test_filter_keys(cockpit: Bench) -> None:
    app, _, operations = cockpit()
    trace = "".join(TRACE.format(rank=rank).replace("line 1", f"line {rank}") for rank in range(3))
    operations.records = (*fakes.log_records(8), *records(trace))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        pane = await pane_of(pilot, app)
        total = pane.view.count()
        await pilot.press("v")
        await until(pilot, lambda: "filter warning and worse" in shown(app) and pane.view.count() == 4)
        await pilot.press("v")
        await until(pilot, lambda: "filter error (3 of" in shown(app))
        await pilot.press("v", "r")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"TP2", "enter")
        await until(pilot, lambda: "filter rank TP2 (1 of" in shown(app))
        await pilot.press("escape", "t")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"decode,phase", "enter")
        await until(pilot, lambda: "filter kind decode,phase (9 of" in shown(app))
        await pilot.press("escape", "slash")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"decode", "enter")
        await until(pilot, lambda: pane.view.count() == 8)
        await pilot.press("i")
        await until(pilot, lambda: "filter not decode" in shown(app) and pane.view.count() < total - 7)
        await pilot.press("escape", "i")
        await until(pilot, lambda: "there is no filter to invert" in shown(app))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"nope", "enter")
        await until(pilot, lambda: "rank 'nope' is no rank" in shown(app))


async def test_reading_keys(cockpit: Bench) -> None:
    app, _, operations = cockpit()
    operations.records = (*fakes.log_records(60), *records(TRACE.format(rank=1)), *fakes.log_records(60))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        pane = await pane_of(pilot, app)
        before = pane.view.count()
        await pilot.press("e")
        await until(pilot, lambda: "▸ 2 more lines" in shown(app) and not pane.view.following)
        await pilot.press("enter")
        await until(pilot, lambda: "│ ValueError: boom" in shown(app) and pane.view.count() == before + 2)
        pane.feed(fakes.log_records(9))
        await until(pilot, lambda: "13 new, G follows" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: "record sent to the terminal's clipboard" in shown(app))
        assert app.clipboard == TRACE.format(rank=1).rstrip("\n")
        await pilot.press("f")
        await until(pilot, lambda: pane.view.count() < before + 20 and "▸ 2 more lines" in shown(app))
        await pilot.press("e")
        await until(pilot, lambda: "no further failure or error in the log" in shown(app))
        await pilot.press("G")
        await until(pilot, lambda: pane.view.following and "new," not in shown(app))


async def test_a_monster_is_read_from_the_host_when_it_is_opened(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _, operations = cockpit()
    whole = "reqs=[" + "1, " * 40_000 + "] the end"
    operations.records = (*fakes.log_records(4), LogRecord(LogKind.OTHER, whole, offset=99))
    asked: list[tuple[str, int, int]] = []

    async def read(desk: Any, run: Run, offset: int, length: int, file: Any = None) -> str:
        asked.append((run.id, offset, length))
        return whole

    monkeypatch.setattr(sys.modules["console.operations.logs"], "whole", read, raising=False)
    async with app.run_test(size=WIDE) as pilot:
        await pane_of(pilot, app)
        await until(pilot, lambda: "(+117 kB)" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextModal))
        assert asked == [("2026-12-02-7", 99, len(whole))]
        await pilot.press("G")
        await until(pilot, lambda: "] the end" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.cockpit)


async def test_marks_stand_between_the_lines_and_no_filter_keeps_them(cockpit: Bench) -> None:
    marks = (
        Mark(fakes.NOW - 9000, "patch", "old"),
        Mark(fakes.NOW - 30, "patch", "apply fusion"),
        Mark(fakes.NOW - 9, "measurement", "256: 1,950 tok/s"),
    )
    app, _, _ = cockpit(fakes.snapshot(marks=marks))
    async with app.run_test(size=WIDE) as pilot:
        pane = await pane_of(pilot, app)
        told = [row.raw for row, _ in pane.view.rows if row.word == "mark"]
        assert told == ["◆ 14:02:31  patch apply fusion", "▬ 14:02:31  measurement 256: 1,950 tok/s"]
        pane.view.filter(RecordFilter(pattern=make(pattern="apply fusion").pattern))
        assert pane.view.count() == 0


async def test_earlier_runs_logs(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    app, _, operations = cockpit()
    now = fakes.run()
    old = [replace(now, id=f"2026-12-02-{number}", started_at=now.started_at - 100 * (7 - number)) for number in (6, 5)]
    followed: list[str] = []

    async def earlier(desk: Any, run_id: str) -> tuple[Run, ...]:
        return tuple(run for run in old if run.id < run_id)

    async def follow(desk: Any, run: Run) -> Any:
        followed.append(run.id)
        yield (LogRecord(LogKind.OTHER, f"said by {run.id}"), *fakes.log_records(2))
        await asyncio.Event().wait()

    monkeypatch.setattr(operations, "logs_follow", follow)
    monkeypatch.setattr(operations, "logs_earlier_runs", earlier, raising=False)
    operations.install(monkeypatch)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await pane_of(pilot, app)
        await pilot.press("P")
        await until(
            pilot,
            lambda: "run 2026-12-02-6 (earlier, esc comes back)" in shown(app) and "said by 2026-12-02-6" in shown(app),
        )
        await pilot.press("P")
        await until(pilot, lambda: "said by 2026-12-02-5" in shown(app))
        await pilot.press("P")
        await until(pilot, lambda: "no earlier run than 2026-12-02-5" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "said by 2026-12-02-7" in shown(app))
    assert followed == ["2026-12-02-7", "2026-12-02-6", "2026-12-02-5", "2026-12-02-7"]


async def test_the_whole_log_is_searched_on_the_host_and_left_again(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def search(desk: Any, run: Run, wanted: RecordFilter) -> Any:
        asked.append(wanted.words())
        for number in range(3):
            record = LogRecord(LogKind.OTHER, f"Retract requests, long ago {number}")
            yield log_search.Found((record,), 500_000_000 * number)

    monkeypatch.setattr(log_search, "search", search)
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await pane_of(pilot, app)
        await pilot.press("A")
        await until(pilot, lambda: "search the whole log" in shown(app))
        await pilot.press(*"retract", "enter")
        await until(pilot, lambda: "whole log: 3 found, esc comes back" in shown(app))
        assert "long ago 0" in shown(app) and "long ago 2" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: "whole log:" not in shown(app) and "filter retract" in shown(app))
        assert "long ago" not in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: "filter retract" not in shown(app) and "Decode" in shown(app))
    assert asked == ["retract"]


def test_rows_are_made_safe_when_they_are_drawn_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood costs what keeping it costs."""
    made = 0

    def counted(text: str) -> SafeText:
        nonlocal made
        made += 1
        return clean(text)

    monkeypatch.setattr("console.ui.widgets.log.safe", counted)
    view = LogView()
    view.feed(LogRecord(LogKind.DECODE, f"Decode batch, #token: {number}") for number in range(20_000))
    assert (view.count(), view.book.fed, made) == (20_000, 20_000, 0)
    view.line(19_999, 100)
    assert made == 1

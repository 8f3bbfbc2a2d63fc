"""Runs on screen: filtered, sorted, tagged, exported, compared, drawn, and made into experiments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.domain.measurement import Measurement, Percentiles
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import compare
from console.ui.screens.experiment import ExperimentScreen
from console.ui.screens.runs import RunsScreen
from console.ui.widgets.comparison import ComparisonLines
from console.ui.widgets.plot_pane import PlotPane
from console.ui.widgets.runs import RunLines
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

ARGV = ("python3", "-m", "sglang.launch_server", "--model-path", "/m")
ITL = Percentiles(100, 50.0, 50.0, 60.0, 70.0)


def one(run: str, rung: int, speed: float, repeat: int, tokens: int) -> Measurement:
    none = Percentiles(0)
    made = Measurement(run, rung, repeat, 100.0, 2.0, 8, 8, 0, 8, 8, speed, 1.0, ITL, ITL, none, none)
    return replace(made, protocol={"input_tokens": tokens, "output_tokens": 8}, power_mean_w=2000.0)


async def keep(name: str, *words: str, speed: float = 880.0, tokens: int = 16, **identity: Any) -> RunEntry:
    told = {
        "argv": [*ARGV, *words], "resolved": {"model_path": "/m"}, "gpus": [{"name": "G", "power_limit_w": 600}] * 8,
        "environment": {}, "patches_on": [], **identity,
    }  # fmt: skip
    entry = RunEntry(name, "blackwell", "as-found", "sglang", float(len(name) + speed), identity=told)
    await Journal().record_run(entry)
    for rung in (64, 128):
        for repeat in range(3):
            noise = 1 + 0.002 * (repeat - 1)
            measured = one(name, rung, speed * noise * rung / 128, repeat, tokens)
            power = [[100.0 + second, [250.0] * 8] for second in range(20)]
            await Journal().record_measurement("blackwell", measured, telemetry=power)
    return entry


@pytest.fixture
async def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "as-found.toml").write_text(
        'schema = 1\n[engine]\nkind = "sglang"\n[launch.args]\nmodel-path = "/m"\n[bench]\nconcurrency = [64]\n'
    )
    await keep("base-1", "--max-running-requests", "64")
    await keep("wide-2", "--max-running-requests", "2048", "--disable-cuda-graph", speed=1950.0, patches_on=["tuned"])
    await keep("long-3", speed=700.0, tokens=1024)


def runs_of(app: Any) -> RunLines:
    found: RunLines = app.screen.query_one(RunLines)
    return found


async def opened(pilot: Any) -> Any:
    await open_cockpit(pilot)
    await pilot.press("6")
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, RunsScreen) and runs_of(app).read)
    return app


async def mark(pilot: Any, *names: str) -> None:
    runs = runs_of(pilot.app)
    for name in names:
        runs.cursor = next(at for at, (entry, rung) in enumerate(runs.rows) if entry.id == name and rung is None)
        await pilot.press("space")


async def test_a_filter_follows_what_is_typed_and_says_when_nothing_is_left(cockpit: Bench, kept: None) -> None:
    async with cockpit()[0].run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        await pilot.press("slash", *"tuned")
        await until(pilot, lambda: [entry.id for entry in runs_of(app).shown] == ["wide-2"])
        assert "1 of 3" in shown(app)
        await pilot.press(*"xx", "enter")
        await until(pilot, lambda: "no run holds 'tunedxx'" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: len(runs_of(app).shown) == 3)
        await pilot.press("s")
        assert [entry.id for entry in runs_of(app).shown] == ["wide-2", "base-1", "long-3"]
        assert "sort: best" in shown(app)


@pytest.mark.parametrize(("size", "named"), [((80, 24), "TTFT p50/p99 s"), ((120, 40), "output tok/s")])
async def test_an_open_run_names_its_columns_and_every_screen_has_both_themes(
    cockpit: Bench, kept: None, size: tuple[int, int], named: str
) -> None:
    async with cockpit()[0].run_test(size=size) as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: named in shown(app))
        rows = shown(app).splitlines()
        head = next(at for at, row in enumerate(rows) if named in row)
        assert "J/tok" in rows[head] and "failed" in rows[head]
        word = rows[head].index("conc")
        assert rows[head + 1][: word + 11].strip("│▌┃ ").split()[0].isdigit()
        assert [rung for _, rung in runs_of(app).rows[1:3]] == [0, runs_of(app).entries[0].rungs[0]]
        before = app.theme
        await pilot.press("ctrl+t")
        await until(pilot, lambda: app.theme != before)


async def test_tags_and_a_note_are_written_and_the_shown_runs_exported(
    cockpit: Bench, kept: None, tmp_path: Path
) -> None:
    async with cockpit()[0].run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        await mark(pilot, "base-1")
        await pilot.press("t")
        await until(pilot, lambda: "tags of base-1" in shown(app))
        await pilot.press(*"base", "space", *"good", "enter")
        await until(pilot, lambda: "#base #good" in shown(app))
        await pilot.press("n")
        await until(pilot, lambda: "note to base-1" in shown(app))
        await pilot.press(*"before", "enter")
        await until(pilot, lambda: "  before" in shown(app))
        assert (await compare.find_run("base-1")).note == "before"
        await pilot.press("x")
        await until(pilot, lambda: "1 marked run" in shown(app))
        await pilot.press("c")
        await until(pilot, lambda: "write to" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: (tmp_path / "runs.csv").exists())
    assert (tmp_path / "runs.csv").read_text().count("base-1") == 6


async def test_two_runs_are_compared_with_intervals_and_what_differs(cockpit: Bench, kept: None) -> None:
    async with cockpit()[0].run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        await mark(pilot, "base-1", "wide-2")
        await pilot.press("c")
        await until(pilot, lambda: "asked for otherwise" in shown(app))
        said = shown(app)
        assert "+121.6 % [" in said and "--max-running-requests" in said and "2048" in said and "patch tuned" in said
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query_one(ComparisonLines).display)


async def test_unlike_runs_are_refused_in_words_and_still_told_apart(cockpit: Bench, kept: None) -> None:
    async with cockpit()[0].run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        await mark(pilot, "base-1", "long-3")
        await pilot.press("c")
        await until(pilot, lambda: "✗ not compared: lengths 16 in, 8 out" in shown(app))
        assert "measure both alike" in shown(app) and "asked for otherwise" in shown(app)


async def test_marked_differences_become_an_experiment_with_hypotheses(
    cockpit: Bench, kept: None, tmp_path: Path
) -> None:
    app_, _, _ = cockpit()
    async with app_.run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        app.seat.desk = None
        await mark(pilot, "base-1", "wide-2")
        await pilot.press("c")
        await until(pilot, lambda: "[ ] --max-running-requests" in shown(app))
        await pilot.press("space", "space")
        await until(pilot, lambda: shown(app).count("[x]") == 2)
        await pilot.press("enter")
        for word in ("room", "none"):
            await until(pilot, lambda: "because" in shown(app) and not app.screen.query("Input").first().value)
            await pilot.press(*word, "enter")
            await pilot.pause()
        await until(pilot, lambda: "2 changes" in shown(app))
        await pilot.press("b")
        await until(pilot, lambda: "save experiment as" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen) and "restarts" in shown(app))
        assert "because: room" in shown(app)
    written = (tmp_path / "config" / "tokwatt" / "experiments" / "base-1-wide-2.toml").read_text()
    assert 'hypothesis = "none"' in written and 'name = "all"' in written


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_plots_take_turns_and_a_run_is_told_by_its_marker(
    cockpit: Bench, kept: None, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with cockpit()[0].run_test(size=size) as pilot:
        app = await opened(pilot)
        await mark(pilot, "base-1", "wide-2")
        seen: list[str] = []
        pane = app.screen.query_one(PlotPane)
        for _ in range(3):
            await pilot.press("v")
            await until(pilot, lambda: pane.display and pane.plot is not None and pane.plot.title not in seen)
            assert pane.plot is not None
            seen.append(pane.plot.title)
            await until(pilot, lambda: "● A base-1" in shown(app) and "○ B wide-2" in shown(app))
        assert (
            seen[0].startswith("Output tok/s") and seen[1].startswith("tok/s per GPU") and seen[2].startswith("Power")
        )
        await pilot.press("ctrl+t", "escape")
        await until(pilot, lambda: not app.screen.query_one(PlotPane).display)


def test_a_thousand_runs_are_narrowed_by_words_alone() -> None:
    lines = RunLines()
    entries = [RunEntry(f"run-{number}", "h", "p", "sglang", float(number)) for number in range(1000)]
    lines.entries, lines._hay = tuple(entries), {(each.host, each.id): compare.found_in(each) for each in entries}
    lines.wanted = "run-99 h"
    assert [each.id for each in lines.shown] == ["run-99", *(f"run-99{digit}" for digit in range(10))]


async def test_the_newest_runs_come_first_and_one_is_read_whole_when_the_cursor_rests_on_it(
    cockpit: Bench, kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.ui.screens.runs.FIRST", 1)
    seen: list[tuple[int, bool]] = []
    fill = RunLines.fill

    def noted(self: RunLines, entries: Any, *, whole: bool = True) -> None:
        fill(self, entries, whole=whole)
        seen.append((len(self.entries), "so far" in self._title[2]))

    monkeypatch.setattr(RunLines, "fill", noted)
    async with cockpit()[0].run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        assert seen == [(1, True), (3, False)]
        await until(pilot, lambda: shown(app).count("concurrency") == 1)
        runs = runs_of(app)
        last = runs.entries[-1]
        await pilot.press("G")
        await until(pilot, lambda: runs.known(last) is not None)
        await pilot.press("enter")
        await until(pilot, lambda: shown(app).count("concurrency") == 2 and "sglang · /m" in shown(app))
        assert runs.chosen == last and last.brief is not None
        await pilot.press("slash", *"base")
        await until(pilot, lambda: len(runs.shown) == 1 and runs.cursor == 0)
        await pilot.press("escape")
        await until(pilot, lambda: len(runs.shown) == 3)


async def test_a_rung_is_the_mean_of_what_is_fit_and_says_how_much_is_not(cockpit: Bench, kept: None) -> None:
    spoiled = replace(one("wide-2", 64, 5.0, 3, 16), tainted=("2 requests failed",))
    await Journal().record_measurement("blackwell", spoiled)
    async with cockpit()[0].run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: "! 1 of 4 tainted" in shown(app))
        assert "975 ± 2 " in shown(app) and "64 is not to be compared: 2 requests failed" in shown(app)


async def test_a_plot_of_users_says_which_concurrency_each_point_is(cockpit: Bench, kept: None) -> None:
    async with cockpit()[0].run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        await mark(pilot, "base-1", "wide-2")
        await pilot.press("v", "v")
        await until(pilot, lambda: "tok/s per GPU" in shown(app))
        drawn = shown(app).split("tok/s per GPU by")[1]
        assert drawn.count(" 64 ") == 2 and drawn.count(" 128 ") == 2

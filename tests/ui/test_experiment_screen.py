"""Experiments on screen: what a plan costs first, rounds and verdicts while they come, a cut-off one offered again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from console.cli.experiment_text import arm_lines
from console.domain.experiment import ArmOutcome, Block, ExperimentState, LedgerLine, Rated, Verdict
from console.errors import RefusedError
from console.journal import experiments as entries
from console.journal.book import Journal
from console.operations.catalogue import BY_ID
from console.ui.screens.experiment import ExperimentScreen
from console.ui.widgets.experiment import ExperimentView, axis_of, interval, state_rows
from console.ui.widgets.experiment_plan import Row, rounds
from console.ui.widgets.key_line import KeyLine
from console.ui.worker import is_open, launch
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

WIDE = Rated(1024, 880.0, 1950.0, 9.0, 14.0, 3, 2.216, 2.18, 2.25)
FUSION = Rated(1024, 1950.0, 236.0, 14.0, 4.0, 2, 0.121)
TOLD = ExperimentState(
    "x-2026-12-02-1",
    "story",
    "blackwell",
    0.0,
    title="From 880 to the winner",
    base="as-found",
    decide_at=1024,
    concurrency=(1024,),
    repeats=5,
    outcomes=(
        ArmOutcome("base", "", Verdict.OPEN, rungs=(Rated(1024, 880.0, 880.0, 9.0, 9.0, 3),)),
        ArmOutcome(
            "wide", "base", Verdict.KEEP, "clear after 3 of 5 pairs", (WIDE,), changes=("--max-running-requests 2048",)
        ),
        ArmOutcome("cutlass", "wide", Verdict.SAME_ARM, "the profile never reaches the patched code"),
        ArmOutcome(
            "fusion",
            "wide",
            Verdict.OPEN,
            rungs=(FUSION,),
            hypothesis="fewer launches",
            so_far="an interval needs 3 pairs, there are 2",
        ),
    ),
    where="fusion: run 2026-12-02-3 is ready",
    step="pair 3: fusion against wide",
    current="fusion",
    done=9,
    planned=20,
    blocks=(
        Block("base", ("base", "wide"), 2),
        Block("base", ("wide", "base"), 2),
        Block("wide", ("wide", "fusion"), 1),
        Block("wide", ("fusion", "wide")),
    ),
)


def text(rows: list[Row]) -> list[str]:
    return ["".join(part for part, _ in row).rstrip() for row in rows]


@pytest.mark.parametrize("width", [78, 118, 198])
def test_a_running_experiment_tells_round_verdict_interval_and_where_the_host_is(width: int) -> None:
    rows = text(list(state_rows(TOLD, width)))
    said = "\n".join(rows)
    assert "9 of 20  pair 3: fusion against wide" in said
    assert "against base       AB BA" in said and "against wide       B[D] DB" in said
    assert "+121.6 % [+118.0, +125.0]" in said and "KEEP" in said
    assert "-87.9 % (2 of 3 pairs)" in said and "an interval needs 3 pairs, there are 2" in said
    assert "same arm" in said and "the host: fusion: run 2026-12-02-3 is ready" in said
    assert "▶D fusion" in said and "because: fewer launches" in said
    assert all(len(row) <= width for row in rows)


def test_the_longest_verdict_is_not_cut_on_a_small_screen() -> None:
    open_still = replace(TOLD.outcomes[1], verdict=Verdict.INCONCLUSIVE)
    told = replace(TOLD, outcomes=(TOLD.outcomes[0], open_still))
    (row,) = [row for row in text(list(state_rows(told, 76))) if "wide" in row and "%" in row]
    assert row.endswith("+121.6 % [+118.0, +125.0]  INCONCLUSIVE") and len(row) <= 77


def test_an_arm_that_was_taken_back_says_when_its_base_was_ready_again() -> None:
    back = replace(
        TOLD.outcomes[3],
        verdict=Verdict.REVERT,
        rolled_back_to="base",
        rolled_back_at=52_260.0,
        relaunched_at=52_380.0,
    )
    told = replace(TOLD, outcomes=(*TOLD.outcomes[:3], back), finished=True, step="")
    said = "\n".join(text(list(state_rows(told, 118))))
    assert "rolled back " in said and ", base relaunched, ready " in said and "✓ done" in said


def test_the_picture_of_an_interval_has_one_axis_that_holds_all_of_them() -> None:
    assert axis_of(TOLD) == 4.0 and axis_of(replace(TOLD, outcomes=TOLD.outcomes[:1])) == 0.0
    small = Rated(1024, 100.0, 101.0, 1.0, 1.0, 3, 1.01, 0.99, 1.03)
    drawn = interval(small, 0.05)[0][0]
    assert drawn.index("●") > 12 and drawn[12] == "┿" and len(drawn) == 25
    assert "━" not in interval(FUSION, 4.0)[0][0]


def test_a_ledger_tells_what_is_beyond_the_parts() -> None:
    lines = (LedgerLine("a", "base", 10.0, 9.0, 11.0), LedgerLine("both", "base", 25.0, 24.0, 26.0, 4.1, 2.0, 6.0))
    said = "\n".join(text(list(state_rows(replace(TOLD, ledger=lines), 78))))
    assert "what each change is worth" in said and "beyond its parts +4.1 % [+2.0, +6.0]" in said


@pytest.mark.parametrize(
    ("metric", "bounds", "ink"),
    [
        ("output_tok_s", (2.0, 4.0), "good"),
        ("output_tok_s", (-9.8, 17.5), "dim"),
        ("ttft_p50_ms", (2.0, 4.0), "bad"),
        ("output_tok_s", (None, None), "dim"),
    ],
)
def test_a_change_has_a_colour_only_where_its_interval_is_clear(
    metric: str, bounds: tuple[float | None, float | None], ink: str
) -> None:
    lines = (LedgerLine("a", "base", 2.9, *bounds), LedgerLine("b", "base", 0.0))
    rows = list(state_rows(replace(TOLD, metric=metric, ledger=lines), 118))
    (row,) = [row for row in rows if row and row[0][0].strip() == "a" and "+2.9" in row[1][0]]
    assert row[1][1] == ink


def test_the_shell_tells_why_an_arm_should_have_won() -> None:
    lines = list(arm_lines(TOLD))
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("fusion"))
    assert lines[at + 1].strip() == "because: fewer launches"


def test_the_winners_fresh_rounds_are_named() -> None:
    fresh = text(list(rounds((Block("confirm wide", ("base", "wide")),), ["base", "wide"], 80, 5)))
    assert fresh == [" wide afresh        [A]B  pair 1 of 1"]


async def _cut_off(host: str) -> str:
    plan = {
        "title": "Story", "metric": "output_tok_s", "decide_at": 256, "repeats": 5, "confirm": 3, "min_gain_pct": 0.0,
        "early_stop": True, "interleave": True, "base": "as-found", "concurrency": [256], "target": "",
        "arms": [
            {"name": name, "against": against, "hypothesis": "", "changes": [], "same_as": "", "reason": "", "refused": False, "combines": []}
            for name, against in (("base", ""), ("wide", "base"))
        ],
    }  # fmt: skip
    journal = Journal()
    entry = await entries.begin(
        journal, host=host, name="story", path="story.toml", digest="d", badge="", operator="me", plan=plan
    )
    await entries.happened(journal, entry, "step", {"arm": "wide"}, where="wide: patches on, server being launched")
    return entry.id


async def test_what_was_cut_off_is_told_on_connecting_and_offered_on_opening(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    app, desk, _ = cockpit()
    made = await _cut_off(desk.link.host.name)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: any(made in one.message for one in app._notifications))
        await pilot.press("X")
        await until(
            pilot, lambda: f"{made} was interrupted" in shown(app) and "resume where it was cut off" in shown(app)
        )
        assert "wide: patches on, server being launched" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen))
        assert "interrupted: u goes on, a brings the base back" in shown(app)
        assert shown(app).splitlines()[-1].rstrip().endswith("esc back, it goes on")


async def test_a_plan_says_first_what_it_costs(cockpit: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "as-found.toml").write_text('schema = 1\n[engine]\nkind = "sglang"\n[launch.args]\nmodel-path = "m"\n')
    (tmp_path / "experiments" / "two.toml").write_text(
        'schema = 1\nbase = "../as-found.toml"\n[measure]\nconcurrency = [8]\nrepeats = 3\n'
        '[[arm]]\nname = "wide"\nhypothesis = "room"\nargs = { max-running-requests = 64 }\n'
    )
    app, _, _ = cockpit()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_cockpit(pilot)
        app.seat.desk = None
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen) and "two" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "12 measurements" in shown(app))
        said = shown(app)
        assert "— minutes at most" in said and "smallest effect found" in said and "AB BA AB" in said
        assert "because: room" in said


def test_keys_that_do_not_fit_give_way_and_the_way_back_stays() -> None:
    line = KeyLine(("enter", "opens it"), ("r", "runs what is planned"), ("esc", "back"))
    assert "".join(part for part, _ in line.lines(30, 1)[0]).split() == ["enter", "opens", "it", "esc", "back"]
    assert "r runs" in "".join(part for part, _ in line.lines(60, 1)[0])


async def test_what_a_left_screen_began_ends_in_peace(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An experiment goes on when its screen is left, and tells that screen its end."""
    monkeypatch.chdir(tmp_path)
    app, _, _ = cockpit()
    ended = asyncio.Event()

    async def work(screen: ExperimentScreen) -> None:
        await ended.wait()
        try:
            screen._read()
        finally:
            screen.query_one(ExperimentView).show_state(TOLD)

    async with app.run_test(size=(80, 24)) as pilot:
        await open_cockpit(pilot)
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen))
        left = app.screen
        assert isinstance(left, ExperimentScreen) and is_open(left)
        worker = launch(app, work, left, group="experiment", lasting=True)
        await pilot.press("escape")
        await until(pilot, lambda: not left.is_running and not isinstance(app.screen, ExperimentScreen))
        assert not is_open(left)
        ended.set()
        await worker.wait()
        await until(pilot, lambda: not any(one.name == "experiments" for one in app.workers))
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen) and is_open(app.screen))


async def test_what_would_spoil_an_experiment_is_refused_while_it_runs(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    app, _, _ = cockpit()
    ended = asyncio.Event()

    async def work() -> None:
        await ended.wait()

    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_cockpit(pilot)
        worker = launch(app, work, group="experiment", lasting=True)
        for verb in ("open_server_menu", "measure", "undo_change", "toggle_patch"):
            fault = app.in_the_way(BY_ID[verb])
            assert fault is not None and "an experiment is under way" in fault.title and "X shows it" in fault.hint
        assert app.in_the_way(BY_ID["show_runs"]) is None
        await pilot.press("x")
        await until(pilot, lambda: any("Server menu: an experiment" in one.message for one in app._notifications))
        for verb in ("toggle_patch", "edit_file"):
            with pytest.raises(RefusedError, match="under way"):
                app.must_not_disturb(verb)
        ended.set()
        await worker.wait()
        app.must_not_disturb("toggle_patch")
        assert app.in_the_way(BY_ID["open_server_menu"]) is None

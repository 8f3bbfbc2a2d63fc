"""Searching over a pretend host: the base is trial 0, failures are told, equal hosts share one study."""

from __future__ import annotations

import re
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from console.cli.experiment_text import plan_lines
from console.domain.experiment import Dimension, ExperimentState, Verdict
from console.domain.profile import Profile
from console.errors import ConsoleError, FormatError, RefusedError
from console.experiments.search import Search, base_point, need_optuna, size
from console.operations import experiments, experiments_search
from console.operations.desk import Desk
from tests.experiments.conftest import Killed, World, desk_on

SEARCH = """schema = 1
base = "small"
[measure]
repeats = 3
[search]
trials = 8
seed = 7
{more}
[search.args.max-running-requests]
choices = [64, 256, 1024, 2048]
[search.args.chunked-prefill-size]
low = 1024
high = 8192
step = 1024
"""


def speed(profile: Profile, on: frozenset[str]) -> float:
    """More requests are better, and so are middling chunks."""
    args = profile.launch.args
    many, chunk = args.get("max-running-requests"), args.get("chunked-prefill-size", 1024)
    assert isinstance(many, int) and isinstance(chunk, int)
    return 800 + many / 2 - abs(chunk - 4096) / 20


@pytest.fixture
def space(file: Path) -> Path:
    """A file with a space."""
    file.write_text(SEARCH.format(more=""))
    return file


async def run(desk: Desk, file: Path) -> ExperimentState:
    async with aclosing(experiments_search.run(desk, experiments.load(str(file)))) as states:  # type: ignore[type-var]
        async for state in states:
            told = state
    return told


def study(file: Path, owner: str = "looking on") -> Search:
    return experiments_search.study_of(experiments.load(str(file)), owner)


async def test_the_base_is_trial_0_and_the_best_point_wins_in_pairs(desk: Desk, world: World, space: Path) -> None:
    world.speed = speed
    told = await run(desk, space)
    rows = study(space).rows()
    assert rows[0]["baseline"] and rows[0]["values"][0] == pytest.approx(speed_of_base(), rel=0.02)
    assert len(rows) == 9 and not rows[0]["point"]  # the base says no chunk size: it stands outside the space
    best = max((row for row in rows[1:] if row["values"]), key=lambda row: row["values"][0])
    assert told.winner == f"trial-{best['trial']}"
    assert told.verdict is Verdict.KEEP and told.confirmed
    assert world.run is not None and world.run.profile == f"small+trial-{best['trial']}"


def speed_of_base() -> float:
    return 800 + 32 - (4096 - 1024) / 20


async def test_a_point_that_does_not_start_is_told_as_failed_and_not_tried_twice(
    desk: Desk, world: World, space: Path
) -> None:
    world.speed = speed
    world.dies = lambda profile, on: "out of memory" if profile.launch.args["max-running-requests"] == 1024 else ""
    await run(desk, space)
    rows = study(space).rows()
    failed = [row for row in rows if row["state"] == "fail"]
    assert failed, [(row["trial"], row["state"], row["cause"], row["point"], row["values"]) for row in rows]
    assert all("out of memory" in row["cause"] for row in failed)
    assert all(row["point"]["args.max-running-requests"] == 1024 for row in failed)


async def test_a_space_that_was_seen_whole_is_left(desk: Desk, world: World, space: Path) -> None:
    """Points that failed are proposed again and again: they cost neither a launch nor a trial."""
    text = space.read_text()
    space.write_text(text[: text.index("[search.args")] + "[search.args.max-running-requests]\nchoices = [32, 1024]\n")
    world.speed = lambda profile, on: 800.0 + float(str(profile.launch.args["max-running-requests"]))
    world.dies = lambda profile, on: "out of memory" if profile.launch.args["max-running-requests"] == 1024 else ""
    await run(desk, space)
    rows = study(space).rows()
    assert [row["state"] for row in rows[1:]].count("fail") == 1 and len(rows) == 3
    assert study(space).seen_whole


async def test_a_tainted_point_is_measured_again(desk: Desk, world: World, space: Path) -> None:
    world.speed = speed
    times: list[str] = []

    def once_late(profile: Profile) -> str:
        times.append(profile.name)
        return "" if times.count(profile.name) > 1 else "the client was late"

    world.taint = once_late
    told = await run(desk, space)
    rows = study(space).rows()
    assert not [row for row in rows if row["state"] == "fail"] and len(rows) == 9
    assert told.winner


def test_a_point_that_comes_again_is_told_as_it_was_and_is_no_trial(space: Path) -> None:
    """A good one that was told as given up would steer the sampler away from it."""
    search = study(space, "me")
    good, bad, under_way, again = (search.ask() for _ in range(4))
    for number, trial in enumerate((good, bad, under_way)):
        trial.set_user_attr("launch", f"l{number}")
    search.tell(good, [900.0])
    search.tell_failed(bad, "out of memory")
    told = []
    for number, trial in enumerate((again, search.ask(), search.ask())):
        known = search.known(f"l{number}", trial)
        assert known is not None
        search.tell_again(trial, known)
        one = search.study.trials[trial.number]
        told.append((one.state.name, one.values))
    assert told == [("COMPLETE", [900.0]), ("PRUNED", None), ("FAIL", None)]
    assert [row["trial"] for row in search.rows()] == [good.number, bad.number, under_way.number]
    assert [number for number, *_ in search.best()] == [good.number] and search.known("l9", search.ask()) is None


@pytest.mark.parametrize(
    ("dimension", "points"),
    [
        (Dimension("args", "x", choices=("a", "b")), 2),
        (Dimension("args", "x", low=1, high=4), 4),
        (Dimension("args", "x", low=1, high=10, step=3), 4),
        (Dimension("args", "x", low=0.1, high=0.3, step=0.1, whole=False), 3),
        (Dimension("args", "x", low=0.1, high=0.3, whole=False), None),
    ],
)
def test_points_of_a_space(dimension: Dimension, points: int | None) -> None:
    assert size([dimension]) == points
    assert size([dimension, Dimension("env", "Y", choices=("1", "2", "3"))]) == (points and 3 * points)


async def test_a_plan_tells_the_space(desk: Desk, space: Path) -> None:
    plan = await experiments.plan(None, experiments.load(str(space)))
    assert (plan.visits, plan.launches) >= (9, 9)
    told = "\n".join(plan_lines(plan))
    assert "8 trials at most" in told and "--max-running-requests" in told and "at most 0 measurements" not in told


async def test_killed_in_a_trial_it_goes_on_with_the_same_study(
    desk: Desk, world: World, space: Path, tmp_path: Path
) -> None:
    world.speed, world.fail_at = speed, 30
    with pytest.raises(Killed):
        await run(desk, space)
    before = study(space).rows()
    assert [row["state"] for row in before if row["state"] == "running"]
    told = await run(desk_on(tmp_path), space)
    rows = study(space).rows()
    assert len(rows) == 9 and not [row for row in rows if row["state"] == "running"]
    assert told.winner


async def test_killed_in_the_proof_it_goes_on_there(desk: Desk, world: World, space: Path, tmp_path: Path) -> None:
    world.speed = speed
    whole = await run(desk, space)
    calls = len(world.calls)
    world.on.clear()
    world.run, world.calls = None, []
    shared = space.parent / "again.toml"
    shared.write_text(SEARCH.format(more=""))
    world.fail_at = calls - 12
    with pytest.raises(Killed):
        await run(desk, shared)
    trials = len(study(shared).rows())
    told = await run(desk_on(tmp_path), shared)
    assert (told.winner, len(study(shared).rows())) == (whole.winner, trials)


async def test_two_consoles_share_one_study(desk: Desk, world: World, space: Path) -> None:
    """Another host's trials count, and the base is measured once."""
    world.speed = speed
    space.write_text(SEARCH.format(more='storage = "shared.log"'))
    other = study(space, "the other host")
    other.tell_base(None, [678.0])
    for _ in range(5):
        trial = other.ask()
        other.tell(trial, [1000.0 + trial.number])
    await run(desk, space)
    rows = study(space).rows()
    assert len(rows) == 9 and (space.parent / "shared.log").exists()
    assert sum(row["baseline"] for row in rows) == 1
    assert {row["owner"] for row in rows} >= {"the other host"}


def test_what_another_console_measures_is_not_cleared_and_what_was_cut_off_is_tried_again(space: Path) -> None:
    """Two consoles of one operator, each at a host of its own that is called alike."""
    first, second = study(space, "demo ann"), study(space, "demo ann")
    first.claim, second.claim = "demo ann x-1 1.0", "demo ann x-1 2.0"
    mine, theirs = first.ask(), second.ask()
    assert first.elsewhere == [(theirs.number, "demo ann")]
    again = study(space, "demo ann")
    again.claim = first.claim
    assert again.clear_left_over() == 1 and again.begun == 1
    second.tell(theirs, [900.0])  # nobody has ended it
    retried = again.ask()
    assert retried.params == mine.params and again.begun == 2
    again.tell(retried, [800.0])
    assert [row["state"] for row in again.rows()] == ["complete", "complete"]


def test_of_two_that_ask_for_one_point_at_once_the_later_gives_way(space: Path) -> None:
    first, second = study(space, "one"), study(space, "two")
    point = {"args.max-running-requests": 64, "args.chunked-prefill-size": 1024}
    for one in (first, second):
        one.study.enqueue_trial(point)
    here, there = first.ask(), second.ask()
    assert here.params == there.params == point
    assert first.known("a", here) is None
    known = second.known("a", there)
    assert known is not None and known.number == here.number


def test_a_base_that_two_have_measured_counts_once(space: Path) -> None:
    search = study(space)
    for _ in range(2):
        search.tell_base(None, [678.0])
    assert search.begun == 1


async def test_a_host_that_is_not_equal_is_refused_by_what_differs(desk: Desk, world: World, space: Path) -> None:
    world.speed = speed
    await run(desk, space)
    world.facts |= {"driver": "590", "commit": "def"}
    with pytest.raises(RefusedError, match="not equal to the host") as said:
        await run(desk, space)
    assert said.value.detail == "driver 580 → 590; git commit abc → def"


async def test_a_proof_goes_on_with_its_own_point_though_another_host_has_found_a_better_one(
    desk: Desk, world: World, space: Path, tmp_path: Path
) -> None:
    world.speed = speed
    whole = await run(desk, space)
    calls = len(world.calls)
    world.on.clear()
    world.run, world.calls = None, []
    shared = space.parent / "shared.toml"
    shared.write_text(SEARCH.format(more='storage = "shared.log"'))
    world.fail_at = calls - 12
    with pytest.raises(Killed):
        await run(desk, shared)
    assert {row["state"] for row in study(shared).rows()} <= {"complete", "pruned"}  # the search itself was over
    other = study(shared, "the other host")
    trial = other.ask()
    other.tell(trial, [99999.0])
    world.fail_at = -1
    told = await run(desk_on(tmp_path), shared)
    assert told.winner == whole.winner != f"trial-{trial.number}"


async def test_two_objectives_give_a_front(desk: Desk, world: World, space: Path) -> None:
    world.speed = speed
    space.write_text(SEARCH.format(more='objectives = ["output_tok_s", "ttft_p50_ms"]\nsampler = "nsga2"'))
    told = await run(desk, space)
    assert all(len(row["values"]) == 2 for row in study(space).rows() if row["values"])
    assert told.metric == "output_tok_s" and 1 <= len(told.outcomes) - 1 <= 3
    assert re.fullmatch(r"best of the search: [\d,]+ tok/s at \d+\.\d ms", told.outcomes[1].hypothesis)


async def test_a_search_that_is_unfinished_blocks_others(desk: Desk, world: World, space: Path) -> None:
    world.speed, world.fail_at = speed, 30
    with pytest.raises(Killed):
        await run(desk, space)
    other = space.parent / "other.toml"
    other.write_text(space.read_text().replace("trials = 8", "trials = 9"))
    with pytest.raises(RefusedError, match="unfinished"):
        await run(desk, other)


async def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConsoleError) as said:
        need_optuna()
    assert "tokwatt[search]" in said.value.one_line()


def test_the_base_as_a_point_of_the_space(space: Path) -> None:
    spec = experiments.load(str(space))
    assert spec.search is not None
    assert base_point(spec.search.space, spec.base) is None
    assert base_point(spec.search.space[:1], spec.base) == {"args.max-running-requests": 64}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("choices = [64, 256, 1024, 2048]", "choices = [64]"), "two or more different values"),
        (("low = 1024", "low = 9000"), "low below high"),
        (("trials = 8", "trials = 0"), "must be 1 or more"),
        (("seed = 7", 'objectives = ["tok/s"]'), "search.objectives[1] = 'tok/s' is not known"),
        (("seed = 7", 'sampler = "cma"'), "search.sampler"),
        (("chunked-prefill-size", "port"), "does not belong here"),
    ],
)
def test_a_wrong_space_names_the_line(space: Path, change: tuple[str, str], said: str) -> None:
    space.write_text(space.read_text().replace(*change))
    with pytest.raises(FormatError, match=r"story\.toml:\d+: ") as error:
        experiments.load(str(space))
    assert said in error.value.title

"""Experiments over a pretend host: the whole walk, faults at every step, and what is refused."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.experiment import ExperimentState, Verdict
from console.domain.profile import Profile
from console.domain.run import Run, RunPhase
from console.errors import DriftError, ReadOnlyError, RefusedError, UsageError
from console.journal import experiments as entries
from console.journal.book import Journal
from console.operations import experiments, experiments_run
from console.operations.desk import Desk
from console.operations.experiment_words import left_words
from tests.experiments.conftest import Killed, World, desk_on, link_lost, story


async def run(desk: Desk, file: Path) -> ExperimentState:
    """Run an experiment to its end."""
    async with aclosing(experiments_run.run(desk, experiments.load(str(file)))) as states:  # type: ignore[type-var]
        async for state in states:
            told = state
    return told


async def resumed(desk: Desk, file: Path) -> ExperimentState:
    """Go on with it to its end."""
    entry = await experiments.entry_of(str(file))
    spec = experiments.load(str(file))
    async with aclosing(experiments_run.resume(desk, spec, entry)) as states:  # type: ignore[type-var]
        async for state in states:
            told = state
    return told


def verdicts(told: ExperimentState) -> dict[str, str]:
    return {arm.name: str(arm.verdict) for arm in told.outcomes if arm.against}


WHOLE = {"wide": "KEEP", "tuned": "KEEP", "fused": "REVERT"}


async def test_the_story_one_change_at_a_time(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    told = await run(desk, file)
    assert verdicts(told) == WHOLE
    assert (told.winner, told.verdict, told.finished) == ("tuned", Verdict.KEEP, True)
    assert world.on == {"tune"} and world.run is not None
    assert (world.run.profile, world.run.phase) == ("small+tuned", RunPhase.READY)
    fused = next(arm for arm in told.outcomes if arm.name == "fused")
    assert fused.rolled_back_to == "wide"
    assert fused.rolled_back_at is not None and fused.relaunched_at is not None
    assert fused.relaunched_at >= fused.rolled_back_at
    assert "not compared" in told.target and "K2-Thinking" in told.target
    assert told.confirmed and told.confirmed[-1].low is not None and told.confirmed[-1].low > 2
    assert [line.over for line in told.ledger] == ["base", "wide", "wide"]
    assert told == await experiments.report(told.id)


async def test_the_journal_tells_the_state_of_the_host_all_the_way(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    seen = []
    async with aclosing(experiments_run.run(desk, experiments.load(str(file)))) as states:  # type: ignore[type-var]
        async for _ in states:
            seen.append((await experiments.entry_of(str(file))).where)
    assert all(seen[2:])
    assert any("fused: run" in where for where in seen)
    assert seen[-1].startswith("tuned: run")


async def count(file: Path, world: World, desk: Desk) -> int:
    """Return how many calls a whole experiment makes."""
    world.speed = story
    await run(desk, file)
    return len(world.calls)


CALLS = 156
"""Of a whole experiment over the pretend host; the test below holds it to that."""


async def test_how_many_calls_a_whole_experiment_makes(desk: Desk, world: World, file: Path) -> None:
    assert await count(file, world, desk) == CALLS


@pytest.mark.parametrize("at", range(0, CALLS, 9))
async def test_killed_at_any_step_it_is_resumed_to_the_same_verdicts(
    at: int, desk: Desk, world: World, file: Path, tmp_path: Path
) -> None:
    world.speed, world.fail_at = story, at
    with pytest.raises(Killed):
        await run(desk, file)
    if at:  # the first call looks, nothing was begun
        left = await entries.unfinished(Journal(), "box")
        if left:
            told = await resumed(desk_on(tmp_path), file)
            assert (verdicts(told), told.winner) == (WHOLE, "tuned")
            assert world.on == {"tune"} and world.run is not None and world.run.profile == "small+tuned"
            return
    assert not world.on and world.run is None


@pytest.mark.parametrize("at", range(3, CALLS, 17))
async def test_a_link_that_drops_at_any_step_changes_nothing(at: int, desk: Desk, world: World, file: Path) -> None:
    world.speed, world.fail_at, world.fault = story, at, link_lost
    told = await run(desk, file)
    assert (verdicts(told), told.winner, world.on) == (WHOLE, "tuned", {"tune"})


async def test_an_arm_that_does_not_start_is_kept_with_its_cause_and_rolled_back(
    desk: Desk, world: World, file: Path
) -> None:
    world.speed = story
    world.dies = lambda profile, on: "out of memory" if "fuse" in on else ""
    told = await run(desk, file)
    fused = next(arm for arm in told.outcomes if arm.name == "fused")
    assert fused.verdict is Verdict.FAILED and "out of memory" in fused.reason
    assert fused.relaunched_at is not None
    assert told.winner == "tuned" and world.on == {"tune"}


async def test_a_patch_that_does_not_fit_fails_its_arm_alone(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    world.stuck.add("fuse")
    told = await run(desk, file)
    fused = next(arm for arm in told.outcomes if arm.name == "fused")
    assert fused.verdict is Verdict.FAILED and "patches: fuse does not fit" in fused.reason
    assert told.winner == "tuned"


async def test_garbage_blocks_a_keep(desk: Desk, world: World, file: Path) -> None:
    """Fast, and every answer is exclamation marks."""
    world.speed = lambda profile, on: 3 * story(profile, on) if "tune" in on else story(profile, on)
    world.answer = lambda profile, on: "!" * 48 if "tune" in on else "The sea was calm and the boats came home."
    told = await run(desk, file)
    tuned = next(arm for arm in told.outcomes if arm.name == "tuned")
    assert tuned.verdict is Verdict.FAILED and "6 of 6 answers are garbage" in tuned.reason
    assert told.winner == "wide" and not world.on


async def test_garbage_that_comes_with_a_later_launch_takes_a_keep_back(desk: Desk, world: World, file: Path) -> None:
    """A kernel that is tuned at each launch may be the broken one the next time: also when the winner is measured afresh."""
    world.speed = story
    launches = list[str]()

    def answer(profile: Profile, on: frozenset[str]) -> str:
        launches.append("tune" if "tune" in on else "")
        return "!" * 48 if "tune" in on and launches.count("tune") > 2 else "The sea was calm and the boats came home."

    world.answer = answer
    told = await run(desk, file)
    tuned = next(arm for arm in told.outcomes if arm.name == "tuned")
    assert tuned.verdict is Verdict.FAILED and "6 of 6 answers are garbage (0 of the base's)" in tuned.reason
    assert tuned.rolled_back_to == "wide" and tuned.relaunched_at is not None
    assert (told.winner, told.verdict) == ("wide", Verdict.KEEP) and not world.on


async def test_arms_that_resolve_alike_are_not_measured(desk: Desk, world: World, file: Path) -> None:
    world.in_force = lambda profile: {"max_running_requests": 64, "random_seed": world.launched}
    told = await run(desk, file)
    wide = next(arm for arm in told.outcomes if arm.name == "wide")
    assert wide.verdict is Verdict.SAME_ARM and "same arguments are in force" in wide.reason
    assert not wide.rungs


async def test_silence_of_a_server_about_a_flag_is_no_proof_that_nothing_changed(
    desk: Desk, world: World, file: Path
) -> None:
    world.in_force = lambda profile: {"model_path": "/models/x"}
    world.speed = story
    assert verdicts(await run(desk, file)) == WHOLE


async def test_an_arm_that_the_install_would_not_take_is_not_launched(desk: Desk, world: World, file: Path) -> None:
    world.unfit = {"wide": "launch.args.wide: wide is not a flag of this install"}
    plan = await experiments.plan(desk, experiments.load(str(file)))
    assert dict(plan.problems)["wide"] == world.unfit["wide"]
    wide = next(arm for arm in (await run(desk, file)).outcomes if arm.name == "wide")
    assert wide.verdict is Verdict.FAILED and wide.reason == world.unfit["wide"] and not wide.rungs


async def test_the_time_left_is_told_once_some_visits_were_timed(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    states = [state async for state in experiments_run.run(desk, experiments.load(str(file)))]
    early = [state.left_s for state in states if state.done < 3]
    later = [state.left_s for state in states if 3 <= state.done < state.planned and not state.finished]
    assert set(early) == {None} and later and all(left is not None and left >= 0 for left in later)
    assert states[-1].left_s is None


@pytest.mark.parametrize(("seconds", "words"), [(12.4, "at most 12 s left"), (600, "at most 10 min left")])
def test_the_time_left_in_words(seconds: float, words: str) -> None:
    assert left_words(seconds) == words


async def test_a_server_that_tells_nothing_leaves_it_open_whether_arms_are_as_asked(
    desk: Desk, world: World, file: Path
) -> None:
    world.in_force = lambda profile: {}
    world.speed = story
    told = await run(desk, file)
    assert verdicts(told) == WHOLE
    assert "wide: its server tells no arguments in force: whether they are as asked is not proven" in told.notes


async def test_when_every_arm_is_the_base_nothing_is_launched(desk: Desk, world: World, file: Path) -> None:
    file.write_text('schema=1\nbase="small"\n[[arm]]\nname="tune"\npatches=["unreached"]\n')
    told = await run(desk, file)
    assert told.verdict is Verdict.SAME_ARM and told.finished
    assert world.launched == 0
    assert "never reaches the patched code" in told.outcomes[1].reason


async def test_another_model_is_refused_before_anything_is_done(desk: Desk, world: World, file: Path) -> None:
    file.write_text('schema=1\nbase="small"\n[[arm]]\nname="k2"\nargs={model-path="/models/K2"}\n')
    with pytest.raises(RefusedError, match="another model, not compared"):
        await run(desk, file)
    assert world.launched == 0 and not await entries.listed(Journal())


async def test_a_server_of_somebody_else_is_not_stopped(desk: Desk, world: World, file: Path) -> None:
    world.run = Run("run-9", "other", "sglang", "", "", 31000, 1.0, phase=RunPhase.READY)
    with pytest.raises(RefusedError, match="run-9 of other"):
        await run(desk, file)
    assert "stop" not in world.calls


async def test_an_unfinished_one_is_told_of_and_can_be_abandoned(desk: Desk, world: World, file: Path) -> None:
    world.speed, world.fail_at = story, 100
    with pytest.raises(Killed):
        await run(desk, file)
    with pytest.raises(RefusedError, match="is unfinished on box"):
        await run(desk, file)
    entry = await experiments.entry_of(str(file))
    told = await experiments_run.abandon(desk, experiments.load(str(file)), entry)
    assert world.run is not None and world.run.profile == "small" and not world.on
    assert told.finished and "abandoned" in told.where


async def test_a_changed_file_is_not_resumed(desk: Desk, world: World, file: Path) -> None:
    world.speed, world.fail_at = story, 60
    with pytest.raises(Killed):
        await run(desk, file)
    file.write_text(file.read_text().replace("2048", "1024"))
    with pytest.raises(DriftError, match="changed since"):
        await resumed(desk, file)


async def test_a_changed_hypothesis_is_the_same_experiment(desk: Desk, world: World, file: Path) -> None:
    before = experiments.load(str(file)).digest
    file.write_text(file.read_text().replace("starved", "something else"))
    assert experiments.load(str(file)).digest == before


async def test_readonly_refuses(desk: Desk, world: World, file: Path) -> None:
    desk.readonly = True
    with pytest.raises(ReadOnlyError):
        await run(desk, file)


async def test_a_finished_one_is_not_resumed(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    await run(desk, file)
    with pytest.raises(RefusedError, match="finished"):
        await resumed(desk, file)


async def test_repeats_below_three_are_inconclusive(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    file.write_text(file.read_text().replace("repeats = 4", "repeats = 2"))
    told = await run(desk, file)
    assert told.verdict is Verdict.INCONCLUSIVE and not told.winner
    assert told.outcomes[1].more_pairs == 1
    assert world.run is not None and world.run.profile == "small"


async def test_each_repeat_has_its_own_launch_where_the_file_says_so(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    file.write_text(
        'schema=1\nbase="small"\n[measure]\nrepeats=3\nconfirm=0\nrelaunch="each"\n'
        '[[arm]]\nname="wide"\nargs={max-running-requests=2048}\n'
    )
    await run(desk, file)
    assert world.launched == 6


async def test_tainted_measurements_are_left_out_unless_tolerated(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    world.taint = lambda profile: "the client was late: 30 ms" if profile.name == "small+wide" else ""
    told = await run(desk, file)
    assert told.outcomes[1].verdict is Verdict.INCONCLUSIVE and "the client was late" in told.outcomes[1].reason
    file.write_text(file.read_text().replace("repeats = 4", 'repeats = 4\ntolerate = ["the client was late"]'))
    assert (await run(desk, file)).outcomes[1].verdict is Verdict.KEEP


async def test_a_combination_tells_its_interaction(desk: Desk, world: World, file: Path) -> None:
    def speed(profile: object, on: frozenset[str]) -> float:
        return 880 * {0: 1.0, 1: 1.2, 2: 1.2}[len(on)]

    world.speed = speed
    file.write_text(
        'schema=1\nbase="small"\n[measure]\nrepeats=4\nearly_stop=false\nconfirm=0\n'
        '[[arm]]\nname="a"\npatches=["tune"]\n'
        '[[arm]]\nname="b"\npatches=["fuse"]\nargs={fuse=true}\n'
        '[[arm]]\nname="ab"\ncombine=["a","b"]\n'
    )
    told = await run(desk, file)
    line = next(line for line in told.ledger if line.name == "ab")
    assert line.interaction_pct == pytest.approx(100 * (1.2 / 1.44 - 1), abs=1.5)
    assert line.interaction_high_pct is not None and line.interaction_high_pct < 0


async def test_what_is_not_in_the_journal(desk: Desk) -> None:
    with pytest.raises(UsageError, match="not in the journal"):
        await experiments.report("nothing")

"""The shell door of experiments over the pretend host: a document also when it fails, and what is not saved."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.cli.output import Output
from console.cli.verbs import experiment as verb
from console.errors import ConsoleError, RefusedError
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import experiments_winner, patches
from console.operations.desk import Desk
from tests.experiments.conftest import World, desk_on, story


def output() -> Output:
    return Output(json=True, stdout=io.StringIO(), stderr=io.StringIO())


def document(out: Output) -> dict[str, Any]:
    assert isinstance(out.stdout, io.StringIO)
    found = json.loads(out.stdout.getvalue())
    assert isinstance(found, dict)
    return found


def words(file: Path, **more: Any) -> argparse.Namespace:
    return argparse.Namespace(file=str(file), again=False, **more)


async def test_a_base_that_does_not_start_is_told_in_the_document_and_goes_on_once_it_does(
    desk: Desk, world: World, file: Path, tmp_path: Path
) -> None:
    world.speed, world.dies = story, lambda profile, on: "out of memory"
    out = output()
    with pytest.raises(ConsoleError, match="base: start: run run-1 failed: out of memory") as fault:
        await verb.run(words(file), desk, out)
    told = document(out)
    assert fault.value.exit_code == 1
    assert "out of memory" in told["error"] and told["schema"] == 1
    assert (told["verdict"], told["finished"], told["winner"]) == ("open", False, None)
    assert told["state"] == "base: start: run run-1 failed: out of memory"
    world.dies, again = lambda profile, on: "", output()
    assert await verb.resume(words(file), desk_on(tmp_path), again) == 0
    assert (document(again)["winner"], document(again)["error"]) == ("tuned", None)


async def test_what_is_refused_before_it_begins_prints_no_document(desk: Desk, world: World, file: Path) -> None:
    file.write_text('schema=1\nbase="small"\n[[arm]]\nname="k2"\nargs={model-path="/models/K2"}\n')
    out = output()
    with pytest.raises(RefusedError, match="another model"):
        await verb.run(words(file), desk, out)
    assert isinstance(out.stdout, io.StringIO) and not out.stdout.getvalue()


async def test_a_document_tells_launches_and_their_noise(desk: Desk, world: World, file: Path) -> None:
    world.speed = story
    out = output()
    assert await verb.run(words(file), desk, out) == 0
    told = document(out)
    (first,) = [arm for arm in told["arms"] if not arm["against"]]
    assert {(one["pairs"], one["base_launches"]) for one in first["rungs"]} == {(3, 2)}
    (wide,) = [arm for arm in told["arms"] if arm["name"] == "wide"]
    rung = next(one for one in wide["rungs"] if one["concurrency"] == told["decide_at"])
    assert (rung["pairs"], rung["base_launches"], rung["arm_launches"]) == (3, 2, 2)
    assert wide["reason"] == "clear after 3 of 4 pairs, from 2 + 2 launches"
    assert [(one["pairs"], one["base_launches"], one["arm_launches"]) for one in told["confirmed"]] == [(3, 3, 3)] * 2
    assert told["noise_pct"] > told["noise_within_launch_pct"] > 0


async def test_a_winner_of_code_that_no_patch_holds_is_not_saved_unless_it_is_asked_for(
    desk: Desk, world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.speed = story
    assert await verb.run(words(file), desk, output()) == 0
    assert world.run is not None
    identity = {"patches_on": ["tune"], "git": {"uncommitted": {"srt/tuned.py": "1", "srt/by_hand.py": "2"}}}
    await Journal().record_run(RunEntry(world.run.id, "box", world.run.profile, "sglang", 1.0, identity=identity))
    saved: list[str] = []

    async def statuses(desk: Desk, names: Any) -> tuple[Any, ...]:
        assert names == ["tune"]
        return (SimpleNamespace(name="tune", files=("srt/tuned.py",)),)

    async def keep(desk: Desk, profile: Any, run: RunEntry, name: str, **_: Any) -> Path:
        saved.append(name)
        return Path(f"/{name}.toml")

    monkeypatch.setattr(patches, "statuses", statuses)
    monkeypatch.setattr(experiments_winner, "save_profile", keep)
    with pytest.raises(RefusedError, match=r"no patch of its profile holds: srt/by_hand\.py"):
        await verb.save(words(file, name="mine", overwrite=False, dirty=False), desk, output())
    out = output()
    assert not saved
    assert await verb.save(words(file, name="mine", overwrite=False, dirty=True), desk, out) == 0
    assert document(out)["path"] == "/mine.toml"

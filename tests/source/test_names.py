"""Files by some of their letters: the order of the best, every name of a tree in one round trip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.errors import RemoteError
from console.operations import source
from console.operations.desk import Desk
from console.source.names import Finder, place

NAMES = (
    "srt/model_executor/model_runner.py",
    "srt/models/llama.py",
    "srt/layers/moe/fused_moe_triton/fused_moe.py",
    "srt/layers/moe/topk.py",
    "srt/managers/scheduler.py",
    "srt/managers/scheduler_output.py",
    "test/test_scheduler.py",
    "srt/disaggregation/prefill_scheduler.py",
    "docs/[b]x[/].md",
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("scheduler", ["managers/scheduler.py", "scheduler_output.py", "test_scheduler.py", "prefill_scheduler.py"]),
        ("mr", ["model_runner.py"]),
        ("MODRUN", ["model_runner.py"]),
        ("lay/moe/fu", ["fused_moe.py"]),
        ("fused moe_tri", ["fused_moe.py"]),
        ("topk srt", ["topk.py"]),
        ("[b]", ["[b]x[/].md"]),
        (".py", ["llama.py"]),
        ("zzz", []),
        ("a\\d+(", []),
    ],
)
def test_the_best_come_first(wanted: str, found: list[str]) -> None:
    names = [name for name, _ in Finder(NAMES).find(wanted)]
    assert [name.endswith(end) for name, end in zip(names, found, strict=False)] == [True] * len(found)
    assert bool(names) == bool(found)


def test_nothing_wanted_is_everything_in_order_and_letters_are_told() -> None:
    finder = Finder(NAMES)
    assert [name for name, _ in finder.find("", 3)] == list(NAMES[:3])
    ((name, spots), *_) = finder.find("modrun")
    assert [name[spot] for spot in spots] == list("modrun")
    assert finder.count("scheduler") == 4
    for wanted in ("s", "sc", "sch", "sched", "sc", "schx"):  # what was typed before narrows, and never too far
        assert {n for n, _ in finder.find(wanted)} == {n for n, _ in Finder(NAMES).find(wanted)}


def test_a_line_may_follow() -> None:
    assert place("mr:1841") == ("mr", 1841)
    assert place("a:b") == ("a:b", None)
    assert place("x:٣") == ("x:٣", None)


async def test_every_name_in_one_round_trip_then_none(ssh_desk: Desk, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    for folder in ("a/b", ".hidden", ".git", "a/__pycache__", "empty"):
        (top / folder).mkdir(parents=True)
    for number in range(6000):
        (top / "a/b" / f"f{number}").touch()
    for name in ("a/x.py", ".hidden/y", ".git/config", "a/__pycache__/x.pyc", "new\nline", "é"):
        (top / name).touch()
    (top / "to-folder").symlink_to("a")
    (top / "nowhere").symlink_to("gone")
    os.symlink("..", top / "a/up")  # a loop is not walked
    trips = ssh_desk.link.round_trips
    parts = [part async for part in source.names(ssh_desk, str(top))]
    assert ssh_desk.link.round_trips - trips == 1
    assert len(parts) > 1 and not parts[0].complete
    names = parts[-1]
    assert names.complete and not names.limited
    assert sorted(names.names) == sorted(
        ["a/x.py", ".hidden/y", "new\nline", "é", "to-folder", "nowhere", "a/up", *(f"a/b/f{n}" for n in range(6000))]
    )
    assert names.links == {"to-folder": ("a", "dir"), "nowhere": ("gone", ""), "a/up": ("..", "dir")}
    assert names.entry("to-folder").target == "a"
    again = [part async for part in source.names(ssh_desk, str(top))]
    assert again == [names]
    assert ssh_desk.link.round_trips - trips == 1
    with pytest.raises(RemoteError) as caught:
        _ = [part async for part in source.names(ssh_desk, str(top / "none"))]
    assert caught.value.kind == "enoent"

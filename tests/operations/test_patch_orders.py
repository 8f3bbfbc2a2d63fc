"""Property: any set of patches, on in any order and off in any order, gives the very bytes back."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from console.domain.host import Package
from console.domain.patch import DiskState, Edit, EditKind, Patch
from console.errors import RefusedError
from console.operations import patches
from console.operations.desk import Desk
from console.operations.patch_scene import Scene, judged
from console.operations.patch_sides import refuse_lower, to_off, to_on
from console.patching.versions import Facts
from tests.local import desk as desk
from tests.operations.test_patches import PATH, own, package

__all__ = ["own", "package"]

ROWS = 8
FILES = ("a.py", "b.py")


@st.composite
def edit(draw: st.DrawFn) -> Edit:
    """An edit of one or two numbered lines, that may lie over others' edits."""
    row = draw(st.integers(0, ROWS - 1))
    find = f"line {row}" if draw(st.booleans()) or row == ROWS - 1 else f"line {row}\nline {row + 1}"
    kind = draw(st.sampled_from([EditKind.REPLACE, EditKind.REPLACE, EditKind.INSERT_BEFORE, EditKind.INSERT_AFTER]))
    text = draw(st.sampled_from(["new", "new\nnewer", f"line {row} and more", f"if line {row}:"]))
    return Edit(draw(st.sampled_from(FILES)), find, text, kind=kind)


def numbered(made: list[list[Edit]]) -> list[Patch]:
    """Return the patches with a result of its own for every edit: two alike could only be told by the journal."""
    count = itertools.count()
    return [
        Patch(f"p{number}", edits=tuple(replace(one, replace=f"{one.replace} #{next(count)}") for one in edits))
        for number, edits in enumerate(made)
    ]


EDITS = st.lists(edit(), min_size=1, max_size=3, unique_by=lambda one: (one.file, one.find, one.kind))
SETS = st.lists(EDITS, min_size=1, max_size=4)


def untouched(known: list[Patch], eol: str = "\n") -> Scene:
    """Return a package of numbered lines with the patches planned on it."""
    text = "".join(f"line {row}{eol}" for row in range(ROWS)).encode()
    files: dict[str, bytes | None] = dict.fromkeys(FILES, text)
    return judged(Scene(Package("eng", "/eng", None), Facts("eng", None, None), files, {"head": {}}, {}), known)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(SETS, st.sampled_from(["\n", "\r\n"]), st.data())
def test_any_set_in_any_order_goes_back_to_the_very_bytes(
    made: list[list[Edit]], eol: str, data: st.DataObject
) -> None:
    known = numbered(made)
    scene = untouched(known, eol)
    files = scene.files
    on: list[str] = []
    for name in data.draw(st.permutations([patch.name for patch in known])):
        item = scene.plan_of(name)
        if item.state is DiskState.OFF:
            scene = scene.after(to_on(item, False, False), name, True)
            assert scene.plan_of(name).state is DiskState.ON
            assert scene.plan_of(name).changes(on=True) == (), "planning twice is empty"
            on.append(name)
    event(f"{len(on)} on")
    waiting = list(data.draw(st.permutations(on)))
    while waiting:
        for name in list(waiting):
            try:
                changes = to_off(scene, scene.plan_of(name), False)
                refuse_lower(scene, name, changes)
            except RefusedError:
                event("refused below another")
                continue
            scene = scene.after(changes, name, False)
            waiting.remove(name)
            break
        else:
            raise AssertionError(f"none of {waiting} can go")
    assert scene.files == files


def test_of_three_inserts_at_one_place_the_lower_two_are_told_to_lie_under_the_others() -> None:
    before = [Edit("a.py", "line 0\nline 1", f"new {number}", kind=EditKind.INSERT_BEFORE) for number in range(3)]
    further = Edit("b.py", "line 3", "other")
    scene = untouched([Patch("p0", edits=(before[0],)), Patch("p1", edits=(before[1],)),
                       Patch("p2", edits=(before[2], further))])  # fmt: skip
    for name in ("p0", "p1", "p2"):
        scene = scene.after(to_on(scene.plan_of(name), False, False), name, True)
    assert [scene.plan_of(name).state for name in ("p0", "p1", "p2")] == [
        DiskState.DRIFTED,
        DiskState.DRIFTED,
        DiskState.ON,
    ]
    assert set(scene.plan_of("p0").under) == {"p1", "p2"} and scene.plan_of("p1").under == ("p2",)


def test_an_insert_whose_anchor_would_go_keeps_the_patch_below_it() -> None:
    low = Patch("low", edits=(Edit("a.py", "line 5\nline 6", "line 5 and more"),))
    high = Patch("high", edits=(Edit("a.py", "line 4\nline 5", "new", kind=EditKind.INSERT_AFTER),))
    scene = untouched([low, high])
    for name in ("low", "high"):
        scene = scene.after(to_on(scene.plan_of(name), False, False), name, True)
    changes = to_off(scene, scene.plan_of("low"), False)
    with pytest.raises(RefusedError, match="high"):  # it would look off, its line left behind line 6
        refuse_lower(scene, "low", changes)


async def test_a_patch_of_ours_that_looks_off_under_another_is_not_written_twice(
    desk: Desk, own: Path, package: Path
) -> None:
    before = (package / PATH).read_bytes()
    row = "num_kv_splits: int = 4"
    for name in ("LOW", "UP"):
        text = f'[[edit]]\nfile = "{PATH}"\nfind = "{row}"\nreplace = "{row}  # {name}"\n'
        (own / f"{name}.toml").write_text(text)
    await patches.apply(desk, "LOW")
    await patches.apply(desk, "UP")
    assert f"{row}  # UP  # LOW".encode() in (package / PATH).read_bytes()
    status = (await patches.statuses(desk, ["LOW"]))[0]
    assert status.disk is DiskState.DRIFTED and "UP is on and lies over it" in status.reason
    for switch in (patches.apply, patches.revert):
        with pytest.raises(RefusedError):
            await switch(desk, "LOW")
    await patches.revert(desk, "UP")
    await patches.revert(desk, "LOW")
    assert (package / PATH).read_bytes() == before

"""Sets: several patches as one plan, one transaction and one undo, whatever the state before."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from console.domain.host import Package
from console.domain.patch import DiskState, Edit, Patch
from console.domain.profile import Profile
from console.errors import AlreadySoError, ConflictError, ConsoleError, DriftError, UsageError
from console.operations import patches
from console.operations.desk import Desk
from console.operations.patch_scene import Scene, judged
from console.operations.patch_sets import planned_set
from console.operations.patch_sides import refuse_lower, to_off, to_on
from console.patching.versions import Facts
from tests.local import desk as desk
from tests.operations.test_patches import PATH, A, own, package, sha

__all__ = ["own", "package"]

ROWS = 8


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[bytes], list[Patch], list[int], list[int]]:
    """Return lines of two files, patches on them of which some overlap, and two orders."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        edits = []
        for file in draw(st.lists(st.sampled_from(["a.py", "b.py"]), min_size=1, max_size=2, unique=True)):
            row = draw(st.integers(0, ROWS - 1))
            before = draw(st.sampled_from([f"{row}", *(f"{row} by {other}" for other in range(number))]))
            edits.append(Edit(file, f"row {before}\n", f"row {row} by {number}\n"))
        found.append(Patch(f"p{number}", edits=tuple(edits)))
    order = draw(st.permutations(range(len(found))))
    back = draw(st.permutations(range(len(found))))
    return [f"row {row}\n".encode() for row in range(ROWS)], found, order, back


def scene_of(files: dict[str, bytes | None], known: list[Patch]) -> Scene:
    told: dict[str, object] = {"files": {}, "ours": {}, "head": {}}
    return judged(Scene(Package("p", "/p", None), Facts("p"), files, told, {}), known)


@settings(max_examples=300, deadline=None)
@given(stacks())
def test_any_order_of_any_set_reverts_to_the_very_bytes(
    case: tuple[list[bytes], list[Patch], list[int], list[int]],
) -> None:
    rows, known, order, back = case
    start: dict[str, bytes | None] = {"a.py": b"".join(rows), "b.py": b"".join(rows)}
    scene = scene_of(start, known)
    on = []
    for number in order:
        name = known[number].name
        try:
            scene = scene.after(to_on(scene.plan_of(name), False, False), name, True)
        except ConsoleError:
            continue
        on.append(name)
    event(f"{len(on)} on")
    waiting = [known[number].name for number in back if known[number].name in on]
    while waiting:
        for name in waiting:
            try:
                changes = to_off(scene, scene.plan_of(name), False)
                refuse_lower(scene, name, changes)
            except ConflictError:
                continue  # the lower of two
            scene = scene.after(changes, name, False)
            waiting.remove(name)
            break
        else:
            raise AssertionError(f"nothing of {waiting} can go: {[(p.patch.name, p.reason) for p in scene.plans]}")
    assert scene.files == start


@settings(max_examples=300, deadline=None)
@given(stacks())
def test_a_set_is_wholly_on_or_wholly_refused_and_goes_off_at_once(
    case: tuple[list[bytes], list[Patch], list[int], list[int]],
) -> None:
    rows, known, order, _ = case
    start: dict[str, bytes | None] = {"a.py": b"".join(rows), "b.py": b"".join(rows)}
    scene = scene_of(start, known)
    names = [known[number].name for number in order]
    found = planned_set(scene, names)
    event("refused" if found.refused else "on")
    if found.refused:
        assert found.changes == () and found.after is None
        return
    assert found.after is not None
    assert all(set(item.under) <= set(names) for item in found.after.plans)
    assert all(item.under for item in found.after.plans if item.state is not DiskState.ON)
    assert planned_set(found.after, names).changes == ()
    away = planned_set(found.after, (), off=names)
    assert away.after is not None and not away.refused
    assert away.after.files == start


@pytest.fixture
def profile(desk: Desk) -> Profile:
    """A profile whose set names the upper patch first."""
    desk.profile = Profile("p", patches_on=("B", "A", "FAR"))
    return desk.profile


async def test_a_set_goes_on_as_one_write_and_comes_off_with_one_undo(
    desk: Desk, own: Path, package: Path, profile: Profile
) -> None:
    before = sha(package / PATH)
    receipt = await patches.apply_set(desk)
    assert len(receipt.files) == 1 and receipt.round_trips <= 3
    assert [note for note in receipt.notes if note.startswith("apply ")] == [
        f"apply A: {PATH}",
        f"apply FAR: {PATH}",
        f"apply B: {PATH}",
    ]
    journal = (package.parent / ".tokwatt/journal.jsonl").read_text().splitlines()
    assert [json.loads(line)["phase"] for line in journal] == ["begin", "commit", "done"]
    found = {status.name: status for status in await patches.statuses(desk)}
    assert {name for name, status in found.items() if status.disk is DiskState.ON} == {"A", "B", "FAR"}
    assert all(found[name].ours for name in ("A", "B", "FAR"))
    on = sha(package / PATH)
    with pytest.raises(AlreadySoError):
        await patches.apply_set(desk)
    await patches.undo(desk)
    assert sha(package / PATH) == before
    assert not any(status.ours for status in await patches.statuses(desk))
    await patches.undo(desk)
    assert sha(package / PATH) == on
    for name in ("B", "FAR", "A"):  # each by itself, as if it had been written alone
        await patches.revert(desk, name)
    assert sha(package / PATH) == before


async def test_a_set_reaches_its_state_from_a_partial_one_and_exact_takes_others_off(
    desk: Desk, own: Path, package: Path, profile: Profile
) -> None:
    (own / "OTHER.toml").write_text(
        '[[edit]]\nfile = "v1/attention/base.py"\nfind = "class Meta"\nreplace = "class Mete"\n'
    )
    before = sha(package / PATH)
    await patches.apply(desk, "OTHER")
    await patches.apply(desk, "A")
    desk.profile = dataclasses.replace(profile, patches_on=("B", "A"))
    plan = await patches.plan_set(desk)
    assert [step.name for step in plan.steps] == ["B"] and plan.left == ("OTHER",)
    assert [name for name, _ in plan.already] == ["A"]
    receipt = await patches.apply_set(desk, exact=True)
    assert any(note.startswith("revert OTHER") for note in receipt.notes)
    found = {status.name: status.disk for status in await patches.statuses(desk)}
    assert {name for name, disk in found.items() if disk is DiskState.ON} == {"A", "B"}
    await patches.apply_set(desk, off=True)
    assert sha(package / PATH) == before


async def test_a_set_that_does_not_fit_writes_nothing_and_names_each_reason(
    desk: Desk, own: Path, package: Path, profile: Profile
) -> None:
    desk.profile = dataclasses.replace(profile, patches_on=("A", "C", "FAR"))
    before = sha(package / PATH)
    with pytest.raises(ConflictError) as caught:
        await patches.apply_set(desk)
    assert "C conflicts · conflicts with A" in caught.value.detail and "FAR" not in caught.value.detail
    assert sha(package / PATH) == before and not (package.parent / ".tokwatt").exists()


async def test_a_file_that_changed_since_the_plan_was_shown_refuses(
    desk: Desk, own: Path, package: Path, profile: Profile
) -> None:
    plan = await patches.plan_set(desk)
    (package / PATH).write_bytes((package / PATH).read_bytes() + b"# moved on\n")
    with pytest.raises(DriftError, match="changed since the set was looked at"):
        await patches.apply_set(desk, seen=plan)


async def test_after_and_conflicts_with_hold_in_both_directions(desk: Desk, own: Path, package: Path) -> None:
    (own / "late.toml").write_text('after = ["FAR"]\n' + A)
    (own / "never.toml").write_text('conflicts_with = ["FAR"]\n' + A)
    with pytest.raises(ConflictError) as caught:
        await patches.apply(desk, "late")
    assert "goes on after FAR, which is off" in caught.value.detail
    await patches.apply(desk, "FAR")
    with pytest.raises(ConflictError, match="never conflicts"):
        await patches.apply(desk, "never")
    (own / "A.toml").unlink()  # the same edit by another name
    await patches.apply(desk, "late")
    with pytest.raises(ConflictError, match="FAR is needed by late"):
        await patches.revert(desk, "FAR")
    await patches.revert(desk, "late")
    await patches.revert(desk, "FAR")
    (own / "never.toml").write_text('conflicts_with = ["FAR"]\n' + A)
    await patches.apply(desk, "never")
    with pytest.raises(ConflictError) as caught:
        await patches.apply(desk, "FAR")
    assert "conflicts with never" in caught.value.detail


async def test_a_set_needs_a_profile_and_patches_that_are_there(desk: Desk, own: Path) -> None:
    with pytest.raises(UsageError, match="no profile"):
        await patches.plan_set(desk)
    desk.profile = Profile("p", patches_on=("nothing",))
    with pytest.raises(UsageError, match="not found"):
        await patches.plan_set(desk)

"""The patches pane: evidence above the diff, a conflict's three sides, and a profile's set by one key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import console.operations
from console.domain.patch import DiskState, FileChange, ProcessState
from console.domain.text import SafeText
from console.operations.patch_sets import SetPlan
from console.operations.patch_writing import Step
from console.ui.modals.confirm import ConfirmModal
from console.ui.panes.patches import evidence
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

WIDE = (160, 45)


def test_evidence_tells_both_columns_and_warnings() -> None:
    status = replace(
        fakes.patches()[1], reason="at line 3", loaded=ProcessState.NEEDS_RESTART, warnings=("another copy",)
    )
    assert evidence(status) == (
        "on disk    on · at line 3",
        "in process needs restart · communicator.py changed after the server started",
        "mind       another copy",
    )


async def test_a_conflict_is_shown_from_three_sides(cockpit: Bench) -> None:
    sides = tuple(
        SafeText(row) for row in ("!!! m.py: not found", "--- expected", "? old line", "--- wants", "+ new line")
    )
    status = replace(fakes.patches()[3], conflict=sides, disk=DiskState.CONFLICT)
    app, _, _ = cockpit(fakes.snapshot(patches=(status,)))
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("2")
        await until(pilot, lambda: "? old line" in shown(app) and "on disk    conflict" in shown(app))


@pytest.mark.parametrize("on", [False, True])
async def test_one_key_turns_the_profiles_set_on_or_off_after_its_plan_was_shown(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    app, _, _ = cockpit()
    change = FileChange("m.py", "m.py", b"a\n", b"b\n", "1", "2")
    planned = SetPlan((Step("p", "revert" if on else "apply", (change,)),), (change,))
    asked: list[Any] = []

    async def plan_set(desk: object, *, off: bool = False) -> SetPlan:
        return SetPlan() if on and not off else planned

    async def apply_set(desk: object, *, off: bool, seen: SetPlan) -> None:
        asked.append((off, seen))

    monkeypatch.setattr(console.operations.patches, "plan_set", plan_set, raising=False)
    monkeypatch.setattr(console.operations.patches, "apply_set", apply_set, raising=False)
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("2", "a")
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        assert ("take off" if on else "turn on") in shown(app) and "p: m.py" in shown(app)
        assert asked == []
        await pilot.press("y")
        await until(pilot, lambda: asked == [(on, planned)])


@pytest.mark.parametrize(("width", "sides"), [(80, False), (200, True)])
async def test_the_preview_is_the_compare_view_with_two_sides_where_changed_lines_fit(
    cockpit: Bench, width: int, sides: bool
) -> None:
    before = b"".join(b"line %d\n" % number for number in range(40))
    after = before.replace(b"line 20\n", b"line twenty, which is longer than it was before\n")
    change = FileChange("srt/m.py", "srt/m.py", before, after, "1", "2")
    status = replace(fakes.patches()[1], disk=DiskState.OFF, reason="at line 21", changes=(change,))
    app, _, _ = cockpit(fakes.snapshot(patches=(status,)))
    async with app.run_test(size=(width, 45)) as pilot:
        await open_cockpit(pilot)
        await pilot.press("2", "plus")
        await until(pilot, lambda: "line twenty, which is longer than it was before" in shown(app))
        compared = app.cockpit.patches.compared
        assert compared.two_sides is sides
        assert ("- line 20" in shown(app)) is not sides
        assert "on disk" in shown(app)

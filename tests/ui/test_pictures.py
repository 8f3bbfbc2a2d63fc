"""Pictures of states that must not change unnoticed; each test says in a sentence what is to be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from console.domain.host import Host, Link, LinkState
from console.state.store import Snapshot
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, until

Snap = Callable[..., bool]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)


async def _ready(pilot: Pilot[Any]) -> None:
    await open_cockpit(pilot)
    app: Any = pilot.app
    if app.snapshot.run is not None and app.cockpit.log_pane.display:
        log = app.cockpit.log_pane
        await until(pilot, lambda: log.view.count() > 40 and log.view.virtual_size.height == log.view.count())
        await until(pilot, lambda: not log.view._dirty and log.view.scroll_offset.y == log.view.max_scroll_y)
    await until(pilot, lambda: app.cockpit.source.files.count() == 3)


def _keys(*keys: str) -> Callable[[Pilot[Any]], Any]:
    async def press(pilot: Pilot[Any]) -> None:
        await _ready(pilot)
        await pilot.press(*keys)
        await _ready(pilot)
        await pilot.pause()

    return press


def test_wide_cockpit_shows_all_panes(snap_compare: Snap, cockpit: Bench) -> None:
    """Status line, eight GPUs, throughput with target and marks, tree, patches with diff, log."""
    app, _, _ = cockpit()
    assert snap_compare(app, terminal_size=(160, 45), run_before=_ready)


def test_huge_cockpit_uses_the_room(snap_compare: Snap, cockpit: Bench) -> None:
    """The same at 200 × 60, nothing stretched or torn."""
    app, _, _ = cockpit()
    assert snap_compare(app, terminal_size=(200, 60), run_before=_ready)


def test_small_cockpit_shows_patches_alone(snap_compare: Snap, cockpit: Bench) -> None:
    """Compact gauges, tabs, the patches pane over the whole width with the diff below the list."""
    app, _, _ = cockpit()
    assert snap_compare(app, terminal_size=(80, 24), run_before=_keys("2"))


def test_starting_server_grows_a_ladder(snap_compare: Snap, cockpit: Bench) -> None:
    """Done rungs with times, autotune at 50 % after 6:15, graphs still to come."""
    app, _, _ = cockpit(fakes.snapshot(run=fakes.starting()))
    assert snap_compare(app, terminal_size=(120, 40), run_before=_keys("3"))


def test_demo_host_wears_its_badge(snap_compare: Snap, cockpit: Bench) -> None:
    """DEMO at the left end of the status line."""
    app, _, _ = cockpit(fakes.snapshot(host=Host("demo", badge="DEMO")))
    assert snap_compare(app, terminal_size=(120, 40), run_before=_ready)


def test_empty_cockpit_says_what_brings_each_pane(snap_compare: Snap, cockpit: Bench) -> None:
    """No server, no profile, no GPU: every pane has a sentence and a key."""
    app, _, _ = cockpit(Snapshot(host=Host("blackwell"), link=LinkState(Link.UP, 12.2, fakes.MONO)))
    assert snap_compare(app, terminal_size=(160, 45), run_before=_ready)


def test_lost_link_dims_what_is_old(snap_compare: Snap, cockpit: Bench) -> None:
    """A banner with the last sign of life and the next attempt, panes dimmed."""
    app, desk, _ = cockpit()

    async def lose(pilot: Pilot[Any]) -> None:
        await _ready(pilot)
        state = replace(
            desk.link.state, link=Link.LOST, heard_at=fakes.MONO - 4, retry_at=fakes.MONO + 2, error="reset"
        )
        desk.link.state = state
        await until(pilot, lambda: pilot.app.screen.has_class("-stale"))

    assert snap_compare(app, terminal_size=(160, 45), run_before=lose)


def test_light_theme_keeps_its_contrast(snap_compare: Snap, cockpit: Bench) -> None:
    """The wide cockpit on paper."""
    app, _, _ = cockpit()
    assert snap_compare(app, terminal_size=(160, 45), run_before=_keys("ctrl+t"))

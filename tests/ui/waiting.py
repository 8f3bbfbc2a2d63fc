"""Waiting for what a screen will show, on conditions and never on time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot


async def until(pilot: Pilot[Any], true: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Let the app work until a condition holds; what was on the screen instead is told."""
    try:
        async with asyncio.timeout(seconds):
            while not true():
                await pilot.pause()
                await asyncio.sleep(0.01)
    except TimeoutError:
        focus = pilot.app.focused
        raise AssertionError(
            f"not within {seconds:g} s; {focus} has the focus, and on the screen is\n{shown(pilot.app)}"
        ) from None
    await pilot.pause()


def shown(app: App[Any]) -> str:
    """Return the text of the whole screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips(app.size))


async def open_cockpit(pilot: Pilot[Any]) -> None:
    """Wait until panes, tree and log are there."""
    app: Any = pilot.app
    await until(pilot, lambda: app.cockpit.furnished and app.desk is not None and app.cockpit.patches.list.asked)

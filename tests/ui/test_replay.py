"""Replay: the gauges on a run's own time, its gaps shown as gaps, and no host anywhere near."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from console.journal.book import Journal
from console.journal.recordings import KeptMark, append, keep_marks
from console.journal.records import RunEntry
from console.operations import tape as tapes
from console.operations.recording import block_of
from console.operations.tape import Tape
from console.ui import clock
from console.ui.replaying import ReplayApp
from console.ui.screens.replay import ReplayScreen
from console.ui.screens.runs import RunsScreen
from console.ui.widgets.gpus import Gpus
from console.ui.widgets.runs import RunLines
from console.ui.widgets.timeline import Timeline
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

NOW = fakes.NOW
RUN = "2026-12-02-7"
META = {
    "gpus": [[gpu, "NVIDIA RTX PRO 6000 Blackwell", "", 96 * 1024.0] for gpu in range(8)],
    "source": "nvml",
    "speed_source": "/metrics",
    "target_tok_s": 5816.0,
    "target_from": "K2-Thinking on this host",
}


async def record(badge: str = "") -> None:
    """Two stretches of a run with three minutes between them, a measurement in each, a patch before the second."""
    journal = Journal()
    identity = {"patches_on": ["flashinfer-cutlass-autotune"]}
    await journal.record_run(RunEntry(RUN, "blackwell", "glm5-nvfp4", "sglang", NOW - 30, badge, identity))
    for began, speed in ((0, 1950.0), (300, 3740.0)):
        rows = []
        for second in range(120):
            moment, busy = NOW + began + second, 30 <= second < 90
            sample = fakes.gpu_sample(320.0 if busy else 90.0, moment)
            told = replace(
                _speed(), time=moment, output_tok_s=speed if busy else None, running=256 if busy else 0, idle=not busy
            )
            rows.append((sample, told))
        await append(journal, "blackwell", RUN, block_of(rows, META))
        one = replace(
            fakes.measured(256 if not began else 1024, 0, speed), started_at=NOW + began + 30, duration_s=60.0
        )
        await journal.record_measurement("blackwell", one, badge=badge)
    marks = [
        KeptMark(NOW - 30, "restart", f"{RUN} glm5-nvfp4"),
        KeptMark(NOW + 5, "ready", ""),
        KeptMark(NOW + 310, "patch", "apply fusion\x1b[31m"),
    ]
    await keep_marks(journal, "blackwell", RUN, [*marks, KeptMark(NOW + 425, "end", "exited")])


def _speed() -> Any:
    return fakes.snapshot().throughput


async def load() -> Tape:
    entry = await Journal().run(RUN)
    assert entry is not None
    return await tapes.load(entry)


@pytest.fixture
def tape() -> Tape:
    asyncio.run(record())
    return asyncio.run(load())


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on only when a test says so."""
    now = [fakes.MONO]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    return now


def screen_of(pilot: Pilot[Any]) -> ReplayScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ReplayScreen)
    return screen


async def begun(pilot: Pilot[Any]) -> ReplayScreen:
    await until(pilot, lambda: isinstance(pilot.app.screen, ReplayScreen))
    screen = screen_of(pilot)
    await until(pilot, lambda: screen.is_mounted and screen.query(Timeline) and screen.query_one(Timeline).whole)
    return screen


async def test_a_tape_tells_what_the_gauges_showed(tape: Tape) -> None:
    assert (tape.began, tape.ended) == (NOW, NOW + 419) and tape.gaps == ((NOW + 119, NOW + 300),)
    seen = tape.snapshot(NOW + 45)
    assert seen.gpus is not None and seen.gpus.reporting == 8 and seen.gpus.gpus[5].throttle == ("power cap",)
    assert seen.throughput is not None and (seen.throughput.output_tok_s, seen.throughput.running) == (1950.0, 256)
    assert len(seen.gpu_history) == 46 and seen.best_tok_s is None and seen.profile is not None
    assert seen.profile.target.output_tok_s == 5816 and seen.profile.target.origin == "K2-Thinking on this host"
    lost = tape.snapshot(NOW + 200)
    assert lost.gpus is not None and lost.gpus.gpus == () and "no console watched" in lost.gpus.reason
    assert lost.gpu_history == () and lost.best_tok_s == 1950.0
    late = tape.snapshot(NOW + 305)
    assert [mark.kind for mark in late.marks] == ["restart", "measurement"]
    assert any(mark.kind == "ready" for mark in tape.marks)
    assert {moment for moment, _ in late.gpu_history} == {NOW + second for second in range(300, 306)}


async def test_keys_move_on_the_tape_and_nothing_touches_a_host(tape: Tape, watch: list[float]) -> None:
    app = ReplayApp(tape, 10.0)
    async with app.run_test(size=(160, 45)) as pilot:
        screen = await begun(pilot)
        player = screen.player
        assert "REPLAY" in shown(app) and RUN in shown(app)
        watch[0] += 2
        await until(pilot, lambda: player.now == pytest.approx(NOW + 20, rel=0, abs=0.01))
        await pilot.press("space")
        watch[0] += 5
        await pilot.pause()
        assert player.now == pytest.approx(NOW + 20, rel=0, abs=0.01) and "paused" in shown(app)
        await pilot.press("right_square_bracket")
        assert player.now == NOW + 30
        await pilot.press("full_stop", "full_stop")
        assert player.now == NOW + 32
        await pilot.press("comma", "right")
        assert player.now == NOW + 41 and "1,950 tok/s" in shown(app)
        await pilot.press("right_square_bracket", "left_square_bracket")
        assert player.now == NOW + 30
        await pilot.press("greater_than_sign", "greater_than_sign", "less_than_sign")
        assert player.speed == 30.0 and "×30" in shown(app)
        for key, word in (("x", "Server menu"), ("b", "Measure"), ("z", "Undo"), ("exclamation_mark", "Shell")):
            await pilot.press(key)
            said = list(app._notifications)[-1].message
            assert "touches no host" in said and word in said
        await pilot.press("G")
        assert player.now == tape.ended and "at the end" in shown(app)
        await pilot.press("space")
        assert player.now == tape.began and "▶" in shown(app)
        await pilot.press("escape")
    assert app.return_code == 0


async def test_a_gap_is_shown_and_then_passed(tape: Tape, watch: list[float]) -> None:
    app = ReplayApp(tape, 10.0)
    async with app.run_test(size=(160, 45)) as pilot:
        screen = await begun(pilot)
        screen.player.seek(NOW + 118)
        watch[0] += 1
        await until(pilot, lambda: screen.player.now > NOW + 119)
        await until(pilot, lambda: "no console watched this part of the run" in shown(app))
        assert "1 gap, nobody watched" in shown(app) and "╌" in shown(app)

        def passed() -> bool:
            watch[0] += 0.5
            return screen.player.now >= NOW + 300

        await until(pilot, passed)


async def test_the_story_leads_to_its_moments(tape: Tape, watch: list[float]) -> None:
    app = ReplayApp(tape)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await begun(pilot)
        assert "launch" in shown(app) and "\x1b" not in shown(app)
        await pilot.press("space", "3", "G", "k", "k", "enter")
        assert screen.player.now == NOW + 310
        await pilot.press("escape", "4")
        assert screen.query_one(Gpus).display and not screen.query_one(Timeline).display
        await pilot.press("escape")
        assert screen.query_one(Timeline).display


async def test_the_runs_screen_replays_the_run_under_the_cursor(cockpit: Bench) -> None:
    await record("DEMO")
    app, _, _ = cockpit()
    async with app.run_test(size=(160, 45)) as pilot:
        await open_cockpit(pilot)
        await pilot.press("6")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen.query_one(RunLines).rows)
        await pilot.press("r")
        await begun(pilot)
        assert "REPLAY" in shown(app) and "DEMO" in shown(app)
        await pilot.press("escape")
        assert isinstance(app.screen, RunsScreen)


async def test_a_run_that_was_only_measured_replays_its_power() -> None:
    journal = Journal()
    await journal.record_run(RunEntry(RUN, "blackwell", "p", "sglang", NOW - 30))
    power = [[NOW + second, [250.0] * 8] for second in range(5)]
    course = {"bin_s": 1.0, "tokens": [100.0] * 5, "running": [8.0] * 5}
    one = replace(fakes.measured(8, 0, 100.0), started_at=NOW, duration_s=5.0)
    await journal.record_measurement("blackwell", one, telemetry=power, load={"course": course})
    tape = await load()
    assert not tape.recorded
    seen = tape.snapshot(NOW + 2)
    assert seen.gpus is not None and seen.gpus.power_w == 2000.0
    assert seen.throughput is not None and seen.throughput.output_tok_s == 100.0


Snap = Callable[..., bool]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 45)])
def test_pictures(
    snap_compare: Snap, tape: Tape, still: None, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """REPLAY in the first line, gauges of that moment, the whole run with gap, marks and the place, its story."""
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(time, "localtime", time.gmtime)

    async def at_the_load(pilot: Pilot[Any]) -> None:
        screen = await begun(pilot)
        screen.player.playing = False
        screen.player.seek(NOW + 360)
        screen._show()
        await pilot.pause()

    assert snap_compare(ReplayApp(tape), terminal_size=size, run_before=at_the_load)

"""Recording: what a console shows of a run is kept while it lives, once, and every mark of its story."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from console.domain.gpu import GpuSample
from console.domain.run import Failure, RunPhase
from console.errors import ConsoleError
from console.journal.book import Journal, default_path
from console.journal.recordings import blocks_of, marks_of
from console.operations import recording
from console.operations.desk import Desk
from console.state.store import Mark
from tests.ui import fakes

NOW = fakes.NOW


def a_desk(**changes: Any) -> fakes.FakeDesk:
    return fakes.FakeDesk(fakes.snapshot(marks=(), **changes))


async def shown(desk: fakes.FakeDesk, first: int, last: int, **more: Any) -> None:
    """Show samples, a tenth of a second each, as the bridge between host and screen would."""
    for tick in range(first, last):
        time = NOW + tick / 10
        speed = replace(cast(Any, desk.store.snapshot.throughput), time=time - 0.5)
        desk.store.update(gpus=fakes.gpu_sample(300 + tick, time), throughput=speed, **more)
        await asyncio.sleep(0)


async def recorded(desk: fakes.FakeDesk, act: Callable[[], Any]) -> None:
    task = asyncio.create_task(recording.record_runs(cast(Desk, desk)))
    await asyncio.sleep(0)
    await act()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_is_shown_of_a_run_is_kept_with_its_marks() -> None:
    desk = a_desk()

    async def act() -> None:
        await shown(desk, 0, 30)
        marks = (
            Mark(NOW + 1, "patch", "apply p"),
            Mark(NOW + 2, "measurement", "8: 40 tok/s"),
            Mark(NOW - 9999, "patch", "long before"),
        )
        await shown(desk, 30, 50, marks=marks)
        run = replace(fakes.run(RunPhase.FAILED), ended_at=NOW + 5, failure=Failure("out of memory"))
        await shown(desk, 50, 60, run=run)

    await recorded(desk, act)
    (kept,) = await blocks_of(Journal(), "blackwell", "2026-12-02-7")
    block = kept.block()
    assert len(block) == 50  # none after the end
    assert (
        block.value("tok_s", 9) == 3740.0 and block.value("running", 9) == 1024 and block.value("kv_usage", 9) == 0.61
    )
    assert block.value("power_w.3", 49) == pytest.approx(fakes.gpu_sample(349).gpus[3].power_draw_w, abs=0.06)
    assert block.value("throttled.5", 0) == 1 and block.value("throttle.5.power cap", 0) == 1
    assert block.value("throttled.4", 0) == 0 and block.value("temperature_c.2", 0) == 62
    assert block.meta["target_tok_s"] == 5816 and block.meta["gpus"][7][0] == 7
    told = [(mark.kind, mark.text) for mark in await marks_of(Journal(), "blackwell", "2026-12-02-7")]
    assert told == [
        ("restart", "2026-12-02-7 glm5-nvfp4"),
        ("ready", ""),
        ("patch", "apply p"),
        ("end", "out of memory"),
    ]
    (entry,) = await Journal().runs()
    assert (entry.id, entry.profile, entry.measurements) == ("2026-12-02-7", "glm5-nvfp4", ())


async def test_a_console_that_takes_over_goes_on_where_the_other_one_ended() -> None:
    desk = a_desk()
    await recorded(desk, lambda: shown(desk, 0, 30))
    await recorded(desk, lambda: shown(desk, 20, 50))
    kept = await blocks_of(Journal(), "blackwell", "2026-12-02-7")
    times = [time for one in kept for time in one.block().times]
    assert len(times) == 50 and times == sorted(set(times))


async def test_nothing_is_kept_without_a_run_and_of_one_that_has_ended() -> None:
    for run in (None, fakes.run(RunPhase.EXITED)):
        desk = a_desk(run=run)
        await recorded(desk, lambda desk=desk: shown(desk, 0, 20))  # type: ignore[misc]
    assert await Journal().runs() == ()


async def test_a_host_without_gpus_has_its_speed_kept() -> None:
    desk = a_desk(gpus=None)

    async def act() -> None:
        for tick in range(5):
            speed = replace(cast(Any, desk.store.snapshot.throughput), time=NOW + tick)
            desk.store.update(throughput=speed, gpus=GpuSample(NOW + tick, "", reason="no NVML"))
            await asyncio.sleep(0)

    await recorded(desk, act)
    (kept,) = await blocks_of(Journal(), "blackwell", "2026-12-02-7")
    assert kept.rows == 5 and kept.block().value("tok_s", 2) == 3740


async def test_what_is_unknown_stale_or_lost_is_no_number() -> None:
    sample = fakes.gpu_sample()
    gpus = (replace(sample.gpus[0], power_draw_w=None), replace(sample.gpus[1], lost=True, throttle=None))
    speed = replace(cast(Any, fakes.snapshot().throughput), stale=True)
    block = recording.block_of([(replace(sample, gpus=gpus), speed)], {})
    assert block.value("power_w", 0) is None and block.value("power_w.0", 0) is None
    assert block.value("lost.1", 0) == 1 and block.value("throttled.1", 0) is None and block.value("tok_s", 0) is None


async def test_a_clock_that_is_set_back_gives_no_row() -> None:
    rows: list[recording.Row] = [(fakes.gpu_sample(time=NOW + place), None) for place in (0, 1, -5, 2)]
    assert recording.block_of(rows, {}).times == [round((NOW + place) * 1000) for place in (0, 1, 2)]


async def test_a_server_that_is_not_ours_has_a_name_in_the_journal() -> None:
    run = replace(fakes.run(), id="", adopted=False)
    assert recording.journalled_id(run).startswith("attached-30000-2026-")
    assert recording.journalled_id(replace(run, started_at=0.0)) == "attached-30000-unknown"


async def test_a_journal_that_cannot_be_used_is_told_and_ends_nothing_else() -> None:
    default_path().parent.mkdir(parents=True)
    default_path().write_bytes(b"not a database, but long enough to be looked at" * 40)
    desk = a_desk()
    said: list[str] = []
    desk.say = said.append  # type: ignore[attr-defined]
    async with recording.recorded(cast(Desk, desk)):
        await shown(desk, 0, 20)
    assert len(said) == 1 and said[0].startswith("not recorded: ") and "cannot be used" in said[0]
    with pytest.raises(ConsoleError):
        await Journal().runs()

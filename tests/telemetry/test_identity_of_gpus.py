"""GPUs are followed by UUID: cards that are plugged in or fall off move the others' places, not their identity."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from console.domain.diagnosis import Bound
from console.domain.gpu import GpuReading, GpuSample
from console.operations import watch
from console.operations.desk import Desk
from console.operations.diagnosis import Judge
from console.telemetry import sampler
from console.telemetry.readings import Readings

FIELDS = ["index", "uuid", "power.draw", "power.limit", "utilization.gpu"]


def said(time: float, *rows: str) -> bytes:
    return json.dumps({"kind": "smi", "time": time, "fields": FIELDS, "lines": rows, "lost": []}).encode()


def fed(readings: Readings, line: bytes) -> GpuSample:
    sample = readings.feed(line)
    assert sample is not None
    return sample


def test_a_card_plugged_in_before_the_others_moves_their_numbers_only() -> None:
    readings = Readings()
    fed(readings, said(1, "0, GPU-a, 100, 600, 90", "1, GPU-b, 200, 600, 95"))
    after = fed(readings, said(2, "0, GPU-new, 30, 600, 0", "1, GPU-a, 101, 600, 90", "2, GPU-b, 201, 600, 95"))
    assert [(gpu.uuid, gpu.power_draw_w, gpu.lost) for gpu in after.gpus] == [
        ("GPU-new", 30, False),
        ("GPU-a", 101, False),
        ("GPU-b", 201, False),
    ]


def test_a_card_that_falls_off_keeps_its_last_values_and_the_time_of_its_loss() -> None:
    readings = Readings()
    fed(readings, said(1, "0, GPU-a, 100, 600, 90", "1, GPU-b, 200, 600, 95", "2, GPU-c, 300, 600, 99"))
    for time in (2, 3):
        gone = fed(readings, said(time, "0, GPU-a, 100, 600, 0", "1, GPU-c, 70, 600, 0"))
        lost = next(gpu for gpu in gone.gpus if gpu.uuid == "GPU-b")
        assert lost.lost and lost.lost_at == 2 and lost.power_draw_w == 200 and "lost" in lost.reasons["gpu"]
        assert gone.power_w == 170 and gone.reporting == 2
    back = fed(readings, said(9, "0, GPU-a, 100, 600, 0", "1, GPU-b, 60, 600, 0", "2, GPU-c, 70, 600, 0"))
    assert not any(gpu.lost or gpu.lost_at for gpu in back.gpus)
    again = fed(readings, said(12, "0, GPU-a, 100, 600, 0", "2, GPU-c, 70, 600, 0"))
    assert [gpu.lost_at for gpu in again.gpus if gpu.lost] == [12]


def sample(time: float, *uuids: str, watts: float = 240.0) -> GpuSample:
    gpus = tuple(
        GpuReading(
            i, uuid=uuid, power_draw_w=watts + i, power_limit_w=600.0, gpu_util_pct=98.0, max_sm_clock_mhz=2430.0
        )
        for i, uuid in enumerate(uuids)
    )
    return GpuSample(time, "nvml", gpus, received=1.0)


def bound(judge: Judge) -> Bound | None:
    return judge.diagnosis.bound if judge.diagnosis is not None else None


def test_a_verdict_begins_anew_when_the_order_changes() -> None:
    judge = Judge()
    for tick in range(60):
        judge.take(sample(1000 + tick / 10, "GPU-a", "GPU-b"))
    assert bound(judge) is Bound.LINK_LATENCY
    for tick in range(12):
        judge.take(sample(1006 + tick / 10, "GPU-b", "GPU-a"))
    assert bound(judge) is Bound.UNKNOWN


async def test_the_history_of_a_place_is_never_of_two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scripted(link: Any, *, hz: float) -> AsyncGenerator[GpuSample, None]:
        for second in range(4):
            yield sample(1000.0 + second, "GPU-a", "GPU-b")
        yield sample(1004.0, "GPU-new", "GPU-a", "GPU-b", watts=30.0)
        yield sample(1005.0, "GPU-new", "GPU-a", "GPU-b", watts=30.0)

    monkeypatch.setattr(sampler, "samples", scripted)
    desk = Desk(link=cast(Any, None))
    await watch.watch_gpus(desk)
    history = desk.store.snapshot.gpu_history
    assert history and all(len(watts) == 3 for _, watts in history)

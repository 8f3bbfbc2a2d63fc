"""Joules per token and share of the limit: only of readings that belong together."""

from __future__ import annotations

from dataclasses import replace

from console.domain.gpu import GpuReading, GpuSample
from console.domain.throughput import ThroughputSample
from console.telemetry.joined import joules_per_token, share_of_limit, tokens_per_joule

GPUS = GpuSample(
    100.0,
    "nvml",
    (GpuReading(0, power_draw_w=250, power_limit_w=600), GpuReading(1, power_draw_w=350, power_limit_w=600)),
)
SPEED = ThroughputSample(100.5, "/metrics", output_tok_s=1200)


def test_watts_over_tokens() -> None:
    assert joules_per_token(GPUS, SPEED) == 0.5
    assert tokens_per_joule(GPUS, SPEED) == 2
    assert share_of_limit(GPUS) == 0.5


def test_nothing_where_one_side_is_unknown_idle_stale_or_of_another_time() -> None:
    for speed in (
        None,
        replace(SPEED, output_tok_s=None),
        replace(SPEED, output_tok_s=0.0),
        replace(SPEED, idle=True),
        replace(SPEED, stale=True),
        replace(SPEED, time=90.0),
    ):
        assert joules_per_token(GPUS, speed) is None
    partly = replace(GPUS, gpus=(*GPUS.gpus, GpuReading(2)))
    assert joules_per_token(partly, SPEED) is None
    assert joules_per_token(None, SPEED) is None and share_of_limit(None) is None
    assert share_of_limit(GpuSample(0, "", ())) is None

"""Loads that come in bursts are judged by the seconds of work, and rests by themselves."""

from __future__ import annotations

from dataclasses import replace

from console.domain.diagnosis import Bound
from console.domain.gpu import GpuReading, GpuSample
from console.domain.throughput import ThroughputSample
from console.telemetry.diagnosis.judge import diagnose
from console.telemetry.diagnosis.pauses import WINDOW_S, work_of
from console.telemetry.diagnosis.window import window
from tests.telemetry.series import SESSION, START, Load, series

SPIN = Load(spin=0.93, compute=0.05)


def bursts(load: Load, work_s: float, rest_s: float, seconds: float, *, running_in_rests: bool = False) -> tuple[
    list[GpuSample], list[ThroughputSample]
]:  # fmt: skip
    """Return a load that works and rests by turns, beginning with work."""
    gpus, speeds = series(load, seconds=seconds)

    def resting(time: float) -> bool:
        return (time - START) % (work_s + rest_s) >= work_s - 1e-6

    def at_rest(gpu: GpuReading) -> GpuReading:
        return replace(gpu, gpu_util_pct=0.0, mem_util_pct=0.0, power_draw_w=84.0, pcie_tx_mb_s=0.0, pcie_rx_mb_s=0.0)

    samples = [replace(one, gpus=tuple(map(at_rest, one.gpus))) if resting(one.time) else one for one in gpus]
    if running_in_rests:
        return samples, speeds
    idle = [replace(one, idle=True, running=0, output_tok_s=None) if resting(one.time) else one for one in speeds]
    return samples, idle


def test_a_ladder_of_short_rungs_waits_on_all_reduces_too() -> None:
    gpus, speeds = bursts(SPIN, 2.0, 3.0, 20.0)
    found = diagnose(window(gpus, speeds, session=SESSION, nvlink=False))
    assert found.bound is Bound.LINK_LATENCY
    assert "while it works (" in found.sentence and found.window_s >= 3


def test_the_mean_of_work_and_rest_is_no_reading() -> None:
    gpus, speeds = bursts(SPIN, 2.0, 3.0, 20.0)
    seen = window(gpus, speeds, session=SESSION)
    assert (seen.util or 0) > 95 and (seen.power_share or 0) > 0.35
    assert seen.rest_s > 2 and seen.running == 64


def test_work_is_over_after_a_long_rest() -> None:
    gpus, speeds = bursts(SPIN, 5.0, 15.0, 12.0)
    found = diagnose(window(gpus, speeds, session=SESSION))
    assert found.bound is Bound.IDLE


def test_a_short_rest_keeps_the_verdict_and_is_not_yet_idle() -> None:
    gpus, speeds = bursts(SPIN, 6.0, 3.0, 8.0)
    assert speeds[-1].idle
    assert diagnose(window(gpus, speeds, session=SESSION)).bound is Bound.LINK_LATENCY


def test_rests_in_which_requests_run_are_what_is_to_be_found() -> None:
    gpus, speeds = bursts(SPIN, 2.0, 3.0, 20.0, running_in_rests=True)
    seen = window(gpus, speeds, session=SESSION)
    assert seen.rest_s == 0 and (seen.util or 100) < 60
    assert diagnose(seen).bound is Bound.STARVED


def test_pauses_between_steps_are_work() -> None:
    gpus, _ = bursts(SPIN, 0.5, 0.5, 12.0)
    work = work_of(gpus)
    assert work.rest_s == 0 and work.seconds > WINDOW_S - 1


def test_one_burst_that_began_a_moment_ago_says_how_little_was_seen() -> None:
    gpus, speeds = bursts(SPIN, 9.0, 1.0, 2.0)
    rest = [
        replace(one, time=one.time - 5, gpus=tuple(replace(gpu, gpu_util_pct=0.0) for gpu in one.gpus)) for one in gpus
    ]
    found = diagnose(window([*rest, *gpus], speeds, session=SESSION))
    assert found.bound is Bound.UNKNOWN and "of readings" in found.sentence


def test_gpus_that_tell_no_utilisation_are_never_at_rest() -> None:
    gpus, _ = series(SPIN, seconds=12.0)
    blind = [replace(one, gpus=tuple(replace(gpu, gpu_util_pct=None) for gpu in one.gpus)) for one in gpus]
    assert work_of(blind).seconds > WINDOW_S - 1
    assert work_of([]).seconds == 0

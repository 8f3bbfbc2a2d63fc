"""Sums over GPUs of which some are lost or tell only a part, and whose GPUs an engine's numbers mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.domain.gpu import GpuReading, GpuSample, HostLoad, HostProcess, lost_words, visible_gpus
from console.domain.text import SafeText

EIGHT = tuple(
    GpuReading(index, uuid=f"GPU-{index:08x}-70b1", power_draw_w=250.0, power_limit_w=600.0) for index in range(8)
)


def sample(*gpus: GpuReading, devices: str | None = None) -> GpuSample:
    process = HostProcess(40, SafeText("python3 -m sglang.launch_server"), visible_devices=devices)
    return GpuSample(1.0, "nvml", gpus or EIGHT, host=HostLoad(1.0, processes=(process,)))


def test_what_a_lost_gpu_drew_last_is_in_no_sum() -> None:
    one = sample(*EIGHT[:3], replace(EIGHT[3], lost=True))
    assert (one.power_w, one.limit_w, one.reporting, one.headroom_w) == (750.0, 1800.0, 3, 1050.0)


def test_a_peak_above_the_limit_is_no_negative_headroom() -> None:
    """A recorded H200: its 1 s mean 532 W, its instantaneous power 831 W, its limit 700 W."""
    gpu = GpuReading(0, power_draw_w=831.0, power_mean_w=532.0, power_limit_w=700.0)
    one = sample(gpu)
    assert (one.power_w, one.power_mean_w, one.headroom_w) == (831.0, 532.0, 168.0)
    assert sample(replace(gpu, power_mean_w=None)).headroom_w == -131.0


def test_means_are_summed_only_where_every_gpu_tells_one() -> None:
    told = [replace(gpu, power_mean_w=240.0) for gpu in EIGHT]
    assert sample(*told).power_mean_w == 1920.0
    assert sample(*told[:7], EIGHT[7]).power_mean_w is None and sample().power_mean_w is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("4,5,6,7", (4, 5, 6, 7)),
        ("7, 0", (7, 0)),
        ("GPU-00000003,GPU-00000001-70b1", (3, 1)),
        ("gpu-00000003", ()),
        ("GPU-0000000", ()),
        ("2,9,3", (2,)),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("", ()),
        ("MIG-GPU-00000002-70b1/3/0", (2,)),
        ("MIG-11111111-2222-3333-4444-555555555555,1", (None, 1)),
    ],
)
def test_visible_devices_name_indices_uuids_and_instances(said: str, meant: tuple[int | None, ...]) -> None:
    assert visible_gpus(said, EIGHT) == meant


def test_an_engines_gpu_0_may_be_another_here() -> None:
    assert sample(devices="4,5,6,7").engine_gpus == (4, 5, 6, 7)
    assert sample(devices="0,1,2,3,4,5,6,7").engine_gpus == sample(devices=None).engine_gpus == ()
    swapped = tuple(replace(gpu, index=7 - gpu.index) for gpu in EIGHT)  # a card was plugged in: the order is another
    assert sample(*swapped, devices="GPU-00000007-70b1").engine_gpus == (0,)


def test_a_lost_gpu_says_what_to_do_and_what_will_fail() -> None:
    lost = replace(EIGHT[3], lost=True, reasons={"gpu": "GPU is lost"})
    words = lost_words(lost, sample(*EIGHT[:3], lost, *EIGHT[4:]))
    assert words == "GPU is lost; reset it or reboot the host; a launch on more than 7 GPUs will fail"

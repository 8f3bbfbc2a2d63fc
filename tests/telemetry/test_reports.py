"""Files of GPU readings from the field: values, and named unknowns instead of zeros."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.gpu import GpuSample
from console.telemetry.reports import parse_gpu_file

DATA = Path(__file__).parent.parent / "data" / "gpus"


def read(name: str) -> list[GpuSample]:
    return parse_gpu_file((DATA / name).read_bytes())


def test_b01_absent_values_are_unknown_and_a_real_zero_is_zero() -> None:
    first, second = read("B01.csv")
    h200, gtx, v100 = first.gpus
    assert (h200.gpu_util_pct, h200.memory_used_mib, h200.memory_total_mib) == (97, 131072, 143771)
    assert (h200.temperature_c, h200.power_draw_w, h200.power_limit_w, h200.fan_pct) == (64, 612.35, 700, None)
    assert (gtx.gpu_util_pct, gtx.power_draw_w, gtx.power_limit_w, gtx.fan_pct) == (None, None, None, 52)
    assert gtx.reasons["power_draw_w"] == "Not Supported"
    assert (v100.gpu_util_pct, v100.power_draw_w, v100.power_limit_w) == (0, None, 300)
    assert v100.reasons["power_draw_w"] == "N/A"
    assert (first.power_w, first.reporting, len(first.gpus)) == (612.35, 1, 3)
    assert second.gpus == (h200,)


def test_b03_memory_of_a_gpu_without_any_is_the_hosts_and_says_so() -> None:
    (sample,) = read("B03.csv")
    (gpu,) = sample.gpus
    assert (gpu.gpu_util_pct, gpu.temperature_c, gpu.power_draw_w, gpu.power_limit_w) == (96, 58, 31.17, None)
    assert gpu.memory_used_mib is None and gpu.memory_total_mib is None and gpu.unified_memory
    assert gpu.reasons["memory_used_mib"] == "unified memory: host uses 84.9 of 121.7 GiB, GPU processes hold 83066 MiB"
    assert (gpu.index, gpu.pci_bus_id) == (0, "0000000F:01:00.0")
    assert (sample.time, sample.clock) == (0, "2025/11/24 14:14:55.751")


def test_b05_a_gpu_that_fell_off_the_bus_keeps_its_place() -> None:
    before, fault, after = read("B05.txt")
    assert [gpu.gpu_util_pct for gpu in before.gpus] == [99] * 4
    assert not fault.gpus and fault.reason.startswith("GPU 0000:4F:00.0 is lost")
    assert [(gpu.index, gpu.lost) for gpu in after.gpus] == [(0, False), (1, True), (2, False), (3, False)]
    assert [gpu.uuid[-1] for gpu in after.gpus] == ["0", "1", "2", "3"]
    assert [gpu.gpu_util_pct for gpu in after.gpus if not gpu.lost] == [0, 0, 0]
    assert after.gpus[1].uuid.endswith("0001") and after.gpus[1].memory_used_mib == 70010
    assert after.gpus[1].reasons["gpu"].startswith("GPU 0000:4F:00.0 is lost")
    assert after.gpus[1].memory_used_mib == 70010


def test_b06_a_tool_that_fails_is_a_reason_and_no_gpu() -> None:
    samples = read("B06.txt")
    assert [sample.reason for sample in samples] == [
        "driver/library mismatch (535.161): reboot or reload the kernel module",
        "NVML unknown error: often a container that lost its devices",
        "NVIDIA driver not loaded",
        "no GPUs visible",
    ]
    assert not any(sample.gpus for sample in samples)


def test_b08_a_banner_makes_no_row() -> None:
    (sample,) = read("B08.txt")
    values = [
        (gpu.index, str(gpu.name), gpu.gpu_util_pct, gpu.memory_used_mib, gpu.memory_total_mib) for gpu in sample.gpus
    ]
    assert values == [(0, "NVIDIA H100 80GB HBM3", 35, 61234, 81559), (1, "NVIDIA H100 80GB HBM3", 0, 4, 81559)]


def test_b08_with_its_columns_named() -> None:
    names = ("index", "name", "utilization.gpu", "memory.used", "memory.total")
    assert parse_gpu_file((DATA / "B08.txt").read_bytes(), names) == read("B08.txt")


def test_b09_old_and_new_names_of_power() -> None:
    power = [(s.gpus[0].power_draw_w, s.gpus[0].power_mean_w, s.gpus[0].power_limit_w) for s in read("B09.txt")]
    assert power == [(37.29, None, 300), (17.89, None, 300), (63.5, 61.02, 600), (None, None, 250)]


def test_b09_a_transient_error_in_the_table_is_not_a_lost_gpu() -> None:
    (gpu,) = read("B09.txt")[-1].gpus
    assert gpu.reasons["power_draw_w"] == "transient error" and not gpu.lost
    assert (gpu.temperature_c, gpu.memory_used_mib, gpu.memory_total_mib, gpu.gpu_util_pct) == (29, 593, 16160, 0)


def test_the_table_and_the_xml_of_a_real_h200_agree() -> None:
    (table,), (xml,) = read("smi.txt"), read("smi-q.xml")
    for name in (
        "name",
        "power_limit_w",
        "memory_used_mib",
        "memory_total_mib",
        "temperature_c",
        "gpu_util_pct",
        "pstate",
    ):
        assert getattr(table.gpus[0], name) == getattr(xml.gpus[0], name)
    assert (xml.gpus[0].power_draw_w, xml.gpus[0].power_mean_w) == (121.04, 121.13)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_a_fault(data: bytes) -> None:
    assert isinstance(parse_gpu_file(data), list)


@pytest.mark.parametrize("name", ["B01.csv", "B03.csv", "B05.txt", "B08.txt", "B09.txt", "smi-q.xml"])
def test_a_file_cut_anywhere_is_read_without_a_fault(name: str) -> None:
    data = (DATA / name).read_bytes()
    for end in range(0, len(data), max(1, len(data) // 97)):
        for sample in parse_gpu_file(data[:end]):
            assert len({gpu.uuid for gpu in sample.gpus if gpu.uuid}) == len([gpu for gpu in sample.gpus if gpu.uuid])

"""The machine through the real pynvml and a stub NVML, on hosts without `nvidia-smi`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from console.domain.machine import MachineState, link_words
from console.operations.desk import Desk
from console.operations.machine import look
from console.remote.link import HostLink
from console.telemetry.machine import nvml_said, with_nvml


async def looked(link: HostLink) -> MachineState:
    return with_nvml(MachineState(kernel="Linux 6.8"), await nvml_said(link))


async def test_nvml_tells_paths_peers_and_what_is_set(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    state = await looked(link)
    topology, gpu = state.topology, state.gpus[5]
    assert (state.source, state.driver, state.cuda, state.kernel) == ("nvml", "580.0.0", "13.0", "Linux 6.8")
    assert (topology.path(0, 1), topology.path(0, 2), topology.path(0, 4)) == ("PIX", "NODE", "SYS")
    assert topology.peer("read", 0, 3) == "OK" and topology.peer("read", 0, 4) == "CNS"
    assert topology.peer("nvlink", 0, 1) == "NS" and topology.nvlink is False
    assert (gpu.pcie_width, gpu.pcie_width_max, gpu.pstate, gpu.ecc) == (8, 16, "P0", True)
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected, gpu.ecc_uncorrected_ever) == (0, 10, 11)
    assert (gpu.app_clock_mhz, gpu.sm_clock_max_mhz, gpu.compute_mode, gpu.vbios) == (
        2300.0,
        2430.0,
        "Default",
        "98.02",
    )
    assert link_words(gpu) == ("x8 gen5, below its best (x16 gen5): 8 of 16 lanes", True)
    assert state.gpus[6].persistence is False and state.gpus[0].persistence is True


async def test_links_to_a_switch_lead_to_every_gpu(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "nvlinks=18")
    topology = (await looked(link)).topology
    assert topology.kinds == ("NV18",) and topology.nvlink is True and len(topology.paths) == 56


async def test_a_gpu_off_the_bus_and_what_a_card_lacks_are_unknown(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv("STUB_NVML", "lost=3 noecc")
    state = await looked(link)
    assert state.topology.path(0, 3) == "" and state.topology.path(0, 2) == "NODE"
    assert state.gpus[3].power_enforced_w is None and state.gpus[3].reasons["power_enforced_w"] == "not told by NVML"
    assert state.gpus[0].ecc is None and state.gpus[0].ecc_corrected is None


async def test_without_nvml_there_is_a_reason(
    link: HostLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nvml: pytest.MonkeyPatch
) -> None:
    nvml.setenv("STUB_NVML", "noinit=9")
    assert "Driver Not Loaded" in (await nvml_said(link))["reason"]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert (await nvml_said(link))["reason"].startswith("NVML: ")


async def test_a_desk_without_nvidia_smi_looks_through_nvml(link: HostLink, nvml: pytest.MonkeyPatch) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has an nvidia-smi")
    desk = Desk(link=link)
    state = await look(desk)
    assert state.source == "nvml" and desk.store.snapshot.machine is state
    assert state.kernel.startswith("Linux") and len(state.gpus) == 8
    nvml.setenv("STUB_NVML", "noinit=9")
    blind = await look(desk)
    assert not blind.driver and "no nvidia-smi on this host; NVIDIA driver not loaded" in blind.reason

"""What `nvidia-smi topo` prints, from drivers old and new, and what a host says of its machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.telemetry.machine import machine_state
from console.telemetry.topology import parse_file, parse_peers, parse_topology

DATA = Path(__file__).parent.parent / "data" / "topology"


def text_of(name: str) -> str:
    return (DATA / name).read_text()


def test_a_real_host_with_one_gpu_has_no_path_to_another() -> None:
    found = parse_topology(text_of("h200-one.txt"))
    assert found.gpus == (0,) and not found.paths and not found.reason
    assert found.cpus == {0: "0-15"} and found.numa == {0: "0"}
    assert found.nvlink is None and found.digest == ""


def test_a_header_that_runs_together_is_read_by_counting() -> None:
    found = parse_topology(text_of("old-driver.txt"))
    assert found.gpus == tuple(range(8)) and found.nics == ("mlx5_0", "mlx5_2", "mlx5_1", "mlx5_3")
    assert found.path(0, 4) == "NV1" and found.path(0, 5) == "SOC" and found.path(7, 3) == "NV1"
    assert found.paths["GPU2", "mlx5_1"] == "PIX" and found.paths["mlx5_3", "GPU4"] == "PHB"
    assert found.cpus[0] == "0-19,40-59" and not found.numa
    assert found.kinds == ("NV1", "SOC") and found.nvlink is True


def test_words_glued_by_a_paste_are_told_apart() -> None:
    found = parse_topology(text_of("glued.txt"))
    assert found.gpus == (0, 1, 2, 3) and found.nics == tuple(f"NIC{place}" for place in range(5))
    assert found.paths["GPU0", "NIC2"] == "NODE" == found.paths["GPU0", "NIC3"]
    assert found.paths["GPU3", "NIC2"] == "PIX" and found.paths["GPU3", "NIC3"] == "NODE"
    assert found.paths["NIC2", "NIC3"] == "PIX" and found.paths["NIC4", "GPU3"] == "PIX"
    assert found.nic_names["NIC2"] == "mlx5_bond_0" and found.nic_names["NIC3"] == "rocep33s0f0"
    assert found.cpus[3] == "56-111,168-223" and found.numa[3] == "1"
    assert len(found.paths) == 9 * 8


def test_an_underlined_header_with_tabs_is_a_header() -> None:
    found = parse_topology(text_of("underlined.txt"))
    assert found.gpus == tuple(range(6)) and found.kinds == ("PIX", "PXB", "NODE", "SYS")
    assert found.path(4, 5) == "PXB" and found.numa[5] == "1" and found.cpus[4] == "24-47,72-95"
    assert found.nvlink is False


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161",
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tQQQ\t0-3\nGPU1\tQQQ\t X \t0-3\n",
        "",
    ],
)
def test_a_text_without_a_matrix_is_a_reason(text: str) -> None:
    found = parse_topology(text)
    assert not found.gpus and not found.paths and found.reason


def test_peers_say_who_reaches_whom() -> None:
    found = parse_file(text_of("peers.txt"))
    assert found.gpus == (0, 1, 2, 3) and set(found.peers) == {"read", "write", "nvlink"}
    assert found.peer("read", 0, 1) == "OK" and found.peer("read", 0, 2) == "CNS"
    assert found.peer("write", 3, 0) == "GNS" and found.peer("nvlink", 1, 0) == "NS"
    assert found.peers_ok("read") is False and found.peers_ok("write") is False
    assert (0, 0) not in found.peers["read"]


def test_peers_of_a_text_without_a_matrix_are_none() -> None:
    assert parse_peers("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n") == {}


def test_a_digest_follows_what_is_joined_how() -> None:
    first, other = parse_topology(text_of("underlined.txt")), parse_topology(text_of("glued.txt"))
    again = parse_topology(text_of("underlined.txt").replace("\t", "    "))
    assert first.digest == again.digest != other.digest and len(first.digest) == 12


FIELDS = ["index", "uuid", "name", "pci.bus_id", "driver_version", "pstate", "persistence_mode", "power.limit",
          "enforced.power.limit", "power.default_limit", "ecc.mode.current", "ecc.errors.uncorrected.volatile.total",
          "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max"]  # fmt: skip


def said(rows: str, **more: Any) -> dict[str, Any]:
    smi: dict[str, Any] = {"query": {"status": 0, "text": rows, "fields": FIELDS}, "topo": {"status": 0, "text": ""}}
    smi |= {"banner": {"status": 0, "text": "| NVIDIA-SMI 580.1   Driver Version: 580.1   CUDA Version: 13.0 |"}}
    return {"kernel": "Linux 6.8", "governor": "performance", "numa": {"0": "0-31"}, "cards": [], "smi": smi | more}


ROW = "0, GPU-a, NVIDIA H200, 00000000:4F:00.0, 580.1, P0, Enabled, 700.00, 600.00, 700.00, Enabled, 0, 5, 5, 16, 16\n"


def test_a_host_tells_driver_limits_and_links() -> None:
    state = machine_state(said(ROW) | {"cards": [{"bus": "0000:4f:00.0", "numa_node": "1"}]})
    gpu = state.gpus[0]
    assert state.source == "nvidia-smi" and state.driver == "580.1" and state.cuda == "13.0"
    assert gpu.power_requested_w == 700.0 and gpu.power_enforced_w == 600.0 and gpu.numa_node == 1
    assert gpu.ecc is True and gpu.ecc_uncorrected == 0 and gpu.persistence is True
    assert gpu.app_clock_mhz is None and gpu.reasons["app_clock_mhz"] == "this driver does not know the field"


def test_unknown_cells_are_named_unknowns() -> None:
    row = ROW.replace("Enabled, 700.00, 600.00", "[N/A], [Not Supported], ERR!").replace("Enabled, 0,", "N/A, [N/A],")
    gpu = machine_state(said(row)).gpus[0]
    assert gpu.persistence is None and gpu.reasons["persistence"] == "N/A"
    assert gpu.power_requested_w is None and gpu.reasons["power_requested_w"] == "Not Supported"
    assert gpu.power_enforced_w is None and gpu.reasons["power_enforced_w"] == "ERR!"
    assert gpu.ecc is None and gpu.ecc_uncorrected is None


def test_without_nvidia_smi_the_kernel_tells_links_and_a_reason_stands_beside() -> None:
    card = {"bus": "0000:4f:00.0", "numa_node": "-1", "current_link_speed": "16.0 GT/s PCIe",
            "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "8", "max_link_width": "16"}  # fmt: skip
    state = machine_state({"kernel": "Linux 6.8", "cards": [card], "smi": None})
    gpu = state.gpus[0]
    assert state.source == "sysfs" and state.reason == state.topology.reason == "no nvidia-smi on this host"
    assert (gpu.pcie_gen, gpu.pcie_gen_max, gpu.pcie_width, gpu.pcie_width_max) == (4, 5, 8, 16)
    assert gpu.numa_node is None


def test_a_failing_driver_is_a_reason_and_no_gpu() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"
    state = machine_state(said(text, topo={"status": 18, "text": text}))
    assert not state.gpus and state.reason == "driver/library mismatch (535.161): reboot or reload the kernel module"


def test_a_command_that_hangs_leaves_its_reason() -> None:
    hung = {"status": None, "text": "", "reason": "no answer within 25 s"}
    state = machine_state(said(ROW, topo=hung, r=hung))
    assert state.gpus and state.topology.reason == "no answer within 25 s"
    assert not state.topology.peers


def test_a_real_host_with_one_gpu_has_no_peer_and_no_escape_leaves_the_text() -> None:
    peers = {"status": 0, "text": text_of("h200-one-p2p.txt")}
    state = machine_state(said(ROW, topo={"status": 0, "text": text_of("h200-one.txt")}, r=peers))
    assert state.topology.gpus == (0,) and state.topology.peer_reason == "one GPU: no peer"
    unread = machine_state(said(ROW, topo={"status": 0, "text": ""}, r=peers))
    assert unread.topology.peer_reason == "GPU0"


def test_a_real_host_answers_everything_that_is_asked() -> None:
    """One H200, driver 580.159.04: no field is unknown to it, and one GPU has no peers."""
    state = machine_state(json.loads((DATA / "h200-machine.json").read_text()))
    gpu = state.gpus[0]
    assert (state.driver, state.cuda, state.source) == ("580.159.04", "13.0", "nvidia-smi")
    assert (gpu.power_enforced_w, gpu.power_min_w, gpu.power_max_w) == (700.0, 200.0, 700.0)
    assert (gpu.pcie_gen, gpu.pcie_gen_max, gpu.pcie_gen_gpu_max, gpu.pcie_width) == (5, 5, 5, 16)
    assert (gpu.app_clock_mhz, gpu.sm_clock_max_mhz, gpu.ecc, gpu.ecc_uncorrected_ever) == (1980.0, 1980.0, True, 0)
    assert not gpu.reasons and gpu.vbios and gpu.compute_mode == "Default" and gpu.mig is False
    assert state.topology.gpus == (0,) and state.topology.peer_reason == "one GPU: no peer"

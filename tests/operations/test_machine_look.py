"""The machine looked at through `nvidia-smi`: in one round trip, or command by command on a host without Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.operations.desk import Desk
from console.operations.machine import look
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.remote.test_shell_mode import bare, bin_folder

__all__ = ["bare", "bin_folder"]

SMI = r"""#!/bin/sh
case "$1 $2" in
"topo -m") printf '\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n' ;;
"topo -p2p") printf ' \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n' ;;
--query-gpu*)
  for i in 0 1; do
    echo "$i, GPU-$i, NVIDIA L40S, 00000000:0$i:00.0, 570.1, P0, Enabled, 350.00, 300.00, 350.00, Enabled, 4, 4, 8, 16, 2520, 2520"
  done ;;
*) echo "| NVIDIA-SMI 570.1  Driver Version: 570.1  CUDA Version: 12.8 |" ;;
esac
"""


async def test_topology_limits_and_links_are_told_all_the_same(bare: HostLink, bin_folder: Path) -> None:
    (bin_folder / "nvidia-smi").write_text(SMI)
    (bin_folder / "nvidia-smi").chmod(0o755)
    state = await look(Desk(bare))
    assert (state.source, state.driver, state.cuda) == ("nvidia-smi", "570.1", "12.8")
    assert state.topology.path(0, 1) == "PHB" and state.topology.peer("read", 0, 1) == "GNS"
    gpu = state.gpus[1]
    assert (gpu.power_requested_w, gpu.power_enforced_w, gpu.pcie_width, gpu.pcie_width_max) == (350, 300, 8, 16)


async def test_without_the_tool_there_is_a_reason(bare: HostLink) -> None:
    state = await look(Desk(bare))
    assert not state.gpus and state.reason == "no nvidia-smi on this host"


async def test_one_round_trip_with_python_and_a_field_that_the_driver_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = SMI.replace(
        "--query-gpu*)",
        "--query-gpu*gpumax*) printf 'Field \"pcie.link.gen.gpumax\" is not a valid field to query.\\n\\n' ; exit 2 ;;\n"
        "--query-gpu*)\n  for f in $(echo \"${1#*=}\" | tr ',' ' '); do v=x; case $f in index) v=0 ;; *driver*) v=570.1 ;;"
        ' *width.current) v=8 ;; esac; printf "%s$v" "$c"; c=", "; done; echo; exit 0 ;;\n--never)',
    )
    (tmp_path / "nvidia-smi").write_text(strict)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    link = HostLink(LocalTransport())
    await link.connect()
    try:
        before = link.round_trips
        state = await look(Desk(link))
        assert link.round_trips == before + 1
    finally:
        await link.close()
    assert state.driver == "570.1" and state.gpus[0].pcie_width == 8
    assert state.gpus[0].reasons["pcie_gen_gpu_max"] == "this driver does not know the field"
    assert state.topology.path(1, 0) == "PHB" and state.topology.peers_ok("write") is False

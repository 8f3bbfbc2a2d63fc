"""`tokwatt gpus --topology`: how the GPUs are joined and what they are set to, as text and as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

from console.cli.output import read_file
from console.domain.machine import GpuState, MachineState, link_words
from console.domain.topology import Topology

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.operations.desk import Desk


async def topology_of(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print topology and state of the host's GPUs, or of a file; 1 when there is nothing to tell."""
    from console.operations import machine
    from console.operations.machine_words import machine_lines

    if args.file is not None:
        state = MachineState(topology=machine.parse_file(read_file(args.file).decode("utf-8", "replace")))
    else:
        assert desk is not None
        state = await machine.look(desk)
    if out.json:
        out.document(**plain_machine(state))
    else:
        width = shutil.get_terminal_size((100, 40)).columns
        for line, kind in machine_lines(state, width):
            out.line(f"  {line}" if kind == "note" else f"! {line}" if kind == "warn" else line)
    return 0 if state.gpus or state.topology.gpus else 1


def plain_machine(state: MachineState) -> dict[str, Any]:
    """Return a machine's state as the shell's JSON has it."""
    return {
        "source": state.source or state.topology.source,
        "driver": state.driver or None,
        "cuda": state.cuda or None,
        "kernel": state.kernel or None,
        "governor": state.governor or None,
        "numa": {str(node): cores for node, cores in state.numa.items()},
        "reason": state.reason or None,
        "topology": plain_topology(state.topology),
        "gpus": [_plain_gpu(gpu) for gpu in state.gpus],
    }


def plain_topology(topology: Topology) -> dict[str, Any]:
    """Return paths and peers: `paths.GPU0.GPU1`, `peers.read.GPU0.GPU1`."""
    paths: dict[str, dict[str, str]] = {}
    for (a, b), word in topology.paths.items():
        paths.setdefault(a, {})[b] = word
    peers: dict[str, dict[str, dict[str, str]]] = {}
    for access, table in topology.peers.items():
        for (one, other), word in table.items():
            peers.setdefault(access, {}).setdefault(f"GPU{one}", {})[f"GPU{other}"] = word
    return {
        "gpus": list(topology.gpus),
        "nics": [{"name": name, "device": topology.nic_names.get(name)} for name in topology.nics],
        "paths": paths,
        "peers": peers,
        "peers_ok": {access: topology.peers_ok(access) for access in topology.peers},
        "nvlink": topology.nvlink,
        "cpu_affinity": {f"GPU{index}": cores for index, cores in topology.cpus.items()},
        "numa_affinity": {f"GPU{index}": node for index, node in topology.numa.items()},
        "digest": topology.digest or None,
        "reason": topology.reason or None,
        "peer_reason": topology.peer_reason or None,
    }


def _plain_gpu(gpu: GpuState) -> dict[str, Any]:
    link, below = link_words(gpu)
    values = {item.name: getattr(gpu, item.name) for item in dataclasses.fields(gpu) if item.name != "reasons"}
    unknown = {name: gpu.reasons.get(name) or "not told" for name, value in values.items() if value in (None, "")}
    return {
        **{name: None if value == "" else value for name, value in values.items()},
        "link": link,
        "link_below_best": below,
        "reasons": unknown,
    }

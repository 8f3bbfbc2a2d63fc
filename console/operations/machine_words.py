"""A machine's state as rows of words, alike on screen and in a shell."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from console.domain.machine import GpuState, MachineState, link_words
from console.domain.text import dash
from console.domain.topology import PEERS, Topology, path_words

Line = tuple[str, str]
"""Text, and what it is: `head`, `row`, `note` or `warn`."""


def machine_lines(state: MachineState, width: int = 80) -> list[Line]:
    """Return everything, in lines of at most `width` cells where they can be broken."""
    found: list[Line] = []
    host = [
        f"driver {state.driver}" if state.driver else "",
        f"CUDA {state.cuda}" if state.cuda else "",
        f"NCCL {state.nccl}" if state.nccl else "",
        f"kernel {state.kernel}" if state.kernel else "",
        f"governor {state.governor}" if state.governor else "governor not told",
    ]
    if state.driver or state.kernel:
        found.append((" · ".join(part for part in host if part), "row"))
    if state.reason:
        found.append((f"GPUs: {state.reason}", "warn"))
    found += topology_lines(state.topology, width)
    if state.gpus:
        found += [("", "row"), *gpu_lines(state.gpus)]
    return [(part, kind) for text, kind in found for part in _broken(text, kind, width)]


def _broken(text: str, kind: str, width: int) -> list[str]:
    """Return a sentence in lines that fit with their mark; tables stay as they are."""
    if kind not in ("note", "warn") or len(text) <= width - 2:
        return [text]
    return textwrap.wrap(text, max(20, width - 2), subsequent_indent="  ")


def topology_lines(topology: Topology, width: int = 80) -> list[Line]:
    """Return the matrix of paths with its legend, and what is to be said of peers."""
    if not topology.gpus:
        found: list[Line] = [(f"topology: {topology.reason or 'not known'}", "warn")]
        return [*found, *_peer_lines(topology, width)] if topology.peers else found
    found = []
    if len(topology.gpus) == 1:
        found.append(("one GPU: no path to another", "row"))
    elif topology.paths:
        found += _matrix(topology.gpus, topology.path, width)
    found += [(f"{word} = {path_words(word)}", "note") for word in topology.kinds]
    for index in topology.gpus:
        near = _near(topology, index)
        if near:
            found.append((near, "note"))
    return [*found, *_peer_lines(topology, width)]


def _near(topology: Topology, index: int) -> str:
    """Return the network cards next to a GPU, where there are any."""
    nics = [name for name in topology.nics if topology.paths.get((f"GPU{index}", name)) in ("PIX", "PXB")]
    if not nics:
        return ""
    shown = ", ".join(topology.nic_names.get(name, name) for name in nics[:4])
    return f"GPU {index}: near {shown}" + (f" and {len(nics) - 4} more" if len(nics) > 4 else "")


def _peer_lines(topology: Topology, width: int) -> list[Line]:
    if len(topology.gpus) < 2:
        return []
    if not topology.peers:
        return [(f"peer access: not known ({topology.peer_reason or 'not asked'})", "note")]
    found: list[Line] = []
    good = [name for name in topology.peers if name != "nvlink" and topology.peers_ok(name)]
    if good:
        found.append((f"peer access: {' and '.join(good)} work between all GPUs", "row"))
    for name, table in topology.peers.items():
        if name in good:
            continue
        words = set(table.values())
        if len(words) == 1 and name != "nvlink":
            word = words.pop()
            found.append(
                (
                    f"peer {name}: {word} between all GPUs, {PEERS.get(word, word)}: copies go through host memory",
                    "warn",
                )
            )
        elif words != {"OK"} and name == "nvlink":
            told = "none" if "OK" not in words else "between some GPUs only"
            found.append((f"peer access over NVLink: {told}", "note"))
        elif name == "nvlink":
            found.append(("peer access over NVLink: between all GPUs", "row"))
        else:
            found.append((f"peer {name}, from row to column:", "warn"))
            found += _matrix(topology.gpus, partial(topology.peer, name), width)
            found += [(f"{word} = {PEERS.get(word, word)}", "note") for word in sorted(words)]
    return found


def _matrix(gpus: Sequence[int], word: Callable[[int, int], str], width: int) -> list[Line]:
    """Return a square of words; one too wide is told in blocks of columns."""
    cell = max(5, *(len(word(a, b)) + 1 for a in gpus for b in gpus))
    most = max(1, (width - 7) // cell)
    found: list[Line] = []
    for begin in range(0, len(gpus), most):
        columns = gpus[begin : begin + most]
        found.append(("      " + "".join(f"{f'GPU{b}':>{cell}}" for b in columns), "head"))
        for a in gpus:
            cells = ("·" if a == b else word(a, b) or "—" for b in columns)
            found.append((f"{f'GPU{a}':<6}" + "".join(f"{text:>{cell}}" for text in cells), "row"))
    return found


HEAD = f"{'GPU':<4}{'link':<9}{'best':<9}{'NUMA':>4} {'limit W':>7} {'asked':>5} {'default':>7} {'SM MHz':>6} {'set':>5} {'best':>6} ECC"


def gpu_lines(gpus: Sequence[GpuState]) -> Iterator[Line]:
    """Yield a row a GPU, and a sentence for what is not as it should be."""
    yield HEAD.rstrip(), "head"
    for gpu in gpus:
        yield _gpu_row(gpu), "row"
    for gpu in gpus:
        for text, bad in _remarks(gpu):
            yield f"GPU {gpu.index}: {text}", "warn" if bad else "note"
    yield from _persistence(gpus)


def _gpu_row(gpu: GpuState) -> str:
    now = f"x{dash(gpu.pcie_width)} gen{dash(gpu.pcie_gen)}"
    best = f"x{dash(gpu.pcie_width_max)} gen{dash(gpu.pcie_gen_max)}"
    if gpu.ecc is None:
        ecc = "—"
    elif not gpu.ecc:
        ecc = "off"
    else:
        ecc = f"on {dash(gpu.ecc_corrected)}/{dash(gpu.ecc_uncorrected)}"
    return (
        f"{gpu.index:<4}{now:<9}{best:<9}{dash(gpu.numa_node):>4} {dash(gpu.power_enforced_w):>7}"
        f" {dash(gpu.power_requested_w):>5} {dash(gpu.power_default_w):>7} {dash(gpu.sm_clock_mhz):>6}"
        f" {dash(gpu.app_clock_mhz):>5} {dash(gpu.sm_clock_max_mhz):>6} {ecc}"
    ).rstrip()


def _remarks(gpu: GpuState) -> Iterator[tuple[str, bool]]:
    link, bad = link_words(gpu)
    if bad or "slot" in link:
        yield f"link {link}", bad
    asked, enforced, default = gpu.power_requested_w, gpu.power_enforced_w, gpu.power_default_w
    if asked and enforced and enforced < asked - 0.5:
        yield f"power limit {enforced:,.0f} W in force, {asked:,.0f} W asked for", True
    elif enforced and default and abs(enforced - default) >= 0.5:
        yield f"power limit {enforced:,.0f} W, default {default:,.0f} W", enforced < default
    if gpu.app_clock_mhz and gpu.app_clock_default_mhz and gpu.app_clock_mhz != gpu.app_clock_default_mhz:
        yield f"application clock {gpu.app_clock_mhz:,.0f} MHz, default {gpu.app_clock_default_mhz:,.0f}", True
    if gpu.ecc_uncorrected:
        yield f"{gpu.ecc_uncorrected} uncorrected memory errors since the driver was loaded", True
    if gpu.ecc_pending is not None and gpu.ecc is not None and gpu.ecc_pending != gpu.ecc:
        yield f"ECC will be {'on' if gpu.ecc_pending else 'off'} after the next reset", True
    if gpu.mig:
        yield "MIG is on: parted into instances", False


def _persistence(gpus: Sequence[GpuState]) -> Iterator[Line]:
    off = [str(gpu.index) for gpu in gpus if gpu.persistence is False]
    if off:
        whose = "all GPUs" if len(off) == len(gpus) else f"GPU {', '.join(off)}"
        yield f"persistence mode is off on {whose}: the driver is unloaded when nobody uses them", "note"

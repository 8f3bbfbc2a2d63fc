"""`nvidia-smi topo` as it is printed by drivers old and new: paths, peers, processors near each GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from console.domain.text import strip_sequences
from console.domain.topology import ACCESS, PEERS, Topology

_DEVICE = re.compile(r"(?:GPU|NIC)\d+|mlx\d+_(?:bond_)?\d+|[a-z][a-z0-9]*_\d+")
_GPU = re.compile(r"GPU(\d+)$")
_PATH = re.compile(r"NV\d+|NODE|SYS|SOC|PHB|PXB|PIX|PXN|NPH|X")
_TAIL = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|NUMA ID")
_NIC_NAME = re.compile(r"^\s*(NIC\d+):\s*(\S+)")
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+([rwnap])")
_PEER = re.compile("|".join(sorted((*PEERS, "X"), key=len, reverse=True)))


def parse_topology(text: str) -> Topology:
    """Return the matrix of `nvidia-smi topo -m`; a text without one is a topology with the reason.

    Columns are counted, not aligned: headers of old drivers run together (`GPU0GPU1`), and so do words where a
    terminal or a paste lost a blank (`NODEPIX`).
    """
    lines = strip_sequences(text).replace("\r", "").split("\n")
    place, columns, tail = _header(lines)
    if not columns:
        return Topology(reason=_why(lines, "no matrix in what nvidia-smi topo -m says"))
    found = _Matrix(columns, tail)
    for line in lines[place + 1 :]:
        if line.strip().startswith("Legend"):
            break
        found.take(line)
    names = {match[1]: match[2] for line in lines if (match := _NIC_NAME.match(line))}
    if not found.rows:
        return Topology(reason="nvidia-smi topo -m has a header and no row that can be read")
    return Topology(
        gpus=tuple(int(name[3:]) for name in columns if _GPU.match(name)),
        nics=tuple(name for name in columns if not _GPU.match(name)),
        paths=found.paths,
        cpus=found.cpus,
        numa=found.numa,
        nic_names=names,
        source="nvidia-smi",
    )


def parse_peers(text: str) -> dict[tuple[int, int], str]:
    """Return one matrix of `nvidia-smi topo -p2p`; empty where the text has none."""
    columns: list[int] = []
    found: dict[tuple[int, int], str] = {}
    for line in strip_sequences(text).replace("\r", "").split("\n"):
        if line.strip().startswith("Legend"):
            break
        words = line.split()
        if not columns:
            glued = [int(number) for number in re.findall(r"GPU(\d+)", line)]
            if glued and not re.sub(r"GPU\d+|\s", "", line):
                columns = glued
            continue
        row = _GPU.match(words[0]) if words else None
        if row is None:
            continue
        cells = _PEER.findall(" ".join(words[1:]))
        if len(cells) == len(columns):
            found |= {(int(row[1]), column): cell for column, cell in zip(columns, cells, strict=True) if cell != "X"}
    return found


def parse_file(text: str) -> Topology:
    """Return what a file that somebody sent tells: `topo -m`, and `topo -p2p` matrices in it, each under its command.

    A matrix of peers without its command line is that of reading.
    """
    found = parse_topology(text)
    peers: dict[str, dict[tuple[int, int], str]] = {}
    access, block = "read", [""]
    for line in [*strip_sequences(text).split("\n"), "Legend"]:
        asked = _COMMAND.search(line)
        if asked:
            access = ACCESS.get(asked[1][0], "read")
        if line.strip().startswith("Legend") or asked:
            table = parse_peers("\n".join(block))
            if table and access not in peers:
                peers[access] = table
            block = []
        else:
            block.append(line)
    gpus = found.gpus or tuple(sorted({pair[0] for table in peers.values() for pair in table}))
    source = found.source or ("nvidia-smi" if peers else "")
    return replace(found, gpus=gpus, peers=peers, source=source, peer_reason="" if peers else "not in this file")


def _header(lines: Sequence[str]) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Return where the matrix begins, the devices of its columns, and the names of what follows them."""
    for place, line in enumerate(lines):
        tail = tuple(_TAIL.findall(line))
        devices = _TAIL.split(line)[0]
        found = tuple(_DEVICE.findall(devices))
        rest = _DEVICE.sub("", devices).strip()
        if found and not rest and (tail or len(found) > 1 or found[0] == "GPU0") and found[0].startswith("GPU"):
            return place, found, tail
    return 0, (), ()


class _Matrix:
    """Rows as they come."""

    def __init__(self, columns: tuple[str, ...], tail: tuple[str, ...]) -> None:
        self._columns, self._tail = columns, tail
        self.rows = 0
        self.paths: dict[tuple[str, str], str] = {}
        self.cpus: dict[int, str] = {}
        self.numa: dict[int, str] = {}

    def take(self, line: str) -> None:
        """Take one line; what is no row of a known device is passed over."""
        name, _, rest = line.strip().partition("\t") if "\t" in line.strip() else line.strip().partition(" ")
        name = name.strip()
        if name not in self._columns:
            return
        cells: list[str] = []
        while len(cells) < len(self._columns):
            rest = rest.lstrip()
            match = _PATH.match(rest)
            if match is None:
                return  # a word that we do not know: no cell of this row can be trusted
            cells.append(match[0])
            rest = rest[match.end() :]
        self.rows += 1
        self.paths |= {(name, other): cell for other, cell in zip(self._columns, cells, strict=True) if cell != "X"}
        gpu = _GPU.match(name)
        if gpu is not None:
            self._take_tail(int(gpu[1]), rest)

    def _take_tail(self, gpu: int, rest: str) -> None:
        words = rest.split()
        told = dict(zip(self._tail, words, strict=False))
        cpus, numa = told.get("CPU Affinity", "N/A"), told.get("NUMA Affinity", "N/A")
        if cpus != "N/A":
            self.cpus[gpu] = cpus
        if numa != "N/A":
            self.numa[gpu] = numa


def _why(lines: Sequence[str], otherwise: str) -> str:
    said = next((line.strip() for line in lines if line.strip()), "")
    return said[:200] or otherwise

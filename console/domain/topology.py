"""How the GPUs of a host are joined: paths, peers, processors near them; unknown is left out, never guessed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

PATHS: Mapping[str, str] = {
    "NV": "NVLink",
    "PIX": "through one PCIe switch at most",
    "PXB": "through several PCIe switches, not the host bridge",
    "PHB": "through the host bridge of the processor",
    "NODE": "between host bridges of one NUMA node",
    "SYS": "between NUMA nodes",
    "SOC": "between sockets",
}
"""What the words of `nvidia-smi topo -m` mean, the nearest first."""

PEERS: Mapping[str, str] = {
    "OK": "works",
    "CNS": "not supported by the chipset",
    "GNS": "not supported by the GPU",
    "TNS": "not supported by this topology",
    "NS": "not supported",
    "DR": "switched off in the driver's registry",
    "U": "unknown",
}
"""What the words of `nvidia-smi topo -p2p` mean."""

ACCESS: Mapping[str, str] = {"r": "read", "w": "write", "n": "nvlink"}
"""Letters of `nvidia-smi topo -p2p`, and what they ask for."""


def path_words(word: str) -> str:
    """Return what a path's word means; a word that is not known is told as it is."""
    if word[:2] == "NV" and word[2:].isdigit():
        return f"{PATHS['NV']} × {word[2:]}"
    return PATHS.get(word, word)


@dataclass(frozen=True, slots=True)
class Topology:
    """Paths and peers of one host's GPUs and network cards."""

    gpus: tuple[int, ...] = ()
    """Indices as `nvidia-smi` numbers them."""
    nics: tuple[str, ...] = ()
    """`NIC0` or `mlx5_0`, as the matrix names them."""
    paths: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(device, device) → `NV18`, `PIX` …, devices as `GPU0`, `NIC0`."""
    peers: Mapping[str, Mapping[tuple[int, int], str]] = field(default_factory=dict)
    """`read`, `write`, `nvlink` → (from, to) → `OK`, `CNS` …"""
    cpus: Mapping[int, str] = field(default_factory=dict)
    """Processors near each GPU."""
    numa: Mapping[int, str] = field(default_factory=dict)
    """NUMA node of each GPU, as it was printed."""
    nic_names: Mapping[str, str] = field(default_factory=dict)
    """`NIC0` → `mlx5_0`, from the legend."""
    source: str = ""
    reason: str = ""
    """Why paths are not known."""
    peer_reason: str = ""
    """Why peers are not known."""

    def path(self, a: int, b: int) -> str:
        """Return the word for the way between two GPUs; empty when it is not known."""
        return self.paths.get((f"GPU{a}", f"GPU{b}"), "")

    def peer(self, access: str, a: int, b: int) -> str:
        """Return the word for one GPU's access to another; empty when it is not known."""
        return self.peers.get(access, {}).get((a, b), "")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The words that stand between two GPUs, the nearest first."""
        order = list(PATHS)
        found = {self.path(a, b) for a in self.gpus for b in self.gpus if a != b} - {""}
        return tuple(
            sorted(found, key=lambda word: (order.index(_family(word)) if _family(word) in order else 99, word))
        )

    @property
    def nvlink(self) -> bool | None:
        """Whether any two GPUs are joined by NVLink; `None` when paths are not known."""
        kinds = self.kinds
        return any(_family(word) == "NV" for word in kinds) if kinds else None

    def peers_ok(self, access: str) -> bool | None:
        """Return whether every GPU can reach every other; `None` when it is not told of all."""
        pairs = [(a, b) for a in self.gpus for b in self.gpus if a != b]
        told = [self.peer(access, a, b) for a, b in pairs]
        return all(word == "OK" for word in told) if told and all(told) else None

    @property
    def refused(self) -> str:
        """The word with which some GPU may not read another; empty where all may, and where it is not told."""
        words = {word for word in self.peers.get("read", {}).values() if word not in ("OK", "U")}
        return min(words, default="")

    @property
    def digest(self) -> str:
        """Twelve hex digits of paths and peers: alike where the GPUs are joined alike; empty when nothing is known."""
        if not self.paths and not self.peers:
            return ""
        body = [
            sorted([a, b, word] for (a, b), word in self.paths.items()),
            sorted([access, a, b, word] for access, table in self.peers.items() for (a, b), word in table.items()),
        ]
        return hashlib.sha256(json.dumps(body).encode()).hexdigest()[:12]


def _family(word: str) -> str:
    return "NV" if word[:2] == "NV" else word

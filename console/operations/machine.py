"""The machine that measurements are made on: looked at, kept in the store, compared with the base run's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from console.domain.machine import MachineState, changes, fingerprint, link_words
from console.domain.topology import Topology, path_words
from console.errors import ConsoleError, RemoteError
from console.operations.desk import Desk
from console.telemetry.machine import machine_state
from console.telemetry.topology import parse_file

__all__ = ["changes", "fingerprint", "kept", "link_words", "look", "look_quietly", "parse_file", "path_words"]

DEADLINE_S = 90.0

SENT = {"topo": ("topo", "-m"), "r": ("topo", "-p2p", "r"), "w": ("topo", "-p2p", "w"), "n": ("topo", "-p2p", "n"),
        "banner": ()}  # fmt: skip
FIELDS = (
    "index", "uuid", "name", "pci.bus_id", "driver_version", "pstate", "persistence_mode", "power.limit",
    "enforced.power.limit", "power.default_limit", "ecc.mode.current", "pcie.link.gen.current", "pcie.link.gen.max",
    "pcie.link.width.current", "pcie.link.width.max", "clocks.sm", "clocks.max.sm",
)  # fmt: skip
"""Asked for where no program of ours can run: names that every driver of the last years knows."""


async def look(desk: Desk) -> MachineState:
    """Look at the machine, one round trip, and keep what is seen in the store.

    Raises:
        ConsoleError: The host cannot be asked.
    """
    try:
        said: Mapping[str, Any] = (await desk.link.call("machine", {}, deadline_s=DEADLINE_S)).result
    except RemoteError as error:
        if error.kind != "degraded":
            raise
        said = await _by_commands(desk)
    found = machine_state(said, time.time() + (desk.link.facts.clock_offset_s or 0.0))
    desk.store.update(machine=found)
    return found


async def look_quietly(desk: Desk) -> MachineState:
    """Look at the machine; a host that cannot be asked is a state with the reason."""
    try:
        return await look(desk)
    except ConsoleError as error:
        why = error.one_line()
        return MachineState(reason=why, topology=Topology(reason=why, peer_reason=why))


async def _by_commands(desk: Desk) -> dict[str, Any]:
    """Ask `nvidia-smi` command by command, on a host without Python."""

    async def ask(*words: str) -> dict[str, Any]:
        done = await desk.link.run(("nvidia-smi", *words), deadline_s=30)
        return {"status": done.status, "text": (done.output or done.complaint).decode("utf-8", "replace")}

    query = f"--query-gpu={','.join(FIELDS)}"
    found: dict[str, Any] = {name: await ask(*words) for name, words in SENT.items()}
    found["query"] = await ask(query, "--format=csv,noheader,nounits") | {"fields": list(FIELDS)}
    missing = found["query"]["status"] == 127
    return {"smi": None if missing else found}


def kept(identity: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the machine's state that a run's identity holds; empty for runs from before it was kept."""
    found = identity.get("machine")
    return found if isinstance(found, Mapping) else {}

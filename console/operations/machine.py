"""The machine that measurements are made on: looked at, kept in the store, compared with the base run's."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from console.domain.gpu import GpuSample
from console.domain.host import Link
from console.domain.machine import MachineState, changes, fingerprint, kept, summary
from console.domain.measurement import Measurement
from console.domain.run import Run
from console.domain.text import clean
from console.domain.topology import Topology
from console.errors import ConsoleError, RemoteError
from console.operations.desk import Desk
from console.telemetry.faults import fault_in
from console.telemetry.machine import machine_state, nvml_said, with_nvml
from console.telemetry.sampler import until_up
from console.telemetry.topology import parse_file

if TYPE_CHECKING:
    from console.journal.records import RunEntry

__all__ = [
    "changes",
    "fingerprint",
    "kept",
    "look",
    "look_quietly",
    "parse_file",
    "summary",
]

DEADLINE_S = 90.0

PERIOD_S = 2.0
"""Between two looks at the sampled limits."""

SENT = {"topo": ("topo", "-m"), "r": ("topo", "-p2p", "r"), "w": ("topo", "-p2p", "w"), "n": ("topo", "-p2p", "n"),
        "banner": ()}  # fmt: skip
FIELDS = (
    "index", "uuid", "name", "pci.bus_id", "driver_version", "pstate", "persistence_mode", "power.limit",
    "enforced.power.limit", "power.default_limit", "ecc.mode.current", "pcie.link.gen.current", "pcie.link.gen.max",
    "pcie.link.width.current", "pcie.link.width.max", "clocks.sm", "clocks.max.sm",
)  # fmt: skip
"""Asked for where no program of ours can run: names that every driver of the last years knows."""


async def look(desk: Desk) -> MachineState:
    """Look at the machine, one round trip where there is `nvidia-smi`, and keep what is seen in the store.

    Raises:
        ConsoleError: The host cannot be asked.
    """
    package = desk.package
    args = {
        "python": desk.profile.engine.python if desk.profile is not None else "",
        "sites": [posixpath.dirname(package.folder)] if package is not None else [],
    }
    try:
        said: Mapping[str, Any] = (await desk.link.call("machine", args, deadline_s=DEADLINE_S)).result
    except RemoteError as error:
        if error.kind != "degraded":
            raise
        said = await _by_commands(desk)
    found = machine_state(said, time.time() + (desk.link.facts.clock_offset_s or 0.0))
    if not found.driver and not desk.link.state.degraded:
        told = await nvml_said(desk.link)
        found = with_nvml(found, told) if told.get("gpus") else replace(found, reason=_both(found, told))
    desk.store.update(machine=found)
    return found


def _both(found: MachineState, told: Mapping[str, Any]) -> str:
    """Return why neither `nvidia-smi` nor NVML tells anything, once where they say the same."""
    fault = fault_in(str(told.get("reason") or ""))
    other = fault.reason if fault is not None else str(clean(str(told.get("reason") or ""), 200))
    return "; ".join(dict.fromkeys(part for part in (found.reason, other) if part))


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


async def measured_under(desk: Desk, run: Run) -> dict[str, Any]:
    """Return what a run's identity keeps of its machine: the state at launch, and what has changed since, in words."""
    now = fingerprint(await look_quietly(desk))
    if not run.machine:
        return {"machine": now}
    found: dict[str, Any] = {"machine": filled(run.machine, now)}
    since = changes(run.machine, now)
    if since:
        found["machine_changes"] = [{"text": change.said, "decides": change.decides} for change in since]
    return found


def filled(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with what it did not know yet, of the same cards: an idle link tells no generation."""
    gpus = [dict(gpu) for gpu in before.get("gpus") or ()]
    by_uuid = {gpu.get("uuid"): gpu for gpu in now.get("gpus") or () if gpu.get("uuid")}
    for gpu in gpus:
        newer = by_uuid.get(gpu.get("uuid")) or {}
        gpu.update({name: value for name, value in newer.items() if gpu.get(name) is None})
    return {**now, **{name: value for name, value in before.items() if value not in (None, "", [], {})}, "gpus": gpus}


def taint(identity: Mapping[str, Any], samples: Iterable[GpuSample]) -> str:
    """Return why a measurement belongs to another machine state than its run was launched under; empty where not."""
    said = [str(one["text"]) for one in identity.get("machine_changes") or () if one.get("decides")]
    said += [text for text in limits_moved(kept(identity), samples) if text not in said]
    return f"another machine state than at launch: {'; '.join(said)}" if said else ""


def marked(one: Measurement, identity: Mapping[str, Any], samples: Iterable[GpuSample]) -> Measurement:
    """Return a measurement, tainted where the machine was not as at its run's launch."""
    why = taint(identity, samples)
    return replace(one, tainted=(*one.tainted, why)) if why else one


def limits_moved(before: Mapping[str, Any], samples: Iterable[GpuSample]) -> list[str]:
    """Return the power limits that samples show otherwise than a fingerprint, in words."""
    seen: dict[str, float] = {}
    for sample in samples:
        seen |= limits_of(sample)
    old = [gpu for gpu in before.get("gpus") or () if gpu.get("uuid") in seen]
    now = [{**gpu, "power_enforced_w": seen[gpu["uuid"]]} for gpu in old]
    return [change.said for change in changes({"gpus": old}, {"gpus": now})]


def limits_of(sample: GpuSample) -> dict[str, float]:
    """Return the power limit of each GPU that tells one, by UUID."""
    return {gpu.uuid: gpu.power_limit_w for gpu in sample.gpus if gpu.uuid and gpu.power_limit_w and not gpu.lost}


# the base run


async def base_of(host: str, profile: str, but: str = "", *, before: float | None = None) -> RunEntry | None:
    """Return the run whose machine later ones are compared with: the newest of a host, of the same profile if there is one.

    Args:
        host: Its name in the journal.
        profile: Name of the profile.
        but: A run that is not meant: the one to be compared.
        before: Only runs that were launched earlier.
    """
    from console.journal.book import Journal

    return await Journal().base(host, profile, but=but, before=before)


async def since_base(entry: RunEntry) -> tuple[str, tuple[str, ...]]:
    """Return the base run of a journalled run, and what of the machine changed between the two."""
    base = await base_of(entry.host, entry.profile, entry.id, before=entry.started_at)
    if base is None:
        return "", ()
    return base.id, tuple(change.said for change in changes(kept(base.identity), kept(entry.identity)))


async def moved_between(host: str, first: str, run: str) -> str:
    """Return why a run's numbers do not stand beside an earlier run's of the same host; empty where they do."""
    from console.journal.book import Journal

    if first == run:
        return ""
    pair = [await Journal().run(f"{host}:{name}") for name in (first, run)]
    states = [kept(entry.identity) if entry is not None else {} for entry in pair]
    said = [change.said for change in changes(*states) if change.decides]
    return f"another machine state than run {first}: {'; '.join(said)}" if said else ""


async def watch_machine(desk: Desk) -> None:
    """Keep the store's machine and what changed of it since the base run; never returns.

    The host is asked on connecting, and again when another run begins or the sampled limits move: each look starts
    `nvidia-smi` several times.
    """
    while True:
        await until_up(desk.link)
        state = await look_quietly(desk)
        run = _run_id(desk)
        try:
            base = await _base(desk)
        except ConsoleError:  # a journal that cannot be read names no base; who writes to it says why
            base = None
        while desk.link.state.link is Link.UP and _run_id(desk) == run:
            print_now = fingerprint(with_limits(state, desk.store.snapshot.gpus))
            said = tuple(change.said for change in changes(kept(base.identity), print_now)) if base is not None else ()
            shown = desk.store.snapshot
            if shown.machine_changes != said or shown.base_run != (base.id if base is not None else ""):
                desk.store.update(machine_changes=said, base_run=base.id if base is not None else "")
            await asyncio.sleep(PERIOD_S)


def with_limits(state: MachineState, sample: GpuSample | None) -> MachineState:
    """Return a state with the power limits of the newest sample, which is younger."""
    if sample is None:
        return state
    limits = limits_of(sample)
    gpus = tuple(replace(gpu, power_enforced_w=limits.get(gpu.uuid, gpu.power_enforced_w)) for gpu in state.gpus)
    return replace(state, gpus=gpus)


async def _base(desk: Desk) -> RunEntry | None:
    """Return the run that a winner names, else the newest other one."""
    from console.journal.book import Journal

    host, profile = desk.link.host.name, desk.profile
    named = str((profile.winner or {}).get("run") or "") if profile is not None else ""
    if named:
        entry = await Journal().run(f"{host}:{named}")
        if entry is not None and kept(entry.identity):
            return entry
    return await base_of(host, profile.name if profile is not None else "", _run_id(desk))


def _run_id(desk: Desk) -> str:
    run = desk.store.snapshot.run
    return run.id if run is not None else ""

"""A launch looked at before it is made: what it would run, and what it would meet on the host."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.domain.patch import DiskState
from console.domain.profile import Profile
from console.operations import launching, owners, patches, profile_check, profiles, server, ways
from console.operations.desk import Desk
from console.operations.profile_check import Finding

ALIKE_MIB = 1024.0
"""Free memory that differs by more between GPUs is unbalanced: engines refuse to start on it."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a start would do."""

    command: str
    """Secrets redacted."""
    env: Mapping[str, str]
    patches_on: tuple[str, ...]
    facts: Mapping[str, Any]
    """What the host said, as it said it."""
    blocking: tuple[str, ...]
    """Why it would be refused."""
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def wrong(self) -> bool:
        """Whether the profile itself is wrong."""
        return any(each.severity == profile_check.ERROR for each in self.findings)

    @property
    def wrong_lines(self) -> tuple[str, ...]:
        """What of the profile the install would not take, a line each."""
        return tuple(each.told for each in self.findings if each.severity == profile_check.ERROR)

    @property
    def odd_lines(self) -> tuple[str, ...]:
        """What of the profile is odd and stops nothing."""
        return tuple(each.told for each in self.findings if each.severity != profile_check.ERROR)

    @property
    def host_lines(self) -> tuple[str, ...]:
        """What the host and its model are, a line each."""
        lines: list[str] = []
        cards = self.facts["gpus"] or []
        for name in sorted({(card["name"], card["driver"], card["power_limit_w"]) for card in cards}, key=str):
            count = sum((card["name"], card["driver"], card["power_limit_w"]) == name for card in cards)
            lines.append(f"{count} × {name[0]}, driver {name[1]}, {'—' if name[2] is None else f'{name[2]:g}'} W each")
        model = self.facts["model"]
        if model and not model.get("fault"):
            kind = ", ".join(model.get("architectures") or [model.get("model_type") or "—"])
            experts = f", {model['experts']} experts" if model.get("experts") else ""
            quantized = f", {model['quantization']}" if model.get("quantization") else ""
            hidden = model.get("hidden_size")
            lines.append(
                f"{kind}, hidden {hidden}{experts}{quantized}, {model['weights_mib']:,.0f} MiB in {model['shards']} files"
            )
        for disk in self.facts["disks"]:
            if disk["free_mib"] is not None:
                lines.append(f"{disk['path']}: {disk['free_mib']:,.0f} MiB free")
        return tuple(lines)


async def dry_run(desk: Desk) -> DryRun:
    """Look at everything that a start of the desk's profile would meet; nothing on the host changes.

    Raises:
        UsageError: There is no profile.
    """
    profile = desk.must_profile()
    facts = await launching.look(desk, profile, model=profile_check.model_folder(profile))
    runs = await server.all_runs(desk)
    states = () if ways.in_image(profile) else await patches.statuses(desk)
    left = [run for run in runs if run.left]
    return DryRun(
        shlex.join(ways.shown(profile, profiles.argv(profile))),
        launching.shown_environment(profile),
        tuple(status.name for status in states if status.disk is DiskState.ON),
        facts,
        tuple(_blocking(profile, facts)),
        (
            *_warnings(facts),
            *(f"{run.left} processes of run {run.id} are left over" for run in left),
        ),
        await profile_check.check(profile, desk, ask=False, looked=facts),
    )


def _blocking(profile: Profile, facts: Mapping[str, Any]) -> list[str]:
    found = [f"{key} {text}" for key, text in launching.lacking(profile, facts)]
    if taken := launching.name_taken(facts["unit"]):
        found.append(taken)
    for owner, flag in launching.wanted_ports(profile, (*facts["listeners"], *facts["taken"])):
        wanted = f" (for {flag})" if flag else ""
        found.append(f"port {owner['port']}{wanted} is taken by {owners.of_port(owner, 80)}, on {owner['address']}")
    if fault := facts["bind_fault"]:
        found.append(f"--host {fault['address']} cannot be listened on: {fault['message']}")
    return found


def _warnings(facts: Mapping[str, Any]) -> list[str]:
    found = [
        f"pid {one['pid']} ({one['user'] or 'unknown login'}: {owners.shown_title(one['title'], 60)}) holds {one['memory_mib'] or 0:,.0f} MiB of a GPU"
        for one in facts["gpu_processes"] or ()
    ]
    cards: Sequence[Mapping[str, Any]] = facts["gpus"] or ()
    free = [card["memory_total_mib"] - card["memory_used_mib"] for card in cards if _known(card)]
    if free and max(free) - min(free) > ALIKE_MIB:
        found.append(f"unbalanced memory: from {min(free):,.0f} to {max(free):,.0f} MiB are free on the GPUs")
    for card in cards:
        limit, usual = card["power_limit_w"], card["power_default_w"]
        if limit is not None and usual is not None and limit < usual:
            found.append(f"GPU {card['index']} is capped at {limit:g} of {usual:g} W")
    found += [
        f"only {disk['free_mib']:,.0f} MiB are free at {disk['path']}"
        for disk in facts["disks"]
        if disk["free_mib"] is not None and disk["free_mib"] < launching.FREE_MIB
    ]
    return found


def _known(card: Mapping[str, Any]) -> bool:
    return card["memory_total_mib"] is not None and card["memory_used_mib"] is not None

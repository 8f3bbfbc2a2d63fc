"""Whether a run may be kept as a winner: measured as its profile says, and made of what its profile can rebuild."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from console.domain.measurement import Measurement
from console.domain.profile import BenchSection, Profile
from console.errors import RefusedError

if TYPE_CHECKING:
    from console.journal.records import RunEntry

PROTOCOL = ("input_tokens", "output_tokens", "input_spread", "output_spread", "ignore_eos", "request_rate_req_s")
"""What must be as the profile's `[bench]` has it; how many streams and repeats is the evidence's own affair."""


def as_planned(entry: RunEntry, bench: BenchSection) -> RunEntry:
    """Return a run with only what was measured under the profile's protocol.

    Raises:
        RefusedError: Nothing was.
    """
    wanted = {**{name: getattr(bench, name, None) for name in PROTOCOL}, "request_rate_req_s": bench.request_rate}
    alike = tuple(one for one in entry.measurements if not _unlike(one, wanted))
    if entry.measurements and not alike:
        told = sorted({text for one in entry.measurements for text in _unlike(one, wanted)})
        raise RefusedError(
            f"run {entry.id} was measured by another protocol than the profile's [bench]",
            "; ".join(told),
            "tokwatt bench run without other lengths or rates, or write them into the profile",
        )
    return replace(entry, measurements=alike)


def _unlike(one: Measurement, wanted: Mapping[str, Any]) -> list[str]:
    """Return what differs in words; what a measurement does not tell excludes nothing."""
    return [
        f"{name} {_word(one.protocol[name])} instead of {_word(value)}"
        for name, value in wanted.items()
        if name in one.protocol and one.protocol[name] != value
    ]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"{value:g}" if isinstance(value, (int, float)) else str(value)


def must_be_rebuildable(entry: RunEntry, patched: Iterable[str]) -> None:
    """Refuse a run of code that no profile holds.

    Args:
        entry: The run.
        patched: Files of the patches that were on; they are rebuilt.

    Raises:
        RefusedError: Files differed from the commit that no patch of the profile changes.
    """
    git: Mapping[str, Any] = entry.identity.get("git") or {}
    ours = tuple(patched)
    theirs = [
        path
        for path in git.get("uncommitted") or ()
        if not any(path == one or path.endswith(f"/{one}") for one in ours)
    ]
    if theirs:
        raise RefusedError(
            f"run {entry.id} had uncommitted changes that no patch of its profile holds: {', '.join(sorted(theirs))}",
            "a winner that nobody can rebuild is none",
            "tokwatt patch capture makes a patch of them; profile save --dirty seals their hashes as they are",
        )


def sealed_sections(profile: Profile) -> dict[str, Any]:
    """Return what of a profile its evidence repeats, so that an edit after it was sealed can be named."""
    from console.operations.winner import plain_profile

    tables = plain_profile(profile)
    launch = tables.get("launch") or {}
    return {
        "args": launch.get("args") or {},
        "env": launch.get("env") or {},
        "patches_on": list(profile.patches_on),
        "bench": tables.get("bench") or {},
    }


def edits(profile: Profile, sealed: Mapping[str, Any]) -> Sequence[tuple[str, object, object]]:
    """Return what of a profile is another than what its evidence repeats: in words, then and now."""
    found: list[tuple[str, object, object]] = []
    now = sealed_sections(profile)
    for section, word in (("args", "argument"), ("env", "environment"), ("bench", "bench")):
        then, today = sealed.get(section) or {}, now[section]
        found += [
            (f"{word} {name}", then.get(name, "none"), today.get(name, "none"))
            for name in dict.fromkeys((*then, *today))
            if then.get(name) != today.get(name)
        ]
    if list(sealed.get("patches_on") or ()) != now["patches_on"]:
        found.append(("[patches] on", sealed.get("patches_on") or ["none"], now["patches_on"] or ["none"]))
    return found

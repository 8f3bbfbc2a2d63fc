"""Whether a run may be kept as a winner: measured as its profile says, and made of what its profile can rebuild."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    code: Mapping[str, Any] = entry.identity.get("code") or {}
    theirs = [
        path
        for path in (*(git.get("uncommitted") or ()), *(code.get("edited") or ()))
        if not any(path == one or path.endswith(f"/{one}") for one in ours)
    ]
    if theirs:
        raise RefusedError(
            f"run {entry.id} had uncommitted changes that no patch of its profile holds: {', '.join(sorted(theirs))}",
            "a winner that nobody can rebuild is none",
            "tokwatt patch capture makes a patch of them; --dirty seals their hashes as they are",
        )


@dataclass(frozen=True, slots=True)
class Edited:
    """One key of a sealed profile that is not as it was sealed."""

    what: str
    saved: object
    now: object
    gravity: str
    """`decides` what is measured, or `may_matter`."""


SECTIONS = {"launch.args": "argument", "launch.env": "environment", "bench": "bench", "engine": "[engine]",
            "host": "[host]", "launch": "[launch]"}  # fmt: skip
"""Tables that decide what is launched or measured, and what their keys are called."""

ELSEWHERE = ("host.ssh", "host.nodes")
"""Keys by which a winner is tried on another host."""


def edits(profile: Profile, sealed: Mapping[str, Any]) -> list[Edited]:
    """Return what of a profile is another than what its evidence repeats: in words, then and now."""
    from console.operations.winner import plain_profile

    then, now = _flat(sealed), _flat(plain_profile(profile))
    found = []
    for key in dict.fromkeys((*then, *now)):
        if then.get(key) == now.get(key):
            continue
        table, name = key
        decides = (table in SECTIONS and ".".join(key) not in ELSEWHERE) or key == ("patches", "on")
        word = f"{SECTIONS.get(table, f'[{table}]' if table else '')} {name}".strip()
        saved, today = (
            (side.get(key) or ["none"]) if table == "patches" else side.get(key, "none") for side in (then, now)
        )
        found.append(Edited(word, saved, today, "decides" if decides else "may_matter"))
    return found


def _flat(tables: Mapping[str, Any], above: str = "") -> dict[tuple[str, str], Any]:
    """Return every value of a profile's tables by table and key; the values of `bench` may be tables themselves."""
    found: dict[tuple[str, str], Any] = {}
    for name, value in tables.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping) and above in ("", "launch"):
            found |= _flat(value, path)
        else:
            found[above, name] = value
    return found

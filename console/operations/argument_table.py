"""Arguments as they were asked for beside those in force, and those of any two runs: what differs goes first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.config.commands.dialects import dialect
from console.config.secrecy import REDACTED, is_secret_name
from console.domain.profile import Profile
from console.engines.registry import engine

DIFFERENT, ASKED, DEFAULTED, UNTOLD = "different", "as asked", "default", "not told"


@dataclass(frozen=True, slots=True)
class ArgumentRow:
    """One argument on two sides."""

    name: str
    """As the profile spells it; else the server's name with dashes."""
    asked: object
    """`None` where it was not asked for."""
    in_force: object
    """`None` where nothing tells."""
    state: str
    """`different`, `as asked`, `default` (nobody asked for it), `not told`."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """One argument of two runs."""

    name: str
    left: object
    right: object
    same: bool


def differences_between(profile: Profile, resolved: Mapping[str, object]) -> tuple[ArgumentRow, ...]:
    """Return every argument asked for, defaulted and in force: differences first, defaults last.

    Args:
        profile: What was asked for.
        resolved: What the server or its log says is in force, by names with underscores.
    """
    same = dialect(profile.engine.kind).same
    changed = {each.name: each for each in engine(profile.engine.kind).differences(profile, resolved)}
    rows, told = [], set()
    for name, value in profile.launch.args.items():
        if value is False:
            continue
        key = _key(same.get(name, name))
        told.add(key)
        asked = REDACTED if is_secret_name(name) else value
        in_force = REDACTED if is_secret_name(name) and resolved.get(key) else resolved.get(key)
        if name in changed:
            rows.append(ArgumentRow(name, asked, changed[name].resolved, DIFFERENT))
        else:
            rows.append(ArgumentRow(name, asked, in_force, ASKED if key in resolved else UNTOLD))
    rows += _port(profile, resolved)
    for key in sorted(resolved):
        if key not in told and key != "port":
            shown = REDACTED if is_secret_name(key) and resolved[key] else resolved[key]
            rows.append(ArgumentRow(key.replace("_", "-"), None, shown, DEFAULTED))
    order = (DIFFERENT, ASKED, UNTOLD, DEFAULTED)
    return tuple(sorted(rows, key=lambda row: order.index(row.state)))


def _port(profile: Profile, resolved: Mapping[str, object]) -> list[ArgumentRow]:
    if "port" not in resolved:
        return []
    state = ASKED if resolved["port"] == profile.launch.port else DIFFERENT
    return [ArgumentRow("port", profile.launch.port, resolved["port"], state)]


def between_runs(left: Mapping[str, object], right: Mapping[str, object]) -> tuple[PairRow, ...]:
    """Return the arguments in force of two runs, those that differ first; a key that one lacks is `None` there."""
    rows = []
    for key in sorted({*left, *right}):
        one, other = left.get(key), right.get(key)
        alike = (key in left) == (key in right) and _plain(one) == _plain(other)
        secret = is_secret_name(key)
        name = key.replace("_", "-")
        rows.append(PairRow(name, REDACTED if secret and one else one, REDACTED if secret and other else other, alike))
    return tuple(sorted(rows, key=lambda row: row.same))


def _key(name: str) -> str:
    return name.replace("-", "_")


def _plain(value: object) -> object:
    """Return a value so that two spellings of one are equal: tuples as lists, JSON text as what it says."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return list(value) if isinstance(value, tuple) else value


def fields(rows: Sequence[ArgumentRow]) -> list[dict[str, object]]:
    """Return rows as JSON."""
    return [{"name": row.name, "asked": row.asked, "in_force": row.in_force, "state": row.state} for row in rows]

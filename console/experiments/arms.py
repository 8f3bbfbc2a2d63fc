"""From specifications to resolved arms: each one's profile, and which of them are the same thing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from console.domain.experiment import BASE, Arm, ArmSpec, ExperimentSpec
from console.domain.patch import Patch
from console.domain.profile import VIA_TABLES, ArgValue, LaunchSection, Profile, Secret
from console.engines.registry import engine
from console.errors import RefusedError
from console.patching.process import unreached

VOLATILE = frozenset(["random_seed", "port", "nccl_port", "host", "dist_init_addr", "zmq_to_scheduler_ports", "seed"])
"""Resolved arguments that differ between two launches of one and the same thing."""

MODELS = ("model-path", "model", "tokenizer-path", "load-format")
"""Arguments that make another model: their numbers are not compared."""

Find = Callable[[str], Patch]
"""Returns a patch by name."""


def resolve(spec: ExperimentSpec, find: Find) -> tuple[Arm, ...]:
    """Return the base and every arm with the profile that it is launched from.

    An arm that resolves like the one it is compared with, or like an earlier one, says so and is not measured; one
    that serves another model is refused.

    Args:
        spec: The experiment.
        find: Looks a patch up.
    """
    arms = {BASE: Arm(BASE, spec.base, "")}
    specs = {one.name: one for one in spec.arms}
    for one in spec.arms:
        below = arms[one.extends]
        profile = below.profile
        for change in _parts(one, specs):
            profile = _changed(profile, change)
        profile = replace(profile, name=f"{spec.base.name}+{one.name}")
        arm = Arm(one.name, profile, one.extends, one.hypothesis, words(below.profile, profile), combines=one.combine)
        arms[one.name] = _placed(arm, arms, find)
    return tuple(arms.values())


def alike(arms: Sequence[Arm]) -> None:
    """Raise when an arm serves another model than the base."""
    for arm in arms:
        if arm.refused:
            raise RefusedError(f"arm {arm.name}: {arm.reason}", hint="compare one model with itself")


def words(before: Profile, after: Profile) -> tuple[str, ...]:
    """Return what differs between two profiles, a few words each."""
    found = []
    old, new = before.launch, after.launch
    for name in [*new.args, *(name for name in old.args if name not in new.args)]:
        value = new.args.get(name, False)
        if name not in new.args or value is False:
            if old.args.get(name, False) is not False:
                found.append(f"without --{name}")
        elif value != old.args.get(name):
            found.append(f"--{name}" if value is True else f"--{name} {_shown(value)}")
    for name in [*new.env, *(name for name in old.env if name not in new.env)]:
        if name not in new.env:
            found.append(f"without ${name}")
        elif new.env[name] != old.env.get(name):
            secret = new.env[name]
            found.append(f"{name}=…" if isinstance(secret, Secret) else f"{name}={secret}")
    found += [f"without ${name}" for name in new.unset if name not in old.unset and name not in old.env]
    if _way(old) != _way(new):
        found.append(" ".join([f"via {new.via}", *_told(old, new)]))
    found += [f"+ patch {name}" for name in after.patches_on if name not in before.patches_on]
    found += [f"− patch {name}" for name in before.patches_on if name not in after.patches_on]
    return tuple(found)


def launch_key(profile: Profile, find: Find) -> str:
    """Return what a launch of a profile comes down to: command, environment, and the patches that its code reaches."""
    adapter = engine(profile.engine.kind)
    plain = {name: value for name, value in profile.launch.args.items() if value is not False}
    ordered = replace(profile, launch=replace(profile.launch, args=dict(sorted(plain.items()))))
    env = _variables(profile.launch)
    return json.dumps(
        [adapter.command(ordered), env, profile.launch.workdir, _reached(profile, find), *_way(profile.launch)]
    )


def in_force_key(profile: Profile, resolved: Mapping[str, object], find: Find) -> str:
    """Return what a server says that it uses, with environment and reached patches, as a hash; empty when it said nothing.

    An argument that the server does not tell of counts as it was asked for: silence is no proof of sameness.
    """
    if not resolved:
        return ""
    settled = {name: value for name, value in sorted(resolved.items()) if name not in VOLATILE}
    untold = {
        name: value
        for name, value in sorted(profile.launch.args.items())
        if value is not False and name.replace("-", "_") not in resolved
    }
    env = _variables(profile.launch)
    parts = [settled, untold, env, profile.launch.workdir, _reached(profile, find), *_way(profile.launch)]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _variables(launch: LaunchSection) -> dict[str, str | None]:
    """Return the environment by name; `None` for what is taken away, of the host's login too."""
    return dict.fromkeys(sorted(launch.unset)) | {name: repr(value) for name, value in sorted(launch.env.items())}


def _way(launch: LaunchSection) -> list[object]:
    """Return the container, job or scope that a launch makes; nothing for a plain process."""
    table = VIA_TABLES.get(launch.via)
    return [launch.via, asdict(getattr(launch, table))] if table else []


def _told(old: LaunchSection, new: LaunchSection) -> list[str]:
    """Return what a launch's container, job or scope has otherwise than another's."""
    table = VIA_TABLES.get(new.via)
    if table is None:
        return []
    before, after = asdict(getattr(old, table)), asdict(getattr(new, table))
    changed = {name: value for name, value in after.items() if value != before[name]}
    return [f"{name} {' '.join(value) if isinstance(value, tuple) else value}" for name, value in changed.items()]


def _reached(profile: Profile, find: Find) -> list[str]:
    plain = {name: value for name, value in profile.launch.args.items() if value is not False}
    return sorted(name for name in profile.patches_on if not unreached(find(name).requires, plain))


def _parts(one: ArmSpec, specs: Mapping[str, ArmSpec]) -> list[ArmSpec]:
    """Return every change of an arm: those of what it combines, then its own."""
    return [part for name in one.combine for part in _parts(specs[name], specs)] + [one]


def _changed(profile: Profile, change: ArmSpec) -> Profile:
    args: dict[str, ArgValue] = {name: value for name, value in profile.launch.args.items() if name not in change.unset}
    args |= change.args
    env = {name: value for name, value in profile.launch.env.items() if name not in change.unset_env}
    env |= change.env
    gone = (*(name for name in profile.launch.unset if name not in change.env), *change.unset_env)
    patches = [name for name in profile.patches_on if name not in change.without]
    patches += [name for name in change.patches if name not in patches]
    launch = replace(profile.launch, args=args, env=env, unset=tuple(dict.fromkeys(gone)))
    return replace(profile, launch=launch, patches_on=tuple(patches), winner=None)


def _placed(arm: Arm, known: Mapping[str, Arm], find: Find) -> Arm:
    """Return the arm with what it is the same as, or why it is refused."""
    base = known[BASE].profile.launch.args
    for name in MODELS:
        if arm.profile.launch.args.get(name) != base.get(name):
            shown = arm.profile.launch.args.get(name, "none")
            return replace(arm, refused=True, reason=f"another model, not compared: --{name} {_shown(shown)}")
    key = launch_key(arm.profile, find)
    below = known[arm.against]
    same = next((one for one in (below, *known.values()) if launch_key(one.profile, find) == key), None)
    if same is None:
        return arm
    added = [name for name in arm.profile.patches_on if name not in same.profile.patches_on]
    lacking = [f"{name} {unreached(find(name).requires, arm.profile.launch.args)}" for name in added]
    why = (
        f"the profile never reaches the patched code: {'; '.join(lacking)}"
        if added
        else "it resolves to the same launch"
    )
    return replace(arm, same_as=same.name, reason=why)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return json.dumps(value) if isinstance(value, Mapping) else str(value)

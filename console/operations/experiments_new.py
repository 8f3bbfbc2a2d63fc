"""An experiment made of what differs: between two runs, or two profiles; an arm for each change that was picked."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.config import paths
from console.config.edit import write_whole
from console.config.experiments import parse_experiment
from console.config.paths import config_home
from console.config.secrecy import REDACTED, is_secret_name
from console.domain.profile import Profile, Secret
from console.errors import ConsoleError, RefusedError, UsageError
from console.operations.compare import asked_for, find_run

if TYPE_CHECKING:
    from console.journal.records import RunEntry

TOGETHER = ("both", "apart", "only")
"""With several changes: an arm each and one with all, an arm each, or one with all alone."""

GIVEN_BACK = "the base takes it away, and what the host's login gives is not known: make the one with it the base"

MODELS = ("model-path", "model", "tokenizer-path", "load-format")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that can be asked for and is not the same in two configurations."""

    kind: str
    """`args`, `env` or `patches`."""
    name: str
    before: object = None
    """`None` is not there."""
    after: object = None
    barred: str = ""
    """Why no arm can be made of it."""

    @property
    def key(self) -> str:
        """How it is named where one is picked: `--flag`, `$NAME`, `patch NAME`."""
        return {"args": f"--{self.name}", "env": f"${self.name}"}.get(self.kind, f"patch {self.name}")

    @property
    def arm(self) -> str:
        """The name of its arm."""
        return re.sub(r"[^A-Za-z0-9._+-]", "-", f"no-{self.name}" if self.after is None else self.name)

    @property
    def words(self) -> str:
        """What it does to the base, in a few words."""
        if self.kind == "patches":
            return f"{'+' if self.after else '−'} patch {self.name}"
        if self.after is None:
            return f"without {self.key}"
        if self.kind == "env":
            return f"{self.name}={self.after}"
        return self.key if self.after is True else f"{self.key} {_said(self.after)}"


async def write_from_runs(
    a: str,
    b: str,
    file: str = "",
    *,
    only: Sequence[str] = (),
    hypotheses: Mapping[str, str] | None = None,
    together: str = "both",
    profile: Profile | None = None,
    host: str = "",
) -> Path:
    """Write an experiment file that asks what makes run B another than run A, and return where.

    Args:
        a: Run of the journal that is the base.
        b: The other one.
        file: Where to; empty takes the operator's own folder.
        only: Changes to make arms of, by `--flag`, `$NAME` or patch; empty takes all.
        hypotheses: Why, by the same names.
        together: One of `TOGETHER`.
        profile: The desk's, which says where the base's file is when it has run A's name.
        host: Whose runs they are where their names do not say.

    Raises:
        RefusedError: The file is there already.
    """
    first, second = await find_run(a, host=host), await find_run(b, host=host)
    return write(
        changes_of_runs(first, second),
        base=base_of_run(first, profile),
        title=f"What makes {second.id} another than {first.id}",
        file=file or f"{first.id}-{second.id}",
        concurrency=common_ladder(first, second),
        only=only,
        hypotheses=hypotheses,
        together=together,
    )


def write(
    changes: Sequence[Change],
    *,
    base: str,
    title: str,
    file: str,
    concurrency: Sequence[int] = (),
    only: Sequence[str] = (),
    hypotheses: Mapping[str, str] | None = None,
    together: str = "both",
) -> Path:
    """Write an experiment file of changes, and return where.

    Args:
        changes: What may become arms.
        base: The profile that they change: its name, or its path.
        title: Of the experiment.
        file: A path, or a name in the operator's own folder.
        concurrency: What is measured; empty leaves it to the profile.
        only: The picked ones, by their key; empty takes all that are not barred.
        hypotheses: Why, by key.
        together: One of `TOGETHER`.

    Raises:
        UsageError: Something was picked that is not there, or no arm can be made of it.
        ConsoleError: There is nothing to make an arm of.
        RefusedError: The file is there already.
    """
    picked = _picked(changes, only)
    if together not in TOGETHER:
        raise UsageError(f"together = {together!r} is not known", hint=f"one of {', '.join(TOGETHER)}")
    path = _path_of(file)
    if path.exists():
        raise RefusedError(f"{path} is there already", hint="choose another name")
    text = _text(picked, base, title, concurrency, hypotheses or {}, together)
    parse_experiment(text, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
    return path


def changes_of_runs(a: RunEntry, b: RunEntry) -> tuple[Change, ...]:
    """Return what was asked for in run B otherwise than in run A."""
    old, new = ({name.removeprefix("--"): value for name, value in asked_for(one).items()} for one in (a, b))
    variables = [dict(one.identity.get("environment") or {}) for one in (a, b)]
    patches = [list(one.identity.get("patches_on") or ()) for one in (a, b)]
    return _changes(old, new, variables[0], variables[1], patches[0], patches[1])


def changes_of_profiles(a: Profile, b: Profile) -> tuple[Change, ...]:
    """Return what profile B asks for otherwise than profile A."""
    sides = [{name: value for name, value in one.launch.args.items() if value is not False} for one in (a, b)]
    variables = [dict(one.launch.env) for one in (a, b)]
    found = _changes(sides[0], sides[1], variables[0], variables[1], a.patches_on, b.patches_on)
    known = {one.name for one in found if one.kind == "env"}
    gone = [Change("env", name) for name in b.launch.unset if name not in a.launch.unset and name not in known]
    kept = [name for name in a.launch.unset if name not in b.launch.unset and name not in known]
    return (*found, *gone, *(Change("env", name, None, None, GIVEN_BACK) for name in kept))


def base_of_run(entry: RunEntry, profile: Profile | None = None) -> str:
    """Return the profile that a run was launched from, as an experiment file names it.

    Raises:
        RefusedError: It was an experiment's arm, which has no file.
    """
    if "+" in entry.profile or not entry.profile:
        raise RefusedError(
            f"run {entry.id} was launched from {entry.profile or 'no profile'}: a base needs a file of its own",
            hint="take a run of a profile as A, or save that arm as a profile first",
        )
    return base_of(profile) if profile is not None and profile.name == entry.profile else entry.profile


def base_of(profile: Profile) -> str:
    """Return how an experiment file names a profile: by name where that reaches its file, else by path."""
    try:
        found = paths.find_profile(profile.name)
    except UsageError:
        found = None
    own = Path(profile.path).resolve() if profile.path else None
    return str(own) if own is not None and (found is None or found.resolve() != own) else profile.name


def common_ladder(a: RunEntry, b: RunEntry) -> tuple[int, ...]:
    """Return the concurrencies that either run was measured at."""
    return tuple(sorted({one.concurrency_limit for one in (*a.measurements, *b.measurements)}))


def _changes(
    args: Mapping[str, object],
    other_args: Mapping[str, object],
    env: Mapping[str, object],
    other_env: Mapping[str, object],
    patches: Sequence[str],
    other_patches: Sequence[str],
) -> tuple[Change, ...]:
    found = []
    for kind, before, after in (("args", args, other_args), ("env", env, other_env)):
        for name in [*after, *(name for name in before if name not in after)]:
            old, new = before.get(name), after.get(name)
            if old != new and not (kind == "args" and name in ("port", "host")):
                found.append(Change(kind, name, old, new, _barred(kind, name, old, new)))
    found += [Change("patches", name, None, True) for name in other_patches if name not in patches]
    found += [Change("patches", name, True, None) for name in patches if name not in other_patches]
    return tuple(found)


def _barred(kind: str, name: str, old: object, new: object) -> str:
    if kind == "args" and name in MODELS:
        return "another model: its numbers would not be compared"
    if is_secret_name(name) or isinstance(old, Secret) or isinstance(new, Secret) or REDACTED in (old, new):
        return "a secret"
    return ""


def _picked(changes: Sequence[Change], only: Sequence[str]) -> list[Change]:
    known = {one.key: one for one in changes} | {one.name: one for one in changes}
    for name in only:
        if name not in known:
            hint = paths.nearest(name, [one.key for one in changes]) or "the differences: tokwatt runs compare A B"
            raise UsageError(f"{name}: is not among the differences", hint=hint)
        if known[name].barred:
            raise UsageError(f"{name}: no arm can be made of it", known[name].barred)
    wanted = {known[name].key for name in only}
    picked = [one for one in changes if not one.barred and (not only or one.key in wanted)]
    if not picked:
        barred = "; ".join(f"{one.key}: {one.barred}" for one in changes)
        raise ConsoleError("they do not differ in arguments, variables or patches that an arm could have", barred)
    return picked


def _path_of(file: str) -> Path:
    given = Path(file).expanduser()
    if "/" in file or given.suffix == ".toml":
        return given
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", file):
        raise UsageError(f"{file!r} is no name for an experiment", "letters, digits and . _ + - only")
    return config_home() / "experiments" / f"{file}.toml"


def _text(
    changes: Sequence[Change],
    base: str,
    title: str,
    concurrency: Sequence[int],
    hypotheses: Mapping[str, str],
    together: str,
) -> str:
    import tomli_w

    arms: list[dict[str, Any]] = []
    for one in changes:
        taken = {str(arm["name"]) for arm in arms} | {"base"}
        name = next(n for n in (one.arm, f"{one.kind}-{one.arm}", f"{one.arm}-2") if n not in taken)
        why = hypotheses.get(one.key) or hypotheses.get(one.name) or ""
        arms.append({"name": name, **({"hypothesis": why} if why else {}), **_asked(one)})
    if len(arms) > 1 and together == "both":
        why = hypotheses.get("all", "what they do together, beyond their parts")
        arms.append({"name": "all", "hypothesis": why, "combine": [arm["name"] for arm in arms]})
    elif len(arms) > 1 and together == "only":
        arms = [_merged(arms, hypotheses)]
    data = {
        "schema": 1,
        "title": title,
        "base": base,
        "measure": {"repeats": 5, **({"concurrency": list(concurrency)} if concurrency else {})},
        "arm": arms,
    }
    return f"# made of marked differences on {time.strftime('%Y-%m-%d %H:%M')}\n" + tomli_w.dumps(data)


def _merged(arms: Sequence[Mapping[str, Any]], hypotheses: Mapping[str, str]) -> dict[str, Any]:
    """Return one arm with the changes of all."""
    whys = [hypotheses["all"]] if hypotheses.get("all") else [arm["hypothesis"] for arm in arms if "hypothesis" in arm]
    merged: dict[str, Any] = {"name": "all", **({"hypothesis": "; ".join(whys)} if whys else {})}
    for arm in arms:
        for kind, value in arm.items():
            if isinstance(value, dict):
                merged[kind] = {**merged.get(kind, {}), **value}
            elif isinstance(value, list):
                merged[kind] = [*merged.get(kind, []), *value]
    return merged


def _asked(one: Change) -> dict[str, Any]:
    """Return a change as the keys of an arm."""
    if one.kind == "patches":
        return {"patches": [one.name]} if one.after else {"without": [one.name]}
    if one.after is None:
        return {"env": {one.name: False}} if one.kind == "env" else {"unset": [one.name]}
    return {one.kind: {one.name: str(one.after) if one.kind == "env" else _plain(one.after)}}


def _plain(value: object) -> object:
    """Return a word of a command line as TOML would hold it."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not isinstance(value, str):
        return value
    for kind, form in ((int, r"-?\d+"), (float, r"-?\d+\.\d+")):
        if re.fullmatch(form, value) and str(kind(value)) == value:  # 0.90 stays as it was written
            return kind(value)
    return value


def _said(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)

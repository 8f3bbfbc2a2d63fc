"""Experiment files: TOML to `ExperimentSpec`, every fault with file, line and key.

```toml
schema = 1
title = "More requests, then the kernels"
base = "glm5-nvfp4"              # the profile it starts from: a name, or a path beside this file

[measure]                        # what is left out comes from the profile's [bench]
concurrency = [256, 1024]
repeats = 5                      # pairs at most, AB BA AB …; fewer than 3 give no interval
decide_at = 1024                 # the concurrency that decides; else the highest
metric = "output_tok_s"          # what decides; J/token and latencies are better when lower
min_gain_pct = 0.5               # smaller gains are not worth keeping
confirm = 3                      # pairs of the winner's fresh measurement before it may be saved
relaunch = "each"                # no two measurements share a launch; "switch": neighbours do, and intervals are the wider for it

[[arm]]
name = "wide"
hypothesis = "64 running requests starve the batch"
args = { max-running-requests = 2048 }

[[arm]]
name = "wide-cutlass"
extends = "wide"                 # changes that arm, and is compared with it
args = { moe-runner-backend = "flashinfer_cutlass" }
patches = ["flashinfer-cutlass-autotune"]
```
An arm may also have `env` (`NAME = false` takes one away), `unset` (flags taken away), `without` (patches off), and `combine = ["a", "b"]`: both at
once, compared with what they extend, with their interaction in the ledger.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from console.config import paths
from console.config.lines import KeyPath, TomlFile, parse_toml, read_toml
from console.config.profiles import argument, load_profile, told, variable, variables
from console.domain.experiment import BASE, METRICS, ArmSpec, Dimension, ExperimentSpec, SearchSpec
from console.domain.profile import BenchSection, Profile, Secret
from console.errors import FormatError, UsageError

SCHEMA = 1
RELAUNCH = ("switch", "each")
ORDERS = ("interleaved", "sequential")
SAMPLERS = ("tpe", "nsga2", "random")


class _Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    hypothesis: str = ""
    extends: str = BASE
    combine: tuple[str, ...] = ()
    args: dict[str, Any] = {}
    unset: tuple[str, ...] = ()
    env: dict[str, Any] = {}
    patches: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class _Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    concurrency: tuple[int, ...] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    requests_per_stream: int | None = None
    repeats: int = 5
    confirm: int = 3
    decide_at: int | None = None
    metric: str = "output_tok_s"
    min_gain_pct: float = 0.0
    early_stop: bool = True
    order: str = "interleaved"
    relaunch: str = "switch"
    ready_within_s: float = 1800.0
    answers: bool = True
    tolerate: tuple[str, ...] = ()


class _Dimension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    choices: tuple[str | int | float | bool, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False


class _Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trials: int = 20
    objectives: tuple[str, ...] = ("output_tok_s",)
    sampler: str = "tpe"
    prune: bool = True
    storage: str = ""
    seed: int | None = None
    args: dict[str, _Dimension] = {}
    env: dict[str, _Dimension] = {}


class _Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base: str
    schema: int = SCHEMA
    title: str = ""
    measure: _Measure = _Measure()
    arm: tuple[_Arm, ...] = ()
    search: _Search | None = None


def load_experiment(path: Path) -> ExperimentSpec:
    """Read an experiment file and the profile that it starts from.

    Raises:
        FormatError: A file is wrong; the title names file, line and key.
    """
    return _spec(read_toml(path))


def parse_experiment(text: str, path: str) -> ExperimentSpec:
    """Return the experiment of a text that stands, or stood, in the file `path`."""
    return _spec(parse_toml(text.encode(), path))


def find_experiment(name_or_path: str) -> Path:
    """Return an experiment's file: a path, or a name in `./experiments` or the user's own folder."""
    given = Path(name_or_path).expanduser()
    if given.is_file():
        return given
    stem = name_or_path.removesuffix(".toml")
    if "/" not in name_or_path:
        for folder in experiment_folders():
            if (folder / f"{stem}.toml").is_file():
                return folder / f"{stem}.toml"
    known = [path.stem for path in all_experiments()]
    raise UsageError(f"experiment {name_or_path}: no such file", hint=paths.nearest(stem, known))


def experiment_folders() -> tuple[Path, ...]:
    """Return the folders of experiments, the first one to be looked into first."""
    return (Path("experiments"), paths.config_home() / "experiments")


def all_experiments() -> tuple[Path, ...]:
    """Return every experiment file that a name can reach, sorted by name."""
    found: dict[str, Path] = {}
    for folder in experiment_folders():
        if folder.is_dir():
            for path in folder.glob("*.toml"):
                if _is_experiment(path):
                    found.setdefault(path.stem, path)
    return tuple(found[name] for name in sorted(found))


def _is_experiment(path: Path) -> bool:
    """Whether a file is one, or cannot be read at all: base profiles may lie beside it."""
    try:
        return "base" in read_toml(path).data
    except FormatError:
        return True


def profile_name(path: Path) -> str:
    """Return the base profile that a file names, so that its host is known before it is read whole."""
    file = read_toml(path)
    base = file.data.get("base")
    if not isinstance(base, str) or not base:
        raise file.fault(("base",), "must name the profile that the experiment starts from")
    return str(_profile_path(file, base))


def _spec(file: TomlFile) -> ExperimentSpec:
    try:
        part = msgspec.convert(file.data, _Experiment, strict=True)
    except msgspec.ValidationError as error:
        raise told(str(error), file, _Experiment) from error
    if part.schema != SCHEMA:
        raise file.fault(("schema",), f"is {part.schema}; this tokwatt reads schema {SCHEMA}")
    base = load_profile(_profile_path(file, part.base))
    bench = _bench(part.measure, base, file)
    spec = ExperimentSpec(
        name=Path(file.path).stem,
        path=file.path,
        title=part.title,
        base=base,
        bench=bench,
        arms=_arms(part.arm, file),
        repeats=_at_least(part.measure.repeats, 1, "repeats", file),
        confirm=_confirm(part.measure, file),
        metric=_one_of(part.measure.metric, tuple(METRICS), ("measure", "metric"), file),
        decide_at=_decide_at(part.measure, bench, file),
        min_gain_pct=part.measure.min_gain_pct,
        early_stop=part.measure.early_stop,
        interleave=_one_of(part.measure.order, ORDERS, ("measure", "order"), file) == "interleaved",
        relaunch=_one_of(part.measure.relaunch, RELAUNCH, ("measure", "relaunch"), file),
        ready_within_s=part.measure.ready_within_s,
        answers=part.measure.answers,
        tolerate=part.measure.tolerate,
        search=None if part.search is None else _search(part.search, file),
    )
    if not spec.arms and spec.search is None:
        raise file.fault(("arm",), "there is no arm and no [search]", "write [[arm]] with a name and what it changes")
    return replace(spec, digest=digest(spec))


def digest(spec: ExperimentSpec) -> str:
    """Return the hash of all that makes an experiment's numbers; titles and hypotheses may change."""
    plain = asdict(replace(spec, title="", digest="", path="", name="", base=Profile("")))
    base = spec.base
    plain["base"] = [asdict(part) for part in (base.host, base.engine, base.launch, base.limits)] + [base.patches_on]
    for arm in plain["arms"]:
        arm.pop("hypothesis")
        arm.pop("line")
        if not arm["unset_env"]:
            arm.pop("unset_env")
    text = json.dumps(
        plain, sort_keys=True, default=lambda value: repr(value) if isinstance(value, Secret) else str(value)
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _profile_path(file: TomlFile, base: str) -> Path:
    beside = Path(file.path).parent / (base if base.endswith(".toml") else f"{base}.toml")
    if beside.is_file() and beside.resolve() != Path(file.path).resolve():
        return beside
    try:
        return paths.find_profile(base)
    except UsageError as error:
        raise file.fault(("base",), f"= {base!r}: no such profile", error.hint) from error


def _bench(measure: _Measure, base: Profile, file: TomlFile) -> BenchSection:
    changes: dict[str, Any] = {}
    for name in ("input_tokens", "output_tokens", "requests_per_stream"):
        value = getattr(measure, name)
        if value is not None:
            changes[name] = _at_least(value, 1, name, file)
    if measure.concurrency is not None:
        for index, value in enumerate(measure.concurrency):
            if value < 1:
                raise file.fault(("measure", "concurrency", index), f"is {value}; at least one stream is needed")
        if not measure.concurrency:
            raise file.fault(("measure", "concurrency"), "is empty")
        changes["concurrency"] = tuple(dict.fromkeys(measure.concurrency))
    return replace(base.bench, **changes, repeats=1)


def _confirm(measure: _Measure, file: TomlFile) -> int:
    if measure.confirm in (1, 2):
        raise file.fault(("measure", "confirm"), f"is {measure.confirm}; an interval needs 3 pairs", "3 or more, or 0")
    return _at_least(measure.confirm, 0, "confirm", file)


def _decide_at(measure: _Measure, bench: BenchSection, file: TomlFile) -> int:
    if measure.decide_at is None:
        return max(bench.concurrency)
    if measure.decide_at not in bench.concurrency:
        known = ", ".join(map(str, bench.concurrency))
        raise file.fault(("measure", "decide_at"), f"is {measure.decide_at}, which is not measured", f"one of {known}")
    return measure.decide_at


def _at_least(value: int, least: int, name: str, file: TomlFile) -> int:
    if value < least:
        raise file.fault(("measure", name), f"is {value}; it must be {least} or more")
    return value


def _one_of(value: str, known: Sequence[str], key: KeyPath, file: TomlFile) -> str:
    if value not in known:
        raise file.fault(key, f"= {value!r} is not known", paths.nearest(value, known) or f"one of {', '.join(known)}")
    return value


def _arms(parts: Sequence[_Arm], file: TomlFile) -> tuple[ArmSpec, ...]:
    known: dict[str, ArmSpec] = {}
    for index, part in enumerate(parts):
        key: KeyPath = ("arm", index)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", part.name):
            raise file.fault((*key, "name"), f"{part.name!r} is no name", "letters, digits and . _ + - only")
        if part.name == BASE or part.name in known:
            raise file.fault((*key, "name"), f"{part.name} is taken already")
        for name in (part.extends, *part.combine):
            if name != BASE and name not in known:
                where = "combine" if name in part.combine else "extends"
                raise file.fault((*key, where), f"{name!r} is no arm above this one", paths.nearest(name, list(known)))
        known[part.name] = _arm(part, known, key, file)
    return tuple(known.values())


def _arm(part: _Arm, known: Mapping[str, ArmSpec], key: KeyPath, file: TomlFile) -> ArmSpec:
    own = bool(part.args or part.unset or part.env or part.patches or part.without)
    extends = part.extends
    if part.combine:
        if BASE in part.combine or len(set(part.combine)) < 2:
            raise file.fault((*key, "combine"), "must name two or more arms")
        below = {known[name].extends for name in part.combine}
        if len(below) > 1:
            raise file.fault((*key, "combine"), f"its parts change different arms: {', '.join(sorted(below))}")
        if extends not in (BASE, *below):
            raise file.fault((*key, "extends"), "does not go with combine: its parts say what is changed")
        extends = below.pop()
    elif not own:
        raise file.fault(key, f"{part.name} changes nothing", "args, env, unset, patches, without or combine")
    env, unset_env = variables((*key, "env"), part.env, file)
    return ArmSpec(
        name=part.name,
        hypothesis=part.hypothesis,
        extends=extends,
        combine=part.combine,
        args={name: argument((*key, "args", name), value, file) for name, value in part.args.items()},
        unset=part.unset,
        env=env,
        unset_env=unset_env,
        patches=part.patches,
        without=part.without,
        line=file.line(key),
    )


def _search(part: _Search, file: TomlFile) -> SearchSpec:
    space = [_dimension("args", name, one, file) for name, one in part.args.items()]
    space += [_dimension("env", name, one, file) for name, one in part.env.items()]
    if not space:
        raise file.fault(("search",), "declares no space", "write [search.args.FLAG] with choices, or low and high")
    if part.trials < 1:
        raise file.fault(("search", "trials"), f"is {part.trials}; it must be 1 or more")
    if not part.objectives or len(set(part.objectives)) != len(part.objectives):
        raise file.fault(("search", "objectives"), "must name one metric or several different ones")
    for index, name in enumerate(part.objectives):
        _one_of(name, tuple(METRICS), ("search", "objectives", index), file)
    return SearchSpec(
        trials=part.trials,
        objectives=part.objectives,
        sampler=_one_of(part.sampler, SAMPLERS, ("search", "sampler"), file),
        prune=part.prune,
        storage=part.storage,
        seed=part.seed,
        space=tuple(space),
    )


def _dimension(kind: str, name: str, part: _Dimension, file: TomlFile) -> Dimension:
    key: KeyPath = ("search", kind, name)
    if part.choices:
        if part.low is not None or part.high is not None:
            raise file.fault(key, "has choices and a range", "one of both")
        if len(part.choices) < 2 or len({repr(one) for one in part.choices}) < len(part.choices):
            raise file.fault((*key, "choices"), "needs two or more different values")
        for one in part.choices:
            (argument if kind == "args" else variable)(key, one, file)
        return Dimension(kind, name, part.choices)
    if part.low is None or part.high is None or part.low >= part.high:
        raise file.fault(key, "needs choices, or low below high")
    if part.log and (part.low <= 0 or part.step is not None):
        raise file.fault((*key, "log"), "needs low above 0 and no step")
    if part.step is not None and part.step <= 0:
        raise file.fault((*key, "step"), f"is {part.step}; it must be over 0")
    argument(("search", "args", name), part.low, file) if kind == "args" else variable(key, part.low, file)
    whole = all(isinstance(one, int) for one in (part.low, part.high, part.step or 1))
    return Dimension(kind, name, (), part.low, part.high, part.step, part.log, whole)

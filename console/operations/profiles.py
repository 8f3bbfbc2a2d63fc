"""Profiles: list, show, check against the host, and the command that they stand for."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from console.config import paths
from console.config.profiles import load_profile
from console.config.secrecy import REDACTED, is_secret, with_secret_args, without_secret_words
from console.domain.profile import (
    DOCKER_RUN,
    PROCESS,
    VIA_TABLES,
    ArgValue,
    LaunchSection,
    Profile,
    Secret,
    itself_in,
)
from console.engines.registry import engine
from console.errors import ConsoleError, RefusedError
from console.operations import ways
from console.operations.running import LIVING

if TYPE_CHECKING:
    from console.domain.run import Run
    from console.operations.desk import Desk


@dataclass(frozen=True, slots=True)
class Listed:
    """One profile file that a name can reach."""

    name: str
    path: Path
    profile: Profile | None
    fault: str = ""
    """What is wrong with the file."""


def listed(shown: Profile | None = None) -> tuple[Listed, ...]:
    """Return every profile that a name can reach, faulty ones included.

    Args:
        shown: Comes first where no name reaches it, since it was given by its path.
    """
    found = []
    known = paths.all_profiles()
    given = Path(shown.path) if shown is not None and shown.path else None
    outside = given is not None and given.is_file() and not any(given.samefile(path) for path in known)
    for path in (given, *known) if given is not None and outside else known:
        try:
            found.append(Listed(path.stem, path, load_profile(path)))
        except ConsoleError as error:
            found.append(Listed(path.stem, path, None, error.one_line()))
    return tuple(found)


def load(name_or_path: str) -> Profile:
    """Return one profile by name or path."""
    return load_profile(paths.find_profile(name_or_path))


def argv(profile: Profile) -> tuple[str, ...]:
    """Return the exact argument list of a launch, secrets redacted."""
    adapter = engine(profile.engine.kind)
    words = adapter.command(with_secret_args(profile, lambda secret: REDACTED))
    return without_secret_words(adapter.redacted(words))


def shell_command(profile: Profile) -> str:
    """Return the launch as one line for a shell on the host; a secret stays the name of its variable."""
    launch = profile.launch
    secret_words = {f"\0{secret.name}\0": _variable(secret) for secret in launch.secret_args.values()}
    adapter = engine(profile.engine.kind)
    words = adapter.command(with_secret_args(profile, lambda secret: f"\0{secret.name}\0"))
    shown = [
        secret_words.get(word) or shlex.quote(kept) for word, kept in zip(words, adapter.redacted(words), strict=True)
    ]
    unset = [word for name in launch.unset for word in ("-u", name)]
    if profile.host.container:
        return " ".join([*_container(profile), *(["env", *unset] if unset else []), *shown])
    if launch.via == DOCKER_RUN:
        given = [f"{name}={_shell_value(name, value)}" for name, value in launch.env.items() if _by_name(name, value)]
        return " ".join([*given, *ways.shell_words(profile, shown)])
    shown = ways.shell_words(profile, shown)
    before = ["cd", shlex.quote(launch.workdir), "&&"] if launch.workdir else []
    env = [f"{name}={_shell_value(name, value)}" for name, value in launch.env.items()]
    return " ".join([*before, *(["env", *unset] if unset else []), *env, *shown])


def _by_name(name: str, value: str | Secret) -> bool:
    """Whether a container gets a variable from its launcher's environment, so that no argument holds it."""
    return isinstance(value, Secret) or is_secret(name, value) or itself_in(name).search(value) is not None


def _container(profile: Profile) -> list[str]:
    """Return the words that put a launch into the container of a profile."""
    words = [shlex.quote(profile.host.runtime or "docker"), "exec"]
    if profile.launch.workdir:
        words += ["-w", shlex.quote(profile.launch.workdir)]
    for name, value in profile.launch.env.items():
        words += ["-e", f"{name}={_shell_value(name, value)}"]
    return [*words, shlex.quote(profile.host.container)]


def _shell_value(name: str, value: str | Secret) -> str:
    if isinstance(value, Secret):
        return _variable(value if value.name else Secret(value.source, name))
    if is_secret(name, value):
        return f'"${name}"'
    own = itself_in(name)
    if own.search(value) is None:
        return shlex.quote(value)
    return '"' + re.sub(r'(["`\\])|\$(?!\{?' + re.escape(name) + r"\b)", r"\\\g<0>", value) + '"'


def _variable(secret: Secret) -> str:
    """Return how a shell fills a secret in; one of the host's must be there."""
    return f'"${{{secret.name}:?}}"' if secret.source == "host-env" else f'"${secret.name}"'


@dataclass(frozen=True, slots=True)
class Row:
    """One argument or variable of a profile, as it may be shown, and where it stands."""

    name: str
    value: str
    file: str = ""
    line: int = 0


def rows(profile: Profile) -> list[Row]:
    """Return the way that a profile launches, where it is no plain one, its arguments, then its variables."""
    launch = profile.launch
    found = _via_rows(profile)
    found += [_row(profile, f"launch.args.{name}", name, _word(name, value)) for name, value in launch.args.items()]
    for name, secret in launch.secret_args.items():
        found.append(_row(profile, f"launch.args.{name}", name, _from(secret)))
    for name, given in launch.env.items():
        value = _from(given) if isinstance(given, Secret) else REDACTED if is_secret(name, given) else given
        found.append(_row(profile, f"launch.env.{name}", name, value))
    return found + [_row(profile, f"launch.env.{name}", name, "unset") for name in launch.unset]


def _via_rows(profile: Profile) -> list[Row]:
    if profile.launch.via == PROCESS:
        return []
    found = [_row(profile, "launch.via", "via", profile.launch.via)]
    for table, given in _via_fields(profile.launch).items():
        for name, value in given.items():
            if value:
                text = shlex.join(value) if isinstance(value, list) else str(value)
                if isinstance(value, dict):
                    text = " ".join(f"{key}={item}" for key, item in value.items())
                found.append(_row(profile, f"launch.{table}.{name}", f"{table}.{name}", text))
    return found


def _row(profile: Profile, key: str, name: str, value: str) -> Row:
    file, line = profile.origins.get(key, ("", 0))
    return Row(name, value, file, line)


def _from(secret: Secret) -> str:
    whose = "the host's environment" if secret.source == "host-env" else "the environment"
    return f"{secret.name} of {whose}" if secret.name else f"from {whose}"


def _word(name: str, value: ArgValue) -> str:
    if isinstance(value, bool):
        return "given" if value else "not given"
    if is_secret(name, value):
        return REDACTED
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def shown_env(profile: Profile) -> dict[str, object]:
    """Return the variables of a profile as JSON, secrets by their source only."""
    return {name: _shown(name, value) for name, value in profile.launch.env.items()}


def _shown(name: str, value: str | Secret) -> object:
    if isinstance(value, Secret):
        return {"from": value.source, "name": value.name} if value.name else {"from": value.source}
    return REDACTED if is_secret(name, value) else value


def fields(profile: Profile) -> Mapping[str, object]:
    """Return a profile as JSON, secrets by their source only."""
    launch = profile.launch
    return {
        "name": profile.name,
        "path": profile.path,
        "title": profile.title,
        "host": {
            "ssh": profile.host.ssh,
            "container": profile.host.container,
            "runtime": profile.host.runtime,
            "nodes": profile.host.nodes,
        },
        "engine": {
            "kind": profile.engine.kind,
            "python": profile.engine.python,
            "command": list(profile.engine.command),
        },
        "launch": {
            "port": launch.port,
            "workdir": launch.workdir,
            "args": {
                **{name: REDACTED if is_secret(name, value) else value for name, value in launch.args.items()},
                **{name: _shown(name, secret) for name, secret in launch.secret_args.items()},
            },
            "env": shown_env(profile),
            "unset": list(launch.unset),
            "via": launch.via,
            **_via_fields(launch),
        },
        "patches": {"on": list(profile.patches_on)},
        "bench": {
            "concurrency": list(profile.bench.concurrency),
            "input_tokens": profile.bench.input_tokens,
            "output_tokens": profile.bench.output_tokens,
            "repeats": profile.bench.repeats,
        },
        "limits": {
            "ttft_ms": profile.limits.ttft_ms,
            "itl_ms": profile.limits.itl_ms,
            "e2el_ms": profile.limits.e2el_ms,
        },
        "target": {"output_tok_s": profile.target.output_tok_s, "from": profile.target.origin},
        "winner": None if profile.winner is None else dict(profile.winner),
        "layers": list(profile.layers),
        "origins": {key: {"file": file, "line": line} for key, (file, line) in profile.origins.items()},
    }


def _via_fields(launch: LaunchSection) -> dict[str, dict[str, object]]:
    """Return the table of the way that a profile launches, as JSON."""
    plain: dict[str, object] = {
        name: list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
        for name, value in launch.via_values.items()
    }
    return {VIA_TABLES[launch.via]: plain} if plain else {}


async def choose(desk: Desk, name_or_path: str) -> Profile:
    """Work under another profile from now on.

    Raises:
        RefusedError: A server of ours runs under the present one, or the new one needs another connection.
    """
    from console.operations import server
    from console.operations.opening import at_home

    run, old = desk.store.snapshot.run, desk.profile
    chosen = load(name_or_path)
    same = old is not None and chosen.name == old.name  # an edited file: what runs is shown beside it
    if old is not None and not same and run is not None and run.adopted and _runs(run, old):
        raise RefusedError(
            f"run {run.id} of {old.name} is {run.phase.value}: the profile is not changed under it",
            hint="x t stops it first",
        )
    if _reach(chosen) != (_reach(old) if old is not None else ("", "")):
        raise RefusedError(
            f"{chosen.name} runs in another container than this connection reaches",
            hint=f"open it by itself: tokwatt --profile {chosen.name}",
        )
    if chosen.host.ssh and chosen.host.ssh != desk.link.host.name:
        raise RefusedError(
            f"{chosen.name} is for host {chosen.host.ssh}, this is {desk.link.host.name}",
            hint=f"open it by itself: tokwatt --profile {chosen.name}",
        )
    chosen = at_home(chosen, desk.link.facts.home)
    desk.profile, desk.package = chosen, None
    desk.store.update(profile=chosen, profile_edited=False, package=None, package_reason="", patches=())
    await server.status(desk)
    return chosen


def _runs(run: Run, profile: Profile) -> bool:
    return run.phase in LIVING and run.profile == profile.name


def _reach(profile: Profile) -> tuple[str, str]:
    return profile.host.container, profile.host.runtime if profile.host.container else ""

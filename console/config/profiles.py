"""Profiles: TOML to `Profile`, every fault with file, line and key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from console.config import paths
from console.config.layers import chain_of, laid_over, origins_of
from console.config.lines import KeyPath, TomlFile, kind_word, parse_toml, read_toml
from console.config.secrecy import is_secret_name
from console.config.vias import checked, must_be_whole, properties
from console.domain.profile import (
    PROCESS,
    ArgValue,
    BenchSection,
    DockerSection,
    EngineSection,
    HostSection,
    LaunchSection,
    LimitsSection,
    Profile,
    Secret,
    SlurmSection,
    SystemdSection,
    TargetSection,
)
from console.errors import FormatError

SCHEMA = 1

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<place>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")
BENCH_WORDS = {"arrival": ("poisson", "constant", "burst"), "api": ("generate", "completions", "chat")}
_SOURCES = ("env", "host-env")


class _Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ssh: str = ""
    container: str = ""
    runtime: str = "docker"
    nodes: tuple[str, ...] = ()


class _Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str = "sglang"
    python: str = ""
    command: tuple[str, ...] = ()


class _Docker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    image: str = ""
    options: tuple[str, ...] = ()
    name: str = ""
    entrypoint: str = ""
    runtime: str = "docker"


class _Slurm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partition: str = ""
    options: tuple[str, ...] = ()


class _Systemd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    manager: str = "user"
    properties: dict[str, Any] = {}
    options: tuple[str, ...] = ()


class _Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: int = 30000
    workdir: str = ""
    via: str = PROCESS
    docker: _Docker = _Docker()
    slurm: _Slurm = _Slurm()
    systemd: _Systemd = _Systemd()
    args: dict[str, Any] = {}
    env: dict[str, Any] = {}


class _Patches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: tuple[str, ...] = ()


class _Bench(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    concurrency: tuple[int, ...] = (1, 8, 32)
    input_tokens: int = 1024
    output_tokens: int = 256
    repeats: int = 1
    requests_per_stream: int = 4
    request_rate: float | None = None
    arrival: str = "poisson"
    burst: int = 1
    input_spread: float = 0.0
    output_spread: float = 0.0
    ignore_eos: bool = True
    api: str = ""


class _Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ttft_ms: float | None = None
    itl_ms: float | None = None
    e2el_ms: float | None = None


class _Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    output_tok_s: float | None = None
    origin: str = msgspec.field(default="", name="from")


class _Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int = SCHEMA
    title: str = ""
    extends: str = ""
    host: _Host = _Host()
    engine: _Engine = _Engine()
    launch: _Launch = _Launch()
    patches: _Patches = _Patches()
    bench: _Bench = _Bench()
    limits: _Limits = _Limits()
    target: _Target = _Target()
    winner: dict[str, Any] | None = None


def load_profile(path: Path) -> Profile:
    """Read a profile and the ones it extends.

    Raises:
        FormatError: A file is wrong; the title names file, line and key.
    """
    return _profile(read_toml(path))


def parse_profile(text: str, path: str) -> Profile:
    """Return the profile of a text that stands, or stood, in the file `path`."""
    return _profile(parse_toml(text.encode(), path))


def _profile(file: TomlFile) -> Profile:
    chain = chain_of(file)
    part = _merged(chain)
    host = HostSection(part.host.ssh, part.host.container, part.host.runtime, part.host.nodes)
    launch = _launch(part.launch, file)
    must_be_whole(launch, host, file)
    return Profile(
        name=Path(file.path).stem,
        path=file.path,
        title=part.title,
        host=host,
        engine=EngineSection(part.engine.kind, part.engine.python, part.engine.command),
        launch=launch,
        patches_on=part.patches.on,
        bench=_bench(part.bench, file),
        limits=LimitsSection(part.limits.ttft_ms, part.limits.itl_ms, part.limits.e2el_ms),
        target=TargetSection(part.target.output_tok_s, part.target.origin),
        winner=part.winner,
        layers=tuple(each.path for each in chain),
        origins=origins_of(chain),
    )


def _merged(chain: list[TomlFile]) -> _Profile:
    """Return the layers laid over each other; a fault is told of the file that brings it in."""
    merged: dict[str, Any] = {}
    part = _Profile()
    for file in reversed(chain):
        merged.pop("winner", None)  # evidence belongs to the file that it was measured for
        merged = laid_over(merged, file.data)
        part = _convert(merged, file)
    return part


def _convert(data: Mapping[str, Any], file: TomlFile) -> _Profile:
    try:
        part = msgspec.convert(data, _Profile, strict=True)
    except msgspec.ValidationError as error:
        raise told(str(error), file, _Profile) from error
    if part.schema != SCHEMA:
        raise file.fault(("schema",), f"is {part.schema}; this tokwatt reads schema {SCHEMA}")
    _launch(part.launch, file)
    _bench(part.bench, file)
    return part


def told(said: str, file: TomlFile, root: Any) -> FormatError:
    """Return what msgspec says of a file as an error with line and key.

    Args:
        said: Its words.
        file: What was converted.
        root: The type that it was to become.
    """
    match = _PLACE.match(said)
    what, place = (match["what"], match["place"] or "") if match else (said, "")
    key: KeyPath = tuple(int(index) if index else name for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", place))
    if unknown := _UNKNOWN.search(what):
        name, known = unknown["name"], _known(key, root)
        return file.fault((*key, name), "is not a known key", paths.nearest(name, known) or _list(known))
    wrong = re.match(r"Expected `([^`]*)`, got `([^`]*)`", what)
    if wrong:
        return file.fault(key, f"must be {_word(wrong[1])}, not {_word(wrong[2])}")
    return file.fault(key, what)


def _known(key: KeyPath, root: Any) -> list[str]:
    part: Any = root
    for name in key:
        if isinstance(name, int):  # an element of an array of tables
            part = next(iter(get_args(part)), None)
        elif _is_struct(part):
            part = {field.encode_name: field.type for field in msgspec.structs.fields(part)}.get(name)
        else:
            return []
    return [field.encode_name for field in msgspec.structs.fields(part)] if _is_struct(part) else []


def _is_struct(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, msgspec.Struct)


def _list(names: list[str]) -> str:
    return f"known here: {', '.join(names)}" if names else ""


def _word(kind: str) -> str:
    words = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false"}
    words |= {"object": "a table", "array": "an array", "null": "nothing"}
    return " or ".join(words.get(part.strip(), part.strip()) for part in kind.split("|") if part.strip() != "null")


def _launch(part: _Launch, file: TomlFile) -> LaunchSection:
    if not 1 <= part.port <= 65535:
        raise file.fault(("launch", "port"), f"is {part.port}; a TCP port is 1 to 65535")
    args: dict[str, ArgValue] = {}
    secret_args: dict[str, Secret] = {}
    for name, value in part.args.items():
        key: KeyPath = ("launch", "args", name)
        if (secret := _secret(value)) is not None and is_secret_name(name):
            secret_args[name] = secret if secret.name else Secret(secret.source, name.upper().replace("-", "_"))
        else:
            args[name] = argument(key, value, file)
    env, unset = variables(("launch", "env"), part.env, file)
    docker, slurm, systemd = part.docker, part.slurm, part.systemd
    section = LaunchSection(
        part.port,
        part.workdir,
        args,
        env,
        unset,
        secret_args,
        part.via,
        DockerSection(docker.image, docker.options, docker.name, docker.entrypoint, docker.runtime),
        SlurmSection(slurm.partition, slurm.options),
        SystemdSection(systemd.manager, properties(systemd.properties, file), systemd.options),
    )
    checked(section, file)
    return section


def _secret(value: object) -> Secret | None:
    if not isinstance(value, Mapping) or value.get("from") not in _SOURCES or not set(value) <= {"from", "name"}:
        return None
    name = value.get("name", "")
    return Secret(value["from"], name) if isinstance(name, str) else None


def argument(key: KeyPath, value: object, file: TomlFile) -> ArgValue:
    """Return a launch argument as it is used; its name is the last part of `key`."""
    name = str(key[-1])
    if name == "port":
        raise file.fault(key, "does not belong here", "write port = … under [launch]")
    if name.startswith("-"):
        raise file.fault(key, "starts with a dash", f"write {name.lstrip('-')} = …")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise file.fault(key, "is not the name of a flag")
    if isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, list):
        values = tuple(item for item in value if isinstance(item, (str, int, float)) and not isinstance(item, bool))
        if len(values) != len(value):
            raise file.fault(key, "must hold strings or numbers only", "a table becomes JSON")
        return values
    if isinstance(value, Mapping):
        if "from" in value and set(value) <= {"from", "name"}:
            raise file.fault(key, "asks for a secret; arguments are readable by every login of the host", "use env")
        return dict(value)
    raise file.fault(key, f"cannot be {kind_word(value)}")


def variables(
    key: KeyPath, values: Mapping[str, object], file: TomlFile
) -> tuple[dict[str, str | Secret], tuple[str, ...]]:
    """Return a table of environment variables as they are used, and the names of those that are taken away."""
    unset = tuple(name for name, value in values.items() if value is False)
    for name in unset:
        variable((*key, name), "", file)  # the name must be one
    return {name: variable((*key, name), value, file) for name, value in values.items() if value is not False}, unset


def variable(key: KeyPath, value: object, file: TomlFile) -> str | Secret:
    """Return an environment variable as it is used; its name is the last part of `key`."""
    name = str(key[-1])
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise file.fault(key, "is not the name of an environment variable")
    if isinstance(value, str):
        if "\0" in value:
            raise file.fault(key, "holds a NUL")
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):
        if (secret := _secret(value)) is not None:
            return secret
        raise file.fault(key, 'must be a string or { from = "env" } or { from = "host-env" }')
    raise file.fault(key, f"must be a string, not {kind_word(value)}", 'write "1" or "0"; false takes a variable away')


def _bench(part: _Bench, file: TomlFile) -> BenchSection:
    for index, value in enumerate(part.concurrency):
        if value < 1:
            raise file.fault(("bench", "concurrency", index), f"is {value}; at least one stream is needed")
    for name in ("input_tokens", "output_tokens", "repeats", "requests_per_stream", "burst"):
        if getattr(part, name) < 1:
            raise file.fault(("bench", name), f"is {getattr(part, name)}; it must be 1 or more")
    if part.request_rate is not None and not 0 < part.request_rate < math.inf:
        raise file.fault(("bench", "request_rate"), f"is {part.request_rate:g}; it must be over 0 requests a second")
    for name in ("input_spread", "output_spread"):
        if not 0 <= getattr(part, name) < 1:
            raise file.fault(("bench", name), f"is {getattr(part, name):g}; it must be at least 0 and below 1")
    for name, known in BENCH_WORDS.items():
        if getattr(part, name) not in ("", *known):
            raise file.fault(("bench", name), f"is {getattr(part, name)!r}", f"known: {', '.join(known)}")
    return BenchSection(**msgspec.structs.asdict(part))

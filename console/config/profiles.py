"""Profiles: TOML to `Profile`, every fault with file, line and key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from console.config import paths
from console.config.lines import KeyPath, TomlFile, parse_toml, read_toml
from console.domain.profile import (
    ArgValue,
    BenchSection,
    EngineSection,
    HostSection,
    LaunchSection,
    LimitsSection,
    Profile,
    Secret,
    TargetSection,
)
from console.errors import FormatError, UsageError

SCHEMA = 1

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<place>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")
_SOURCES = ("env", "host-env")
_DEPTH_LIMIT = 10


class _Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ssh: str = ""
    container: str = ""
    runtime: str = "docker"


class _Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str = "sglang"
    python: str = ""


class _Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: int = 30000
    workdir: str = ""
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
    part = _convert(_layers(file, ()), file)
    return Profile(
        name=Path(file.path).stem,
        path=file.path,
        title=part.title,
        host=HostSection(part.host.ssh, part.host.container, part.host.runtime),
        engine=EngineSection(part.engine.kind, part.engine.python),
        launch=_launch(part.launch, file),
        patches_on=part.patches.on,
        bench=_bench(part.bench, file),
        limits=LimitsSection(part.limits.ttft_ms, part.limits.itl_ms, part.limits.e2el_ms),
        target=TargetSection(part.target.output_tok_s, part.target.origin),
        winner=part.winner,
    )


def _layers(file: TomlFile, seen: tuple[str, ...]) -> dict[str, Any]:
    """Return the file's tables laid over those of what it extends."""
    base = file.data.get("extends")
    own = dict(file.data)
    if not base:
        return own
    if not isinstance(base, str):
        raise file.fault(("extends",), f"must be a name or a path, not {_kind(base)}")
    here = str(Path(file.path).resolve())
    if here in seen or len(seen) > _DEPTH_LIMIT:
        raise file.fault(("extends",), f"goes in a circle: {' → '.join([*map(_stem, seen), _stem(here)])}")
    beside = Path(file.path).parent / (base if base.endswith(".toml") else f"{base}.toml")
    try:
        found = beside if beside.is_file() else paths.find_profile(base)
    except UsageError as error:
        raise file.fault(("extends",), f"= {base!r}: no such profile", error.hint) from error
    below = read_toml(found)
    merged = _layers(below, (*seen, here))
    _convert(merged, below)  # a fault of the base is told with the base's own line
    merged.pop("winner", None)
    merged.pop("extends", None)
    return _laid_over(merged, own)


def _laid_over(below: dict[str, Any], above: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        deeper = isinstance(under, dict) and isinstance(value, dict) and depth < 2
        result[key] = _laid_over(under, value, depth + 1) if deeper and isinstance(under, dict) else value
    return result


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


def _kind(value: object) -> str:
    words = {bool: "true or false", str: "a string", int: "an integer", float: "a number", list: "an array"}
    return words.get(type(value), "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}")


def _stem(path: str) -> str:
    return Path(path).stem


def _launch(part: _Launch, file: TomlFile) -> LaunchSection:
    if not 1 <= part.port <= 65535:
        raise file.fault(("launch", "port"), f"is {part.port}; a TCP port is 1 to 65535")
    args = {name: argument(("launch", "args", name), value, file) for name, value in part.args.items()}
    env = {name: variable(("launch", "env", name), value, file) for name, value in part.env.items()}
    return LaunchSection(part.port, part.workdir, args, env)


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
        if set(value) == {"from"}:
            raise file.fault(key, "asks for a secret; arguments are readable by every login of the host", "use env")
        return dict(value)
    raise file.fault(key, f"cannot be {_kind(value)}")


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
        if set(value) == {"from"} and value["from"] in _SOURCES:
            return Secret(str(value["from"]))
        raise file.fault(key, 'must be a string or { from = "env" } or { from = "host-env" }')
    raise file.fault(key, f"must be a string, not {_kind(value)}", 'write "1" or "0"')


def _bench(part: _Bench, file: TomlFile) -> BenchSection:
    for index, value in enumerate(part.concurrency):
        if value < 1:
            raise file.fault(("bench", "concurrency", index), f"is {value}; at least one stream is needed")
    for name in ("input_tokens", "output_tokens", "repeats", "requests_per_stream"):
        if getattr(part, name) < 1:
            raise file.fault(("bench", name), f"is {getattr(part, name)}; it must be 1 or more")
    return BenchSection(part.concurrency, part.input_tokens, part.output_tokens, part.repeats, part.requests_per_stream)

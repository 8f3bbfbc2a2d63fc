"""Profiles that extend others: which files, which of them a value comes from, and what is laid over what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from console.config import paths
from console.config.commands.dialects import dialect
from console.config.lines import TomlFile, dotted, kind_word, read_toml
from console.errors import FormatError, UsageError

_DEPTH_LIMIT = 10
_TABLES = frozenset(("launch", name) for name in ("args", "env", "docker", "slurm", "systemd"))
"""Tables in tables; elsewhere below the top a table is a value."""


def chain_of(file: TomlFile) -> list[TomlFile]:
    """Return the file and what it extends, its own first."""
    chain, seen = [file], [str(Path(file.path).resolve())]
    while base := chain[-1].data.get("extends"):
        above = chain[-1]
        if not isinstance(base, str):
            raise above.fault(("extends",), f"must be a name or a path, not {kind_word(base)}")
        below = _base(above, base)
        here = str(Path(below.path).resolve())
        if here in seen or len(seen) > _DEPTH_LIMIT:
            circle = [Path(each).stem for each in [*seen, here]]
            raise above.fault(("extends",), f"goes in a circle: {' → '.join(circle)}")
        chain.append(below)
        seen.append(here)
    return chain


def _base(above: TomlFile, base: str) -> TomlFile:
    """Return the file that another one extends: beside it, by its path, or by its name."""
    beside = Path(above.path).parent / Path(base if base.endswith(".toml") else f"{base}.toml").expanduser()
    try:
        same = beside.is_file() and beside.resolve() == Path(above.path).resolve()
        if beside.is_file() and not (same and "/" not in base):
            return read_toml(beside)
        return read_toml(_below(above, base) if same else paths.find_profile(base))
    except UsageError as error:
        if isinstance(error, FormatError):
            raise
        raise above.fault(("extends",), f"= {base!r}: no such profile", error.hint) from error


def _below(above: TomlFile, base: str) -> Path:
    """Return the profile of a name that the file itself has: an own `glm` may extend the shipped `glm`."""
    here = Path(above.path).resolve()
    for folder in paths.profile_folders():
        path = folder / f"{base.removesuffix('.toml')}.toml"
        if path.is_file() and path.resolve() != here:
            return path
    return Path(above.path)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a file over those of what it extends; another spelling of a flag replaces the flag."""
    made = _over(below, above, 0)
    engine = made.get("engine")
    kind = engine.get("kind", "sglang") if isinstance(engine, Mapping) else "sglang"
    same = dialect(kind if isinstance(kind, str) else "").same
    own, args = _args(above), _args(made)
    named = {same.get(name, name) for name in own}
    stale = [name for name in args if name not in own and same.get(name, name) in named]
    if stale:
        args = {name: value for name, value in args.items() if name not in stale}
        made["launch"] = {**made["launch"], "args": args}
    return made


def _args(data: Mapping[str, Any]) -> Mapping[str, Any]:
    launch = data.get("launch")
    args = launch.get("args") if isinstance(launch, Mapping) else None
    return args if isinstance(args, Mapping) else {}


def _over(below: Mapping[str, Any], above: Mapping[str, Any], depth: int) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        deeper = isinstance(under, Mapping) and isinstance(value, Mapping) and depth < 2
        result[key] = _over(under, value, depth + 1) if deeper and isinstance(under, Mapping) else value
    return result


def origins_of(chain: Sequence[TomlFile]) -> dict[str, tuple[str, int]]:
    """Return file and line of every value, that of the topmost file which has it."""
    found: dict[str, tuple[str, int]] = {}
    for file in chain:
        for key in _leaves(file.data, ()):
            if file is chain[0] or key[0] not in ("winner", "extends"):
                found.setdefault(dotted(key), (file.path, file.line(key)))
    return found


def _leaves(data: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in data.items():
        here = (*above, key)
        if isinstance(value, Mapping) and (not above or here in _TABLES):
            yield from _leaves(value, here)
        else:
            yield here

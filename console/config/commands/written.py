"""An imported profile as the TOML file that a person would have written, with what was learned as comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tomli_w

from console.config.commands.imported import Imported
from console.config.commands.notes import NOTE, Note
from console.domain.profile import PROCESS, VIA_TABLES, LaunchSection, Profile, Secret

_SAYING_LIMIT = 160


def toml_text(found: Imported, origin: str) -> str:
    """Return the text of the profile's file.

    Args:
        found: The import.
        origin: Where the command came from, for the first line.
    """
    profile = found.profile
    first, last = found.first_line, found.last_line
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    parts = [f"# Imported from {origin}, {lines}."]
    parts += [f"# {_one_line(note.sentence())}" for note in found.notes]
    parts += ["schema = 1", _pair("title", profile.title), *_sections(profile, found.notes)]
    return "\n".join(parts) + "\n"


def _sections(profile: Profile, notes: Iterable[Note]) -> list[str]:
    doubtful = {note.key: note for note in notes if note.key and note.severity != NOTE}
    parts: list[str] = []
    if profile.host.ssh or profile.host.container:
        parts += ["", "[host]"]
        parts += [_pair("ssh", profile.host.ssh)] * bool(profile.host.ssh)
        parts += [_pair("container", profile.host.container)] * bool(profile.host.container)
        parts += [_pair("runtime", profile.host.runtime)] * (profile.host.runtime != "docker")
    parts += ["", "[engine]", _pair("kind", profile.engine.kind)]
    parts += [_pair("python", profile.engine.python)] * bool(profile.engine.python)
    parts += [_pair("command", profile.engine.command)] * bool(profile.engine.command)
    launch = profile.launch
    parts += ["", "[launch]", _pair("port", launch.port)]
    parts += [_pair("workdir", launch.workdir)] * bool(launch.workdir)
    parts += [_pair("via", launch.via)] * (launch.via != PROCESS)
    args: dict[str, object] = {**launch.args, **{name: _secret(value) for name, value in launch.secret_args.items()}}
    if args:
        parts += ["", "[launch.args]", *(_with_note(name, value, doubtful) for name, value in args.items())]
    env: dict[str, object] = {
        name: _secret(value) if isinstance(value, Secret) else value for name, value in launch.env.items()
    }
    env |= dict.fromkeys(launch.unset, False)
    parts += _via(launch)
    if env:
        parts += ["", "[launch.env]", *(_with_note(name, value, doubtful) for name, value in env.items())]
    return parts


def _via(launch: LaunchSection) -> list[str]:
    """Return the table of the way that a launch goes, without what is usual."""
    if launch.via not in VIA_TABLES:
        return []
    pairs = {key: value for key, value in launch.via_values.items() if value and (key, value) != ("runtime", "docker")}
    return ["", f"[launch.{VIA_TABLES[launch.via]}]", *(_pair(name, value) for name, value in pairs.items())]


def _secret(value: Secret) -> dict[str, object]:
    return {"from": value.source, "name": value.name} if value.name else {"from": value.source}


def _with_note(name: str, value: object, doubtful: Mapping[str, Note]) -> str:
    note = doubtful.get(name)
    return _pair(name, value) + (f"  # {note.severity}, line {note.line}" if note is not None and note.line else "")


def _pair(name: str, value: object) -> str:
    key = tomli_w.dumps({name: 0}).rpartition(" = ")[0]
    return f"{key} = {inline(value)}"


def inline(value: object) -> str:
    """Return a value on one line: tables and arrays too."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pair(str(key), item) for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, str) and '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"  # JSON reads best as it was typed
    return tomli_w.dumps({"k": value}).removeprefix("k = ").removesuffix("\n")


def _one_line(text: str) -> str:
    kept = "".join(sign if sign.isprintable() else "?" for sign in text)
    return kept if len(kept) <= _SAYING_LIMIT else kept[: _SAYING_LIMIT - 1] + "…"

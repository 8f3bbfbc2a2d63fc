"""What every engine's command line has in common: words of a flag, secrets taken out, asked for beside in force."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Mapping, Sequence

from console.domain.profile import ArgValue, Profile
from console.engines.protocol import Difference

REDACTED = "•••"


def words_of(args: Mapping[str, ArgValue], repeated: Collection[str] = ()) -> list[str]:
    """Return the words of the arguments of a profile, in its order.

    Args:
        args: Flags without `--`.
        repeated: Flags that are given once for each of several values.
    """
    found: list[str] = []
    for name, value in args.items():
        if name in repeated and isinstance(value, tuple):
            for item in value:
                found += flag(name, item)
        else:
            found += flag(name, value)
    return found


def flag(name: str, value: ArgValue) -> list[str]:
    """Return the words of one flag; `False` is a flag that is not given."""
    if value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, Mapping):
        return [f"--{name}", json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
    if isinstance(value, tuple):
        return [f"--{name}", *(_word(item) for item in value)]
    return [f"--{name}", _word(value)]


def redacted(words: Sequence[str], secret_flags: Collection[str]) -> tuple[str, ...]:
    """Return an argument list with the values of secret flags taken out, also where a flag has several."""
    shown: list[str] = []
    secret = False
    for word in words:
        if word.startswith("-") and not _is_number(word):
            head, equals, _ = word.partition("=")
            named = head.startswith("--") and head.lstrip("-").replace("_", "-") in secret_flags
            secret = named and not equals
            shown.append(f"{head}={REDACTED}" if named and equals else word)
        else:
            shown.append(REDACTED if secret else word)
    return tuple(shown)


def ports_of(args: Mapping[str, ArgValue], names: Sequence[str]) -> dict[int, str]:
    """Return the ports that flags or variables of these names give."""
    found: dict[int, str] = {}
    for name in names:
        value = args.get(name)
        text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
        if text.isdigit() and 0 < int(text) < 65536:
            found[int(text)] = name
    return found


def absolute(args: Mapping[str, ArgValue], names: Sequence[str]) -> tuple[str, ...]:
    """Return the values of flags that are absolute paths."""
    found = [args.get(name) for name in names]
    return tuple(path for path in found if isinstance(path, str) and path.startswith("/"))


def differences(
    profile: Profile, resolved: Mapping[str, object], same_as: Mapping[str, str], port_key: str = ""
) -> tuple[Difference, ...]:
    """Return the arguments that are in force otherwise than asked for.

    Args:
        profile: What was asked for.
        resolved: What is in force, by names with underscores.
        same_as: Other spellings of flags, to the one whose name stands in `resolved`.
        port_key: Name of the port in `resolved`, where it is told.
    """
    found = []
    for name, value in profile.launch.args.items():
        key = same_as.get(name, name).replace("-", "_")
        if key not in resolved or value is False:
            continue
        asked = list(value) if isinstance(value, tuple) else value
        if not same(asked, resolved[key]):
            found.append(Difference(name, asked, resolved[key]))
    if port_key in resolved and resolved[port_key] != profile.launch.port:
        found.append(Difference("port", profile.launch.port, resolved[port_key]))
    return tuple(found)


def same(asked: object, in_force: object) -> bool:
    """Return whether two values of an argument mean one thing, however they are written."""
    if isinstance(asked, Mapping) and isinstance(in_force, str):
        try:
            in_force = json.loads(in_force)
        except ValueError:
            return False
    if isinstance(asked, str) and isinstance(in_force, Mapping):
        try:
            asked = json.loads(asked)
        except ValueError:
            return False
    if isinstance(in_force, tuple):
        in_force = list(in_force)
    if isinstance(in_force, list) and len(in_force) == 1 and not isinstance(asked, list):
        in_force = in_force[0]
    if isinstance(asked, bool) or isinstance(in_force, bool):
        return asked is in_force
    if isinstance(asked, (int, float)) and isinstance(in_force, (int, float)):
        return float(asked) == float(in_force)
    return asked == in_force or str(asked) == str(in_force)


def keywords(body: str) -> dict[str, object]:
    """Return the `name=value` pairs of a call's inside; a value that is no literal stays text."""
    found: dict[str, object] = {}
    for part in split(body):
        name, equals, value = part.strip().partition("=")
        if equals and name.isidentifier():
            found[name] = literal(value)
    return found


def mapping(text: str) -> dict[str, object]:
    """Return a dict as Python prints it; a value that is no literal stays text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pairs = (part.strip().partition(": ") for part in split(text.strip()[1:-1]))
        return {str(literal(name)): literal(value) for name, colon, value in pairs if colon}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def split(body: str) -> list[str]:
    """Split at commas that stand in no bracket and no quotes."""
    parts, depth, quote, start, at = [], 0, "", 0, 0
    while at < len(body):
        mark = body[at]
        if quote:
            if mark == "\\":
                at += 1
            elif mark == quote:
                quote = ""
        elif mark in "'\"":
            quote = mark
        elif mark in "([{<":
            depth += 1
        elif mark in ")]}>":
            depth -= 1
        elif mark == "," and depth == 0:
            parts.append(body[start:at])
            start = at + 1
        at += 1
    return [*parts, body[start:]]


def literal(text: str) -> object:
    """Return the value of a literal, or its text."""
    try:
        value: object = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text.strip()
    return value


def _word(value: str | int | float) -> str:
    return value if isinstance(value, str) else repr(value)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True

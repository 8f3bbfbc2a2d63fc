"""The command line of an SGLang launch, and how what was asked for compares with what is in force."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence

from console.domain.profile import ArgValue, Profile
from console.engines.protocol import Difference

SECRET_FLAGS = ("api-key", "admin-api-key", "ssl-keyfile-password")
REDACTED = "•••"

SHORT = {
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "ep": "ep-size",
    "ep-size": "ep-size",
    "expert-parallel-size": "ep-size",
    "model": "model-path",
}
"""Other spellings of one flag."""


def command(profile: Profile) -> tuple[str, ...]:
    """Return the exact argument list of a launch."""
    words = [profile.engine.python or "python3", "-m", "sglang.launch_server"]
    for name, value in profile.launch.args.items():
        words += flag(name, value)
    return (*words, "--port", str(profile.launch.port))


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


def redacted(words: Sequence[str]) -> tuple[str, ...]:
    """Return an argument list with the values of secret flags taken out."""
    shown: list[str] = []
    for index, word in enumerate(words):
        name = words[index - 1].lstrip("-") if index else ""
        head, equals, _ = word.partition("=")
        if name in SECRET_FLAGS and words[index - 1].startswith("--"):
            shown.append(REDACTED)
        elif equals and head.startswith("--") and head.lstrip("-") in SECRET_FLAGS:
            shown.append(f"{head}={REDACTED}")
        else:
            shown.append(word)
    return tuple(shown)


def model_paths(profile: Profile) -> tuple[str, ...]:
    """Return the absolute paths of model and tokenizer."""
    found = [profile.launch.args.get(name) for name in ("model-path", "model", "tokenizer-path")]
    return tuple(path for path in found if isinstance(path, str) and path.startswith("/"))


def differences(profile: Profile, resolved: Mapping[str, object]) -> tuple[Difference, ...]:
    """Return the arguments that are in force otherwise than asked for."""
    found = []
    for name, value in profile.launch.args.items():
        key = SHORT.get(name, name).replace("-", "_")
        if key not in resolved or value is False:
            continue
        asked = list(value) if isinstance(value, tuple) else value
        if not _same(asked, resolved[key]):
            found.append(Difference(name, asked, resolved[key]))
    return tuple(found)


def resolved_from_log(message: str) -> Mapping[str, object]:
    """Return the arguments of a `server_args=ServerArgs(…)` or `server_args={…}` line; empty when it is none."""
    match = re.search(r"server_args=(ServerArgs\(|\{)", message)
    if match is None:
        return {}
    body = message[match.end() :].rstrip()
    return _keywords(body[:-1]) if match[1] != "{" else _mapping("{" + body)


def _keywords(body: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for part in _split(body):
        name, equals, value = part.strip().partition("=")
        if equals and name.isidentifier():
            found[name] = _literal(value)
    return found


def _mapping(text: str) -> dict[str, object]:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pairs = (part.strip().partition(": ") for part in _split(text.strip()[1:-1]))
        return {str(_literal(name)): _literal(value) for name, colon, value in pairs if colon}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _split(body: str) -> list[str]:
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


def _literal(text: str) -> object:
    try:
        value: object = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text.strip()
    return value


def _word(value: str | int | float) -> str:
    return value if isinstance(value, str) else repr(value)


def _same(asked: object, in_force: object) -> bool:
    if isinstance(asked, Mapping) and isinstance(in_force, str):
        try:
            in_force = json.loads(in_force)
        except ValueError:
            return False
    if isinstance(in_force, tuple):
        in_force = list(in_force)
    if isinstance(asked, bool) or isinstance(in_force, bool):
        return asked is in_force
    if isinstance(asked, (int, float)) and isinstance(in_force, (int, float)):
        return float(asked) == float(in_force)
    return asked == in_force or str(asked) == str(in_force)

"""JSON values of flags, and the ways in which a shell or a person breaks them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence

from console.config.commands.expand import Field
from console.config.commands.notes import ERROR, WARNING, Note

_PYTHON_LIMIT = 100_000


def judged(flag: str, values: Sequence[Field], text: str) -> tuple[Note | None, str]:
    """Return what is wrong with a JSON value, and the JSON that was meant.

    Args:
        flag: The flag without dashes.
        values: Its values after the shell's work.
        text: The whole source, for what was typed.
    """
    if values and values[0].text.startswith(("{{", "{%", "{#")):
        return None, ""  # a chat template
    if not values or (not values[0].text.lstrip("'\"").startswith(("{", "[{")) and not values[0].bare_braces):
        return None, ""
    line, value = values[0].line, values[0].text
    if re.fullmatch(r"\{\w+\}", value):
        return Note(WARNING, f"--{flag}: {value} stands for something: write its value", line, flag), ""
    if len(values) > 1 and all(is_json(one.text) or not one.text.startswith(("{", "[", "'", '"')) for one in values):
        return None, ""  # several values, each whole
    if len(values) == 1 and is_json(value) and not _split_by_bash(values):
        if values[0].literal_dollar and (name := re.search(r"\$\{?[A-Za-z_]\w*\}?", value)) is not None:
            said = f"--{flag}: {name[0]} stays as it is inside single quotes; no shell fills it in"
            return Note(WARNING, said, line, flag), ""
        return None, ""
    if len(values) == 1 and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" and is_json(value[1:-1]):
        said = f"--{flag}: the value is wrapped in literal quotes, the engine gets {value}"
        return Note(WARNING, said, line, flag, value[1:-1]), value[1:-1]
    if len(values) == 1 and (meant := _python(value)):
        said = f"--{flag}: a Python literal, not JSON; only old versions take it"
        return Note(WARNING, said, line, flag, meant), meant
    joined = " ".join(one.text for one in values)
    if len(values) > 1 and is_json(joined):
        said = f"--{flag}: the shell parts an unquoted variable at its blanks, the engine gets {len(values)} arguments"
        return Note(ERROR, said, line, flag, f"'{joined}'"), joined
    typed = _typed(values, text)
    if is_json(typed):
        count = _arguments(typed, len(values))
        said = f"--{flag}: the shell takes the quotes out of it, the engine gets {' '.join(one.text for one in values)}"
        said += f" in {count} arguments" if count > 1 else ""
        said += "; no JSON. Where no shell reads it (a form, YAML) it is right: --no-shell"
        return Note(ERROR, said, line, flag, f"'{typed}'"), typed
    return Note(ERROR, f"--{flag}: {value} is no JSON{_why(value)}", line, flag), ""


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array."""
    return isinstance(parsed(text), (dict, list))


def parsed(text: str) -> object:
    """Return the value of a JSON text; `None` when it is none."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _why(value: str) -> str:
    try:
        json.loads(value)
    except ValueError as error:
        return f" ({error})"
    except RecursionError:
        return " (nested too deep)"
    return ""


def _split_by_bash(values: Sequence[Field]) -> bool:
    return values[0].bare_braces and "," in values[0].text


def _python(value: str) -> str:
    if len(value) > _PYTHON_LIMIT:
        return ""
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if not isinstance(found, (dict, list)):
        return ""
    try:
        return json.dumps(found, ensure_ascii=False)
    except (TypeError, ValueError):
        return ""


def _typed(values: Sequence[Field], text: str) -> str:
    """Return the source of the values; of `--flag=value` what stands behind the sign."""
    typed = text[values[0].start : values[-1].end]
    return typed.partition("=")[2] if typed.startswith("--") else typed


def _arguments(typed: str, words: int) -> int:
    """Return how many arguments a shell with brace expansion makes of it."""
    if words > 1:
        return words
    depth, commas, quote = 0, 0, ""
    for sign in typed:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "{[") - (sign in "}]")
            commas += sign == "," and depth == 1
    return commas + 1

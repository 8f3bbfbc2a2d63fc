"""Argument lists that no shell has read: a JSON array, a YAML list, a field of a form."""

from __future__ import annotations

import json

from console.config.commands.expand import Field


def plain_commands(text: str) -> list[tuple[Field, ...]]:
    """Return the command of a text in which quotes, braces and dollars mean nothing."""
    listed = _json_array(text)
    if listed is not None:
        return [tuple(Field(word, 1) for word in listed)] if listed else []
    words: list[Field] = []
    for number, line in enumerate(text.split("\n"), 1):
        item = line.strip().rstrip("\\").strip()
        if item.startswith("#"):
            continue
        if item.startswith("- "):
            item = item[2:].strip()
        words += [Field(_unquoted(word), number) for word in _words(item)]
    return [tuple(words)] if words else []


def is_argument_list(text: str) -> bool:
    """Return whether a text is a JSON array: the arguments of a container or of `exec`."""
    return text.lstrip().startswith("[") and _json_array(text) is not None


def _json_array(text: str) -> list[str] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return [str(word) for word in found] if isinstance(found, list) else None


def _unquoted(word: str) -> str:
    whole = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if whole else word


def _words(line: str) -> list[str]:
    """Part a line at blanks that stand in no quotes and no brackets."""
    found, start, depth, quote = [], 0, 0, ""
    for at, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
        elif sign in " \t" and depth <= 0:
            found.append(line[start:at])
            start = at + 1
    return [word for word in [*found, line[start:]] if word]

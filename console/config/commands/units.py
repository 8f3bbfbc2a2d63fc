"""Launches in files that are no shell scripts, as lines of one: units of systemd and supervisord, Dockerfiles."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

_UNIT = re.compile(r"^[ \t]*ExecStart=|^\[program:[^\]\n]*\]", re.MULTILINE)
_KEY = re.compile(r"[ \t]*(?P<key>[A-Z]\w*|command|environment|directory|[a-z_]+(?=[ \t]*=)) ?=[ \t]*(?P<value>.*)")
_IMAGE = re.compile(r"[ \t]*(?P<word>FROM|RUN|CMD|ENTRYPOINT|ENV|WORKDIR|EXPOSE|COPY|ARG|USER)[ \t]+(?P<rest>.*)", re.I)

_CONTINUED_LIST = re.compile(
    r"^[ \t]*(?:CMD|ENTRYPOINT)[ \t]*\[(?:[^\]\n]*\\[ \t]*\n)+[^\n]*", re.MULTILINE | re.IGNORECASE
)


def as_script(text: str) -> str:
    """Return a text as shell lines, line for line; unchanged where it is no such file."""
    if _UNIT.search(text) and "<<" not in text:  # a unit in a here-document comes by itself
        return "\n".join(_unit(text.split("\n")))
    text = _CONTINUED_LIST.sub(_on_one_line, text)
    heads = [match["word"] for line in text.split("\n") if (match := _IMAGE.fullmatch(line)) is not None]
    if any(word in ("CMD", "ENTRYPOINT") for word in heads):
        return _by_lines(text, _image_line)
    return text


def _by_lines(text: str, read: Callable[[str], str]) -> str:
    made, continued = [], False
    for line in text.split("\n"):
        made.append(line if continued else read(line))
        continued = line.rstrip().endswith("\\") and bool(made[-1])
    return "\n".join(made)


def _unit(lines: list[str]) -> list[str]:
    """Return the lines of a unit, what stands around its command put in front of it: their order means nothing."""
    made: list[str] = []
    around: list[str] = []
    command, continued = -1, False
    for line in [*lines, "[end]"]:
        match = None if continued else _KEY.fullmatch(line)
        key, value = (match["key"], match["value"]) if match is not None else ("", "")
        if not continued and line.lstrip().startswith("["):
            if command >= 0:
                made[command] = "; ".join([*around, made[command]])
            around, command = [], -1
        if key in ("ExecStart", "command"):
            command = len(made)
            made.append(re.sub(r"^[-@:+!]+", "", value).replace("%%", "%").replace("%h", "$HOME"))
        elif continued:
            made.append(line)
        else:
            around += _around(key, value)
            made.append("")
        continued = line.rstrip().endswith("\\") and bool(made[-1])
    return made[:-1]


def _around(key: str, value: str) -> list[str]:
    if key == "environment":
        return ["export " + re.sub(r",(?=\w+=)", " ", value)]
    if key == "Environment":
        return ["export " + value]
    if key in ("WorkingDirectory", "directory"):
        return ["cd " + value.lstrip("-")]
    return [". " + value.lstrip("-")] if key == "EnvironmentFile" else []


def _image_line(line: str) -> str:
    match = _IMAGE.fullmatch(line)
    if match is None:
        return line
    word, rest = match["word"].upper(), match["rest"]
    if word in ("CMD", "ENTRYPOINT"):
        listed = _listed(rest)
        line = shlex.join(listed) if listed is not None else rest
        return line + (" \\" if word == "ENTRYPOINT" and listed is not None else "")
    if word == "ENV":
        return "export " + (rest if "=" in rest.split(" ", 1)[0] else rest.replace(" ", "=", 1))
    return "cd " + rest if word == "WORKDIR" else ""


def _on_one_line(match: re.Match[str]) -> str:
    joined = re.sub(r"\\[ \t]*\n", " ", match[0])
    return joined + "\n" * match[0].count("\n")


def _listed(text: str) -> list[str] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return [str(word) for word in found] if isinstance(found, list) else None

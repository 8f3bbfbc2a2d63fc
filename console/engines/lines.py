"""Lines that servers of several engines print alike: uvicorn's access lines, progress bars, numbers with units."""

from __future__ import annotations

import math
import re

ACCESS = re.compile(r'INFO:\s+(?:(\S+):(\d+) - )?"([A-Z]+) (\S+) HTTP/[\d.]+" (\d{3})')
ACCESS_LINE = r'INFO:\s+(?:\S+ - )?"[A-Z]+ \S+ HTTP/[^\[\n]*\n?\Z'
"""Matches an access line to its end: nothing else is glued to it."""
BAR = re.compile(
    r"\s*(?P<label>[^|]*?):?\s*(?P<pct>\d{1,3})%(?: Completed)? ?\|(?P<glyphs>[^|]*\|)? ?(?P<done>\d+)/(?P<total>\d+)"
    r"(?: \[(?P<spent>[\d:?]+)<(?P<left>[\d:?]+),\s*(?P<rate>[^\]]*)\])?"
)
BAR_LIMIT = 400
ACCESS_LIMIT = 4096

_UNITS = (
    (re.compile(r"(?P<number>\S+) tokens/s"), "_tok_s"),
    (re.compile(r"(?P<number>\S+) reqs?"), "_req"),
    (re.compile(r"(?P<number>\S+) tokens"), "_tokens"),
    (re.compile(r"(?P<number>\S+) GiB"), "_gib"),
    (re.compile(r"(?P<number>\S+) (?:s|secs?|seconds)"), "_s"),
    (re.compile(r"(?P<number>[\w.+-]+)%"), "_pct"),
)


Phases = tuple[tuple[str, str, re.Pattern[str]], ...]
"""Name of a start-up step, `begin`, `point` or `end`, and how a message begins that tells it."""


def phases(*rows: tuple[str, str, str]) -> Phases:
    """Return a table of start-up messages, its patterns compiled."""
    return tuple((name, step, re.compile(pattern)) for name, step, pattern in rows)


def access(message: str) -> dict[str, object] | None:
    """Return method, path and status of uvicorn's access line; `None` when it is none."""
    found = ACCESS.match(message[:ACCESS_LIMIT]) if '"' in message[:200] else None
    return {"method": found[3], "path": found[4], "code": int(found[5])} if found else None


def progress(message: str) -> dict[str, object] | None:
    """Return where a progress bar stands; `None` when it is none."""
    bar = BAR.match(message[:BAR_LIMIT]) if "%" in message and "|" in message else None
    if bar is None:
        return None
    values: dict[str, object] = {
        "label": bar["label"].strip(),
        "done": int(bar["done"]),
        "total": int(bar["total"]),
        "pct": int(bar["pct"]),
    }
    for name in ("spent", "left"):
        if bar[name] and "?" not in bar[name]:
            seconds = 0
            for part in bar[name].split(":"):
                seconds = seconds * 60 + int(part or 0)
            values[f"{name}_s"] = seconds
    return values


def number(text: str) -> object:
    """Return a number; `None` for nan and inf, the text for what is none."""
    plain = text.replace(",", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        value = float(plain)
    except ValueError:
        return text
    return value if math.isfinite(value) else None


def measured(name: str, text: str) -> tuple[str, object]:
    """Return a name with its unit, and the number before that unit: `105.8 tokens/s`, `3 reqs`, `0.3%`."""
    for pattern, suffix in _UNITS:
        if found := pattern.fullmatch(text):
            value = number(found["number"])
            if not isinstance(value, str):
                return f"{name.removesuffix(suffix)}{suffix}", value
    return name, number(text)


def word(key: str) -> str:
    """Return a key as a name: small letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")

"""`ssh_config` files, read as OpenSSH reads them; one bad line never takes other hosts away.

The grammar is kept apart from asyncssh's, which refuses what OpenSSH accepts (comments behind a
value, `30s`) and gives up on every host when one block is wrong.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DEPTH_LIMIT = 16

_LINE = re.compile(r'\s*"?([A-Za-z][A-Za-z0-9]*)"?(?:\s*=\s*|\s+|$)(.*)', re.DOTALL)
_RAW = {"proxycommand", "remotecommand", "localcommand", "knownhostscommand"}
_LISTS = {
    "host", "match", "include", "sendenv", "setenv", "userknownhostsfile", "globalknownhostsfile",
    "canonicaldomains", "canonicalizepermittedcnames", "ignoreunknown", "ipqos", "logverbose",
    "localforward", "remoteforward", "permitremoteopen", "rekeylimit", "channeltimeout",
}  # fmt: skip
_TIMES = {"connecttimeout", "serveraliveinterval", "forwardx11timeout", "controlpersist"}
_INTEGERS = {"serveralivecountmax", "connectionattempts", "numberofpasswordprompts", "canonicalizemaxdots"}
_TIME = re.compile(r"(?:\d+[smhdw]?)+", re.IGNORECASE)
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

CRITERIA = ("host", "originalhost", "user", "localuser", "exec", "tagged", "localnetwork")
"""Conditions of `Match` that take a value."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting as it stands in a file."""

    keyword: str
    """As written."""
    values: tuple[str, ...]
    file: str
    line: int
    problem: str = ""
    """Why OpenSSH refuses the line; empty when it does not."""
    included: tuple[Block, ...] = ()
    """What an `Include` brings in."""
    text: str = ""

    @property
    def key(self) -> str:
        """The keyword in lower case."""
        return self.keyword.lower()

    @property
    def where(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class Block:
    """The lines under one `Host` or `Match`, or before the first."""

    head: Entry | None = None
    entries: list[Entry] = field(default_factory=list)


def seconds(text: str) -> int | None:
    """Return an OpenSSH time (`90`, `30s`, `1h30m`) in seconds, `None` when it is none."""
    if not _TIME.fullmatch(text):
        return None
    parts = re.findall(r"(\d+)([smhdw]?)", text.lower())
    return sum(int(number) * _UNIT_S[unit] for number, unit in parts)


def split_words(text: str) -> list[str]:
    """Return the words of a line as OpenSSH splits them: quotes, backslashes, a comment ends it.

    Raises:
        ValueError: A quote is not closed.
    """
    words: list[str] = []
    at, size = 0, len(text)
    while at < size:
        if text[at] in " \t":
            at += 1
            continue
        if text[at] == "#":
            break
        word, quote = "", ""
        while at < size:
            char = text[at]
            after = text[at + 1] if at + 1 < size else ""
            if char == "\\" and (after in ("'", '"', "\\") or (after == " " and not quote)) and after:
                word += after
                at += 1
            elif not quote and char in " \t":
                break
            elif char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            else:
                word += char
            at += 1
        if quote:
            raise ValueError("invalid quotes")
        words.append(word)
    return words


def read_config(path: Path, home: Path, depth: int = 0) -> tuple[Block, ...]:
    """Return the blocks of a file with everything it includes; a missing file has none.

    Args:
        path: The file.
        home: Folder of the login, for `~` and for relative includes of the user's own files.
        depth: How many files included each other on the way here.
    """
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    blocks = [Block()]
    for number, line in enumerate(text.splitlines(), 1):
        entry = _entry(line, str(path), number)
        if entry is None:
            continue
        if entry.key in ("host", "match"):
            blocks.append(Block(entry))
        elif entry.key == "include" and not entry.problem:
            blocks[-1].entries.append(_included(entry, path, home, depth))
        else:
            blocks[-1].entries.append(entry)
    return tuple(blocks)


def problems(blocks: tuple[Block, ...]) -> Iterator[Entry]:
    """Yield every line that OpenSSH refuses, included files too."""
    for block in blocks:
        if block.head is not None and block.head.problem:
            yield block.head
        for entry in block.entries:
            if entry.problem:
                yield entry
            yield from problems(entry.included)


def aliases(blocks: tuple[Block, ...]) -> list[str]:
    """Return the host names that can be dialled by alias, in the order of the files."""
    names: dict[str, None] = {}
    for block in blocks:
        for entry in block.entries:
            names.update(dict.fromkeys(aliases(entry.included)))
        if block.head is not None and block.head.key == "host":
            names.update(dict.fromkeys(name for name in block.head.values if not set(name) & set("*?!")))
    return list(names)


def _entry(line: str, file: str, number: int) -> Entry | None:
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        return None
    match = _LINE.fullmatch(stripped)
    if match is None:
        return Entry(stripped[:40], (), file, number, "not a setting", text=stripped)
    keyword, rest = match[1], match[2].strip()
    try:
        words = split_words(rest)
    except ValueError as error:
        return Entry(keyword, (), file, number, str(error), text=stripped)
    key = keyword.lower()
    if key in _RAW:
        words = [rest] if rest else []
    return Entry(keyword, tuple(words), file, number, _refusal(key, words), text=stripped)


def _refusal(key: str, words: list[str]) -> str:
    if not words or not words[0]:
        return "missing argument"
    if key == "match":
        return _bad_match(words)
    if key in _TIMES and key != "controlpersist" and words[0].lower() != "none" and seconds(words[0]) is None:
        return "invalid time value"
    if key in _INTEGERS and not words[0].isdigit():
        return "integer value required"
    if key == "port" and not (words[0].isdigit() and 0 < int(words[0]) < 65536):
        return "bad port"
    if key not in _LISTS and len(words) > 1:
        return "extra arguments at the end of the line"
    return ""


def _bad_match(words: list[str]) -> str:
    at = 0
    while at < len(words):
        name, _, value = words[at].lower().removeprefix("!").partition("=")
        at += 1
        if name in ("all", "canonical", "final"):
            continue
        if name not in CRITERIA:
            return f"no such condition: Match {words[at - 1]} (meant Host {words[at - 1]}?)"
        if not value:
            if at >= len(words):
                return f"Match {name} needs a pattern"
            at += 1
    return ""


def _included(entry: Entry, path: Path, home: Path, depth: int) -> Entry:
    if depth >= DEPTH_LIMIT:
        return Entry(entry.keyword, entry.values, entry.file, entry.line, "too many nested includes", text=entry.text)
    blocks: list[Block] = []
    system = path.is_relative_to("/etc/ssh")
    for pattern in entry.values:
        if pattern.startswith("~/"):
            pattern = str(home / pattern[2:])
        elif not pattern.startswith("/"):
            pattern = str((Path("/etc/ssh") if system else home / ".ssh") / pattern)
        for name in sorted(glob.glob(pattern)):
            blocks.extend(read_config(Path(name), home, depth + 1))
    return Entry(entry.keyword, entry.values, entry.file, entry.line, included=tuple(blocks), text=entry.text)

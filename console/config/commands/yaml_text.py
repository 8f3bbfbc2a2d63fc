"""As much of YAML as people write containers in: blocks, lists, quoted and folded text; anchors and tags are passed over."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field

_KEY = re.compile(r"(?P<key>\"[^\"]*\"|'[^']*'|[^\s\"'\[\]{}#&*!|>%@`-][^#]*?|-[^\s#:]+)\s*:(?:\s+(?P<rest>.*)|$)")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(?:#.*)?$")
_PASSED = re.compile(r"(?:[&!]\S*\s+)+")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_DEPTH_LIMIT = 60


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, and where it begins."""

    text: str
    line: int


@dataclass(slots=True)
class Table:
    """Keys and values."""

    items: dict[str, Node] = field(default_factory=dict)
    line: int = 0


@dataclass(slots=True)
class Listing:
    """Values in their order."""

    items: list[Node] = field(default_factory=list)
    line: int = 0


Node = Scalar | Table | Listing


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


class _Reader:
    def __init__(self, text: str) -> None:
        self.raw = text.expandtabs(8).split("\n")
        self.lines = [
            _Line(number, len(line) - len(line.lstrip()), line.strip())
            for number, line in enumerate(self.raw, 1)
            if line.strip() and not line.lstrip().startswith(("#", "---", "..."))
        ]
        self.at = 0

    def block(self, least: int, depth: int = 0) -> Node | None:
        """Return what stands from here on at an indent of at least so much."""
        if self.at >= len(self.lines) or self.lines[self.at].indent < least or depth > _DEPTH_LIMIT:
            return None
        line = self.lines[self.at]
        if line.text == "-" or line.text.startswith("- "):
            return self._listing(line.indent, depth)
        if _KEY.fullmatch(line.text):
            return self._table(line.indent, depth)
        return self._value(line.text, line, line.indent - 1, depth)

    def _listing(self, indent: int, depth: int) -> Listing:
        found = Listing(line=self.lines[self.at].number)
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.indent != indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].lstrip()
            inner = indent + len(line.text) - len(rest) if rest else indent + 1
            if not rest:
                self.at += 1
                node = self.block(indent + 1, depth + 1)
            elif _KEY.fullmatch(rest) and not rest.startswith(('"', "'", "-")):
                self.lines[self.at] = _Line(line.number, inner, rest)
                node = self._table(inner, depth + 1)
            else:
                node = self._value(rest, line, indent, depth)
            if node is not None:
                found.items.append(node)
        return found

    def _table(self, indent: int, depth: int) -> Table:
        found = Table(line=self.lines[self.at].number)
        while self.at < len(self.lines):
            line = self.lines[self.at]
            match = _KEY.fullmatch(line.text) if line.indent == indent else None
            if match is None:
                break
            rest = _PASSED.sub("", (match["rest"] or "").strip() + " ").strip()
            if not rest or rest.startswith("#"):
                self.at += 1
                following = self.lines[self.at] if self.at < len(self.lines) else None
                dashed = following is not None and following.text.startswith("-") and following.indent == indent
                node = self.block(indent if dashed else indent + 1, depth + 1)
            else:
                node = self._value(rest, line, indent, depth)
            found.items[match["key"].strip("\"'")] = node if node is not None else Scalar("", line.number)
        return found

    def _value(self, text: str, line: _Line, indent: int, depth: int) -> Node:
        """Return a value that begins in a line, and go behind it."""
        self.at += 1
        if _BLOCK.match(text):
            return self._text_block(text[0] == ">", line.number, indent)
        more: list[str] = []
        opened = text[0] in "\"'[{"
        while self.at < len(self.lines) and self.lines[self.at].indent > indent:
            if opened and _whole(" ".join([text, *more])):
                break
            more.append(self.lines[self.at].text)
            self.at += 1
        return _flow(" ".join([text, *more]), line.number)

    def _text_block(self, folded: bool, number: int, indent: int) -> Scalar:
        last = number
        while last < len(self.raw):
            line = self.raw[last]
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                break
            last += 1
        lines = self.raw[number:last]
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        lines = [line[margin:].rstrip() for line in lines]
        while self.at < len(self.lines) and self.lines[self.at].number <= last:
            self.at += 1
        return Scalar((" " if folded else "\n").join(lines).strip("\n "), number + 1)


def _whole(text: str) -> bool:
    """Return whether a value that opened a bracket or a quote has closed it; what opened none goes on."""
    if text[0] in "\"'":
        return len(text) > 1 and re.fullmatch(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", _bare(text)) is not None
    depth, quote = 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        else:
            depth += (sign in "[{") - (sign in "]}")
    return depth <= 0


def _bare(text: str) -> str:
    return text if text[0] in "\"'" and text[-1] == text[0] else _COMMENT.sub("", text).strip()


def _flow(text: str, line: int, depth: int = 0) -> Node:
    """Return a value in brackets or quotes, or a plain one."""
    if text[:1] not in ("[", "{") or depth > _DEPTH_LIMIT:
        return Scalar(_unquoted(_bare(text)) if text else "", line)
    text = _COMMENT.sub("", text).strip()
    with contextlib.suppress(ValueError, RecursionError):
        return _of_json(json.loads(text), line)
    if text[-1] != {"[": "]", "{": "}"}[text[0]]:
        return Scalar(text, line)
    parts = _parted(text[1:-1])
    if text[0] == "[":
        return Listing([_flow(part, line, depth + 1) for part in parts], line)
    found = Table(line=line)
    for part in parts:
        key, _, value = part.partition(":")
        found.items[_unquoted(key.strip())] = _flow(value.strip(), line, depth + 1)
    return found


def _parted(text: str) -> list[str]:
    """Part what stands in brackets at its commas."""
    parts, depth, quote, start = [], 0, "", 0
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{" or sign in "]}":
            depth += 1 if sign in "[{" else -1
        elif sign == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def _of_json(value: object, line: int) -> Node:
    if isinstance(value, dict):
        return Table({str(key): _of_json(item, line) for key, item in value.items()}, line)
    if isinstance(value, list):
        return Listing([_of_json(item, line) for item in value], line)
    return Scalar(value if isinstance(value, str) else json.dumps(value), line)


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            found = json.loads(text)
        except ValueError:
            return text[1:-1]
        return str(found)
    return text


def read_yaml(text: str) -> list[Node]:
    """Return the documents of a text, as far as they are read."""
    reader = _Reader(text)
    found: list[Node] = []
    while reader.at < len(reader.lines):
        before = reader.at
        node = reader.block(0)
        if node is not None:
            found.append(node)
        if reader.at == before:
            reader.at += 1
    return found

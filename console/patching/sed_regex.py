"""GNU sed's basic and extended patterns in Python's words, as far as both mean the same."""

from __future__ import annotations

import re

from console.errors import UsageError

_CLASSES = {
    "digit": "0-9", "xdigit": "0-9a-fA-F",
    "space": r" \t\n\r\f\v", "blank": r" \t", "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"),
}  # fmt: skip
_ESCAPES = {"n": r"\n", "t": r"\t", "f": r"\f", "v": r"\v", "r": r"\r", "w": r"\w", "W": r"\W", "s": r"\s", "S": r"\S",
            "b": r"\b", "B": r"\B", "<": r"\b(?=\w)", ">": r"\b(?<=\w)", "`": r"\A", "'": r"\Z"}  # fmt: skip
_SPECIAL = "+?|(){}"


def regex(pattern: str, extended: bool, told: str) -> tuple[str, int]:
    """Return a pattern in Python's words, and how many groups it has.

    Raises:
        UsageError: It uses something where leftmost-longest and leftmost-first can differ, or that
            is not known here.
    """
    out: list[str] = []
    groups, at = 0, 0
    atom = False  # whether something stands before that can be repeated
    closed_group = False
    while at < len(pattern):
        letter = pattern[at]
        token = letter
        if letter == "\\":
            token = pattern[at : at + 2]
            if len(token) < 2:
                raise UsageError("a pattern that ends in a backslash", told)
        at += len(token)
        special = _meaning(token, extended)
        if special in ("+", "?", "*", "{"):
            if not atom:
                out.append(re.escape(token[-1]))
                atom, closed_group = True, False
                continue
            if closed_group:
                raise UsageError("a repeated group: sed's longest match cannot be followed exactly", told)
            text, at = _times(pattern, at, special, extended, told)
            out.append(text)
            atom = False
            continue
        if special == "|":
            raise UsageError("alternation: sed's longest match cannot be followed exactly", told)
        closed_group = special == ")"
        if special in ("(", ")"):
            groups += special == "("
            out.append(special)
            atom = special == ")"
        elif letter == "^" and (extended or not out or out[-1] == "("):
            out.append("^")
            atom = False
        elif letter == "$" and (extended or at == len(pattern) or pattern.startswith(r"\)", at)):
            out.append("$")
            atom = False
        else:
            text, at = _single(pattern, at, token, groups, told)
            out.append(text)
            atom = True
    source = "".join(out)
    try:
        re.compile(source)
    except re.error as error:
        raise UsageError(f"a pattern that cannot be read: {error}", told) from None
    return source, groups


def _single(pattern: str, at: int, token: str, groups: int, told: str) -> tuple[str, int]:
    """Return what one character, class or escape is in Python's words, and where it ends; `at` is behind `token`."""
    if token == "[":
        return _bracket(pattern, at, told)
    if token == ".":
        return r"[\s\S]", at
    return (_escape(token[1], groups, told) if token[0] == "\\" else re.escape(token)), at


def _times(pattern: str, at: int, special: str, extended: bool, told: str) -> tuple[str, int]:
    """Return a repetition in Python's words; `at` is behind its operator, or behind its opening brace."""
    text = special
    if special == "{":
        end = pattern.find("}" if extended else r"\}", at)
        bound = pattern[at:end] if end >= 0 else ""
        if not re.fullmatch(r"\d+(,\d*)?", bound):
            raise UsageError("a repetition that cannot be read", told)
        at = end + (1 if extended else 2)
        text = "{" + bound + "}"
    follows = pattern[at : at + 1]
    if (
        follows == "*"
        or (extended and follows in ("+", "?", "{"))
        or (not extended and pattern[at : at + 2] in (r"\+", r"\?", r"\{"))
    ):
        raise UsageError("a repetition of a repetition", told)
    return text, at


def replacement(text: str, groups: int, told: str) -> tuple[str | int, ...]:
    """Return the parts of a replacement: texts, and numbers of groups."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == "&":
            parts.append(0)
        elif letter != "\\":
            parts.append(letter)
        else:
            follows = text[at : at + 1]
            at += 1
            if follows.isdigit():
                if int(follows) > groups:
                    raise UsageError(f"\\{follows} names a group that is not there", told)
                parts.append(int(follows))
            elif follows in "ULEulcdox" and follows:
                raise UsageError(f"\\{follows} in the replacement cannot be followed", told)
            else:
                parts.append({"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}.get(follows, follows))
    return tuple(parts)


def _meaning(token: str, extended: bool) -> str:
    """Return the operator that a token is; empty for none."""
    if token == "*":
        return "*"
    if extended:
        return token if token in _SPECIAL and token != "}" else ""
    return token[1] if len(token) == 2 and token[1] in _SPECIAL and token[1] != "}" else ""


def _escape(letter: str, groups: int, told: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isdigit():
        if not 0 < int(letter) <= groups:
            raise UsageError(f"\\{letter} names a group that is not there", told)
        return f"(?:\\{letter})"
    if letter.isalpha():
        raise UsageError(f"\\{letter} in the pattern cannot be followed", told)
    return re.escape(letter)


def _bracket(pattern: str, at: int, told: str) -> tuple[str, int]:
    """Return a bracket expression in Python's words; `at` is behind its `[`."""
    out = ["["]
    if pattern[at : at + 1] == "^":
        out.append("^")
        at += 1
    first = True
    while True:
        letter = pattern[at : at + 1]
        if not letter:
            raise UsageError("an unterminated bracket", told)
        if letter == "]" and not first:
            return "".join([*out, "]"]), at + 1
        first = False
        if named := re.compile(r"\[:(\w+):\]").match(pattern, at):
            if named[1] not in _CLASSES:
                raise UsageError(f"the class {named[1]} cannot be followed: it depends on the host's language", told)
            out.append(_CLASSES[named[1]])
            at = named.end()
            continue
        if pattern.startswith(("[.", "[="), at):
            raise UsageError("a collating symbol cannot be followed", told)
        if letter == "\\" and pattern[at + 1 : at + 2] in tuple("ntfvr"):
            out.append("\\" + pattern[at + 1])
            at += 2
            continue
        out.append("\\" + letter if letter in "\\[]^&~|" else letter)
        at += 1

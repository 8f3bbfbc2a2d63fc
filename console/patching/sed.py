"""A `sed -i` line read as sed reads it: `s` commands with addresses, on one line at a time."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from console.errors import UsageError
from console.patching.sed_regex import regex, replacement

_FLAGS = "gpiI0123456789"


@dataclass(frozen=True, slots=True)
class Address:
    """Lines from one place on, up to another: numbers, patterns, or the last line."""

    first: int | re.Pattern[str] | None = None
    """`0` means the last line."""
    last: int | re.Pattern[str] | None = None
    plus: bool = False
    """`last` counts from the first line."""
    negated: bool = False

    def holds(self, rows: list[str]) -> list[bool]:
        """Return for every line whether the command is done on it."""
        if self.first is None:
            return [True] * len(rows)
        found, open_until = [], -1
        inside = False
        for number, row in enumerate(rows, 1):
            if inside:
                found.append(True)
                inside = not self._ends(number, row, open_until, len(rows))
                continue
            hit = self._is(self.first, number, row, len(rows))
            found.append(hit)
            if hit and self.last is not None:
                open_until = number + self.last if self.plus and isinstance(self.last, int) else -1
                bound = open_until if self.plus else (self.last if isinstance(self.last, int) else 0)
                bound = len(rows) if self.last == 0 and not self.plus else bound
                inside = isinstance(self.last, re.Pattern) or bound > number
        return [not hit for hit in found] if self.negated else found

    def _ends(self, number: int, row: str, until: int, total: int) -> bool:
        if self.plus:
            return number >= until
        if isinstance(self.last, int):
            return number >= (self.last or total)
        return self.last is not None and bool(self.last.search(row))

    @staticmethod
    def _is(one: int | re.Pattern[str], number: int, row: str, total: int) -> bool:
        return bool(one.search(row)) if isinstance(one, re.Pattern) else number == (one or total)


@dataclass(frozen=True, slots=True)
class Substitution:
    """One `s` command."""

    told: str
    """As it stands in the line."""
    pattern: re.Pattern[str]
    parts: tuple[str | int, ...]
    """Replacement: texts, and numbers of groups (0 for `&`)."""
    every: bool
    nth: int
    address: Address
    crosses: bool
    """The pattern holds a line end, which no line of sed's ever does."""

    def on(self, text: str) -> str:
        """Return a text with the command done on it, as one piece."""
        out, at, seen, behind = [], 0, 0, -1
        for match in self.pattern.finditer(text):
            if match.start() == match.end() and (self.every or self.nth > 1) and not text.isascii():
                raise UsageError(
                    f"{self.told}: matches nothing between letters that are not ASCII: cannot be followed",
                    "GNU sed splits such letters",
                )
            if match.start() == match.end() == behind:
                continue  # sed takes no empty match right behind another
            behind = match.end()
            seen += 1
            if seen < self.nth or (seen > self.nth and not self.every):
                continue
            new = "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)
            out += [text[at : match.start()], new]
            at = match.end()
        return "".join([*out, text[at:]])


@dataclass(frozen=True, slots=True)
class SedLine:
    """One call of `sed`."""

    told: str
    commands: tuple[Substitution, ...]
    files: tuple[str, ...]
    in_place: bool
    whole: bool = field(default=False)
    """`-z`: the file is one line to sed."""

    def run(self, text: str) -> str:
        """Return what sed would leave of a file."""
        if self.whole:
            for command in self.commands:
                text = command.on(text)
            return text
        rows = text.split("\n")
        tail = [rows.pop()] if rows[-1] == "" else []
        for command in self.commands:
            rows = [command.on(row) if hit else row for row, hit in zip(rows, command.address.holds(rows), strict=True)]
        return "\n".join([*rows, *tail])

    def as_meant(self, text: str) -> str:
        """Return the text with patterns that hold a line end matched across lines."""
        for command in self.commands:
            text = command.on(text)
        return text


def sed_lines(text: str) -> tuple[SedLine, ...]:
    """Read every `sed` of a pasted text: one a line, or joined by `&&` and `;`.

    Raises:
        UsageError: There is none, or it uses more of sed than can be followed exactly.
    """
    found = []
    for row in text.replace("\\\n", " ").splitlines():
        row = row.strip().removeprefix("$ ").removeprefix("# ")
        if not row or row.startswith("#"):
            continue
        try:
            lexer = shlex.shlex(row, posix=True, punctuation_chars=";&|<>")
            lexer.whitespace_split = True
            lexer.commenters = ""
            words = list(lexer)
        except ValueError as error:
            raise UsageError(f"{row}: {error}", hint="paste the line as the shell gets it, quotes and all") from None
        for call in _calls(words):
            found.append(_read(call, row))
    if not found:
        raise UsageError("no sed command is in there", hint="paste the whole line: sed -i 's/…/…/' FILE")
    return tuple(found)


def _calls(words: list[str]) -> list[list[str]]:
    calls: list[list[str]] = [[]]
    for word in words:
        if word in (";", "&&"):
            calls.append([])
        elif word and set(word) <= set(";&|<>"):
            raise UsageError(f"{word!r}: only sed commands in a row can be followed")
        else:
            calls[-1].append(word)
    return [call[1:] if call[0] == "sudo" else call for call in calls if call]


def _read(words: list[str], told: str) -> SedLine:
    if words[0].rpartition("/")[2] not in ("sed", "gsed"):
        raise UsageError(f"{words[0]}: only sed can be followed")
    scripts: list[str] = []
    rest: list[str] = []
    extended = in_place = whole = False
    queue = words[1:]
    while queue:
        word = queue.pop(0)
        if word.startswith("--in-place"):
            in_place = True
        elif word in ("--regexp-extended", "--null-data", "--quiet", "--silent"):
            queue.insert(0, {"--regexp-extended": "-E", "--null-data": "-z"}.get(word, "-n"))
        elif word.startswith("--expression"):
            scripts.append(word.partition("=")[2] or queue.pop(0))
        elif word.startswith("-") and len(word) > 1:
            for at, letter in enumerate(word[1:], 1):
                if letter == "i":
                    in_place = True
                    break  # what follows is the suffix of the copy
                if letter == "e":
                    scripts.append(word[at + 1 :] or (queue.pop(0) if queue else ""))
                    break
                if letter not in "Erzsu":
                    raise UsageError(f"sed -{letter}: cannot be followed", told)
                extended, whole = extended or letter in "Er", whole or letter == "z"
        else:
            rest.append(word)
    if not scripts and rest:
        scripts.append(rest.pop(0))
    if not rest:
        raise UsageError("sed without a file", told, "name the file that it was to change")
    commands = tuple(command for script in scripts for command in _Script(script, extended).commands())
    if whole and any(
        command.address.first is not None or re.search(r"(?<!\\)[$^]", command.pattern.pattern) for command in commands
    ):
        raise UsageError("sed -z with an address, ^ or $: cannot be followed", told)
    return SedLine(told, commands, tuple(rest), in_place, whole)


class _Script:
    def __init__(self, text: str, extended: bool) -> None:
        self._text = text
        self._at = 0
        self._extended = extended

    def commands(self) -> list[Substitution]:
        found: list[Substitution] = []
        while True:
            self._skip(" \t\n;")
            if self._at >= len(self._text):
                return found
            found.append(self._command())

    def _command(self) -> Substitution:
        start = self._at
        address = self._address()
        letter = self._next()
        if letter != "s":
            raise UsageError(
                f"sed command {letter!r} cannot be followed", self._text, "only s commands; write an [[edit]] instead"
            )
        delimiter = self._next()
        if delimiter in ("", "\\", "\n"):
            raise UsageError("s command without a delimiter", self._text)
        pattern, text = self._until(delimiter), self._until(delimiter)
        flags = self._flags()
        if not pattern:
            raise UsageError("s//…/ takes the pattern before it: cannot be followed", self._text)
        source, groups = regex(pattern, self._extended, self._text)
        options = re.IGNORECASE if {"i", "I"} & set(flags) else re.NOFLAG
        number = re.sub(r"\D", "", flags)
        return Substitution(
            told=self._text[start : self._at].strip(" ;\n"),
            pattern=re.compile(source, options | re.MULTILINE),
            parts=replacement(text, groups, self._text),
            every="g" in flags,
            nth=int(number or 1),
            address=address,
            crosses=r"\n" in re.sub(r"\[(?:\\.|[^\]\\])*\]", "", source),
        )

    def _flags(self) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in ";\n }":
            if self._text[self._at] not in _FLAGS or self._text[self._at] == "p":
                flag = self._text[self._at]
                raise UsageError(f"flag {flag!r} of s cannot be followed", self._text)
            self._at += 1
        return self._text[start : self._at]

    def _address(self) -> Address:
        first = self._one_address()
        if first is None:
            return Address()
        last: int | re.Pattern[str] | None = None
        plus = False
        self._skip(" ")
        if self._peek() == ",":
            self._at += 1
            self._skip(" ")
            if self._peek() == "+":
                self._at, plus = self._at + 1, True
            last = self._one_address()
            if last is None or (plus and not isinstance(last, int)):
                raise UsageError("an address that cannot be followed", self._text)
        self._skip(" ")
        negated = self._peek() == "!"
        self._at += negated
        self._skip(" ")
        return Address(first, last, plus, negated)

    def _one_address(self) -> int | re.Pattern[str] | None:
        if digits := re.compile(r"\d+").match(self._text, self._at):
            self._at = digits.end()
            if self._peek() == "~" or digits[0] == "0":
                raise UsageError("an address of this form cannot be followed", self._text)
            return int(digits[0])
        if self._peek() == "$":
            self._at += 1
            return 0
        if self._peek() == "/":
            self._at += 1
            source, _ = regex(self._until("/"), self._extended, self._text)
            option = re.NOFLAG
            if self._peek() == "I":
                self._at, option = self._at + 1, re.IGNORECASE
            return re.compile(source, option | re.MULTILINE)
        return None

    def _until(self, delimiter: str) -> str:
        """Return the text up to the delimiter; inside brackets it does not count."""
        out = []
        while (letter := self._next()) != delimiter:
            if letter == "":
                raise UsageError(f"unterminated s command or address: no {delimiter!r}", self._text)
            if letter == "\\":
                follows = self._next()
                if follows == delimiter and follows in "^$.*[]+?(){}|&":
                    raise UsageError(f"\\{delimiter} where {delimiter} parts the command: means two things", self._text)
                out.append(follows if follows == delimiter else "\\" + follows)
            else:
                out.append(letter)
        return "".join(out)

    def _skip(self, letters: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in letters:
            self._at += 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        letter = self._peek()
        self._at += 1
        return letter

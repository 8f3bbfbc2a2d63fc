"""A shell text to the simple commands in it, each with the variables that stand when it begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from console.config.commands.expand import Field, Variable, assigning, expanded, names_in
from console.config.commands.functions import AGAIN, Functions
from console.config.commands.lexer import Document, Lexer, Token, Word
from console.config.commands.notes import WARNING, Note

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_OPENING = frozenset(["if", "then", "else", "elif", "while", "until", "do", "{", "!", "time"])
_CLOSING = frozenset(["fi", "done", "esac", "}"])
_DECLARING = frozenset(["export", "declare", "typeset", "local", "readonly"])
_TESTS = frozenset(["[", "[[", "test", "(("])


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value` in front of a command or by itself."""

    name: str
    value: Field
    line: int


@dataclass(frozen=True, slots=True)
class Redirect:
    """`> file`, `2>&1`."""

    sign: str
    target: str
    line: int
    document: Document | None = None
    """What a here-document holds."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command."""

    assignments: tuple[Assignment, ...]
    words: tuple[Field, ...]
    redirects: tuple[Redirect, ...]
    end: str
    """What ends it: a newline, `;`, `&`, `|`, `&&`, `||`."""
    line: int
    variables: Mapping[str, Variable]
    unset: tuple[str, ...] = ()
    """Variables taken out of the environment so far."""
    piped_from: int | None = None
    """Index of the command whose output it reads."""
    used: frozenset[str] = frozenset()
    """Variables in its words, also those that come to nothing."""

    @property
    def document(self) -> Document | None:
        """What it reads from a here-document."""
        return next((one.document for one in reversed(self.redirects) if one.document is not None), None)


@dataclass(frozen=True, slots=True)
class Script:
    """What a text says."""

    text: str
    commands: tuple[Command, ...]
    notes: tuple[Note, ...]


def read_script(text: str, known: Mapping[str, str | tuple[str, ...]] | None = None) -> Script:
    """Read a text in the order of its lines; conditions are not decided, functions not called.

    Args:
        text: The script.
        known: Variables that the operator gives.
    """
    lexer = Lexer(text)
    tokens = lexer.tokens()
    given = {name: Variable(value) for name, value in (known or {}).items()}
    reader = _Reader(dict(given), lexer.documents, Functions())
    reader.read(tokens)
    if reader.functions.calls:
        reader = _Reader(dict(given), lexer.documents, reader.functions.told())
        reader.read(tokens)
    return Script(text, tuple(reader.commands), (*lexer.notes, *reader.notes))


class _Reader:
    def __init__(self, known: dict[str, Variable], documents: list[Document], functions: Functions) -> None:
        self.given = frozenset(known)
        self.functions = functions
        self._documents = iter(documents)
        self._guarded = False
        """Whether what comes now depends on how the command before it ended."""
        self.known = known
        self.unset: list[str] = []
        self.commands: list[Command] = []
        self.notes: list[Note] = []
        self._depth = 0
        self._cases = 0

    def read(self, tokens: list[Token]) -> None:
        """Take every command."""
        words: list[Word] = []
        redirects: list[Redirect] = []
        piped: int | None = None
        at = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if isinstance(token, Word):
                words.append(token)
            elif _is_test(words) and token.text not in ("\n", ";"):
                pass  # `[[ a || b ]]`: signs inside a test part no commands
            elif token.text == "(" and _sign(tokens, at) == ")" and (name := self.functions.head(words)):
                self.functions.define(name)
                words, at = [], at + 1
            elif token.redirect:
                target = tokens[at] if at < len(tokens) else None
                if isinstance(target, Word):
                    at += 1
                    redirects.append(self._redirect(token.text, target, token.line))
            elif token.text == ")" and self._cases:
                words, redirects = [], []  # a pattern of `case`
            else:
                before = len(self.commands)
                self._command(words, redirects, token.text, piped)
                made = len(self.commands) > before
                piped = len(self.commands) - 1 if token.text in ("|", "|&") and made else None
                words, redirects = [], []
        self._command(words, redirects, "\n", piped)

    def _redirect(self, sign: str, target: Word, line: int) -> Redirect:
        if sign in ("<<", "<<-"):
            return Redirect(sign, target.plain(), line, next(self._documents, None))
        return Redirect(sign, "".join(one.text for one in expanded(target, self.known)), line)

    def _command(self, words: list[Word], redirects: list[Redirect], end: str, piped: int | None) -> None:
        words = self._past_keywords(words)
        if words:
            self._take(words, redirects, end, piped)
        tested = bool(words) and words[0].parts[:1] != () and words[0].parts[0].text in _TESTS
        self._guarded = end == "||" or (end == "&&" and (self._guarded or tested))

    def _take(self, words: list[Word], redirects: list[Redirect], end: str, piped: int | None) -> None:
        assignments: list[Assignment] = []
        at = 0
        while at < len(words) and (found := self._assignment(words[at], assignments)) is not None:
            assignments.append(found)
            at += 1
        rest = words[at:]
        if not rest:
            for one in assignments:
                self._set(one.name, one.value, one.line)
            return
        self._simple(assignments, rest, redirects, end, piped)

    def _simple(
        self, assignments: list[Assignment], rest: list[Word], redirects: list[Redirect], end: str, piped: int | None
    ) -> None:
        name = rest[0].plain()
        if name in _DECLARING and self._declare(name, rest[1:]):
            return
        if name == ":":
            for word in rest[1:]:  # `: "${NAME:=value}"`
                for key, value in assigning(word, self.known).items():
                    self._set(key, value, word.line)
        fields = [one for word in rest for one in expanded(word, self.known)]
        if name == "shift":
            self.functions.shift(self.known, fields[1].text if len(fields) > 1 else "1")
            return
        if name in self.functions.names:
            if self.functions.call(name, tuple(one.text for one in fields[1:])) == AGAIN:
                said = f"{name} is called more than once: what its first call gives was read"
                self.notes.append(Note(WARNING, said, rest[0].line))
            return
        if (name == "set" and self._fish(fields)) or (name == "setenv" and self._fish([fields[0], *fields])):
            return
        if name == "unset":
            for one in fields[1:]:
                if not one.text.startswith("-"):
                    self.known.pop(one.text, None)
                    self.unset = [*(other for other in self.unset if other != one.text), one.text]
            return
        if name in ("for", "case", "select"):
            said = f"`{name}` is not followed: what it repeats or chooses is read once, as it stands"
            self.notes.append(Note(WARNING, said, rest[0].line))
            self._depth += 1
            self._cases += name == "case"
            if name == "for" and len(rest) > 1:
                self.known.pop(rest[1].plain(), None)
            return
        if fields:
            self.commands.append(
                Command(
                    tuple(assignments),
                    tuple(fields),
                    tuple(redirects),
                    end,
                    rest[0].line,
                    dict(self.known),
                    tuple(self.unset),
                    piped,
                    frozenset(each for word in rest for each in names_in(word, self.known)),
                )
            )

    def _fish(self, fields: list[Field]) -> bool:
        """Take `set -gx NAME value` of fish, or `setenv NAME value` of csh; say whether it was one."""
        if len(fields) < 4 or not re.fullmatch(r"setenv|--?\w*x\w*|--export", fields[1].text):
            return False
        name, value = fields[2].text, replace(fields[3], text=" ".join(one.text for one in fields[3:]))
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            return False
        self._set(name, value, value.line, exported=True)
        return True

    def _past_keywords(self, words: list[Word]) -> list[Word]:
        while words:
            plain = words[0].plain() if words[0].array is None else ""
            if plain in ("if", "while", "until", "elif") and len(words) > 1:
                self._depth += plain != "elif"
                return []  # a condition: its command is no launch
            if plain == "function" and len(words) > 1:
                self.functions.define(words[1].plain())
                words = words[2:]
            elif plain in _OPENING:
                if plain == "{":
                    self.functions.enter(self.known)
                words = words[1:]
            elif plain in _CLOSING:
                if plain == "}":
                    self.functions.leave(self.known)
                self._depth = max(0, self._depth - (plain != "}"))
                self._cases = max(0, self._cases - (plain == "esac"))
                words = words[1:]
            else:
                return words
        return words

    def _assignment(self, word: Word, before: list[Assignment], *, quoted: bool = False) -> Assignment | None:
        first = word.parts[0] if word.parts else None
        if first is None or first.kind != "text" or (first.quoted and not quoted):
            return None
        match = _ASSIGNED.fullmatch(first.text)
        if match is None:
            return None
        name = match[1]
        if word.array is not None:
            self._set_array(name, word, append=bool(match[2]))
            return Assignment(name, Field("", word.line), word.line)
        seen = {
            **self.known,
            **{one.name: Variable(one.value.text, unresolved=one.value.unresolved) for one in before},
        }
        value = expanded(replace(word, parts=(replace(first, text=match[3]), *word.parts[1:])), seen, split=False)
        field = value[0] if value else Field("", word.line, word.start, word.end, word.line)
        if match[2]:
            old = self.known.get(name)
            had = old.value if old is not None and isinstance(old.value, str) else ""
            needs = field.used | (old.needs if old is not None else frozenset())
            open_ = (*(old.unresolved if old is not None else ()), *field.unresolved)
            field = replace(field, text=had + field.text, used=needs, unresolved=open_)
        return Assignment(name, field, word.line)

    def _set_array(self, name: str, word: Word, *, append: bool) -> None:
        fields = [one for element in word.array or () for one in expanded(element, self.known)]
        old = self.known.get(name)
        before: tuple[str, ...] = ()
        if append and old is not None:
            before = old.value if isinstance(old.value, tuple) else (old.value,)
        needs = frozenset(each for one in fields for each in one.used) | (old.needs if append and old else frozenset())
        values = (*before, *(one.text for one in fields))
        self._keep(
            name, Variable(values, word.line, needs=needs, unresolved=_unresolved(fields, old if append else None))
        )

    def _set(self, name: str, value: Field, line: int, *, exported: bool = False) -> None:
        old = self.known.get(name)
        if name in self.given or (old is not None and isinstance(old.value, tuple) and not value.text):
            return  # the operator's word stands; an array was set by its own way
        out = exported or (old is not None and old.exported)
        self._keep(name, Variable(value.text, line, out, needs=value.used, unresolved=value.unresolved))
        if out:
            self.unset = [other for other in self.unset if other != name]

    def _keep(self, name: str, made: Variable) -> None:
        """Set a variable; where a condition decides, remember what else it may be."""
        old = self.known.get(name)
        if self._depth or self._guarded:
            others = (*old.others, (old.line, old.value)) if old is not None and old.value != made.value else ()
            made = replace(made, uncertain=True, others=others)
        self.known[name] = made

    def _declare(self, word: str, rest: list[Word]) -> bool:
        """Take an `export`; `False` when it looks like a launch that lost its place."""
        exported = word == "export"
        names: list[Word] = []
        options = False
        for each in rest:
            plain = each.plain()
            if plain.startswith("-"):
                exported = exported or "x" in plain
                options = options or len(plain) > 3
                continue
            found = self._assignment(each, [], quoted=True)
            if found is not None and each.array is None:
                self._set(found.name, found.value, found.line, exported=exported)
            elif found is None:
                names.append(each)
        odd = [each for each in names if not re.fullmatch(r"[A-Za-z_]\w*", each.plain())]
        strange = [each for each in names if each in odd or each.plain() not in self.known]
        for each in names:
            if exported and each not in odd and (known := self.known.get(each.plain())) is not None:
                self.known[each.plain()] = replace(known, exported=True)
        return not strange or not (odd or options or len(strange) > 1)


def _is_test(words: list[Word]) -> bool:
    """Return whether `[[` stands open."""
    texts = [word.plain() for word in words]
    return "[[" in texts[:2] and "]]" not in texts


def _unresolved(fields: list[Field], before: Variable | None) -> tuple[str, ...]:
    return (*(before.unresolved if before is not None else ()), *(what for one in fields for what in one.unresolved))


def _sign(tokens: list[Token], at: int) -> str:
    token = tokens[at] if at < len(tokens) else None
    return "" if token is None or isinstance(token, Word) else token.text

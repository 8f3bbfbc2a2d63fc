"""Shell text to words and operators: quotes, continuations, comments, arrays, here-documents; no expansion yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.config.commands.notes import WARNING, Note

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=$")
_CONTINUED = re.compile(r"\\([ \t]*(?:[ \t]#[^\n]*)?)(?:\n|\Z)")
"""A backslash at the end of a line, and what was left behind it by mistake."""
_SUM = re.compile(r"\(\([^\n]*?\)\)(?=[\s;&|]|\Z)")
_OPERATORS = ("&&", "||", ";;", "|&", ";", "|", "(", ")", "\n")
_REDIRECT = re.compile(r"(?:\d+|&)?(?:>>|>\||>&|>|<<<|<<-|<<|<&|<)|&>>|&>")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a word that is expanded, or not, in one way."""

    text: str
    kind: str = "text"
    """`text`, `var` (what stands between the braces), `command` (its text), `arithmetic`."""
    quoted: bool = False
    single: bool = False
    """Inside single quotes: a dollar stays a dollar."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Word:
    """One word before expansion."""

    parts: tuple[Part, ...]
    line: int
    start: int
    end: int
    array: tuple[Word, ...] | None = None
    """Elements of `NAME=(…)`; the parts are then the name with its equals sign."""

    def plain(self) -> str:
        """Return the text where nothing is to be expanded; what is stays in its braces."""
        return "".join(part.text if part.kind == "text" else f"${{{part.text}}}" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Operator:
    """A sign between commands, or a redirection."""

    text: str
    line: int
    redirect: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """The lines of one here-document."""

    text: str
    line: int
    plain: bool
    """Its end was quoted: a dollar stays a dollar."""


Token = Word | Operator


class Lexer:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.notes: list[Note] = []
        self.documents: list[Document] = []
        """The here-documents in the order of their signs."""
        self._documents: list[tuple[Word, bool]] = []
        """Ends of here-documents that begin on the next line, and whether their tabs go."""

    def tokens(self) -> list[Token]:
        """Return every word and operator."""
        found: list[Token] = []
        while self.at < len(self.text):
            token = self._next()
            if token is not None:
                found.append(token)
                self._after(token, found)
        return found

    def _after(self, token: Token, found: list[Token]) -> None:
        before = found[-2] if len(found) > 1 else None
        if isinstance(token, Word) and isinstance(before, Operator) and before.text in ("<<", "<<-"):
            self._documents.append((token, before.text == "<<-"))
        if isinstance(token, Operator) and token.text == "\n" and self._documents:
            self._take_documents()

    def _take_documents(self) -> None:
        for word, tabs in self._documents:
            end, first, lines = "".join(part.text for part in word.parts), self.line, []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                self._move(stop + 1)
                if (line := line.lstrip("\t") if tabs else line).rstrip() == end:
                    break
                lines.append(line)
            plain = any(part.quoted for part in word.parts)
            self.documents.append(Document("\n".join(lines), first, plain))
        self._documents = []

    def _move(self, to: int) -> None:
        to = min(to, len(self.text))
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def _continued(self) -> bool:
        """Step over a backslash at a line's end, blanks behind it included; say whether there was one."""
        match = _CONTINUED.match(self.text, self.at)
        if match is None:
            return False
        if match[1] and match.end() < len(self.text):
            what = "a comment" if "#" in match[1] else "a blank"
            said = f"{what} behind the backslash: a shell would end the command here; read as a continuation"
            self.notes.append(Note(WARNING, said, self.line))
        self._move(match.end())
        return True

    def _next(self) -> Token | None:
        sign = self.text[self.at]
        if sign in " \t":
            self.at += 1
            return None
        if sign == "\\" and self._continued():
            return None
        if sign == "#":
            stop = self.text.find("\n", self.at)
            self.at = len(self.text) if stop < 0 else stop
            return None
        line = self.line
        if (redirect := _REDIRECT.match(self.text, self.at)) is not None:
            self.at = redirect.end()
            return Operator(redirect[0], line, redirect=True)
        if sign == "(" and (sum_ := _SUM.match(self.text, self.at)) is not None:
            self.at = sum_.end()
            return Word((Part("((", line=line), Part(sum_[0][2:], quoted=True, line=line)), line, sum_.start(), self.at)
        for text in _OPERATORS:
            if self.text.startswith(text, self.at):
                self._move(self.at + len(text))
                return Operator(text, line)
        if sign == "&":
            self.at += 1
            return Operator("&", line)
        return self._word()

    def _word(self) -> Word:
        start, line = self.at, self.line
        parts: list[Part] = []
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in " \t\n;|&<>)":
                break
            if sign == "(":
                if not _ASSIGNMENT.match(self.text[start : self.at]):
                    break
                return Word(tuple(parts), line, start, self.at, self._array())
            if sign == "\\":
                if self._continued():
                    continue
                self._text(parts, self.text[self.at + 1 : self.at + 2], quoted=True)
                self._move(self.at + 2)
            elif sign in "'\"`$":
                self._special(sign, parts)
            else:
                self._text(parts, sign)
                self.at += 1
        if self.at == start:  # a lone sign that nothing else takes
            self._text(parts, self.text[self.at])
            self.at += 1
        return Word(tuple(parts), line, start, self.at)

    def _text(self, parts: list[Part], text: str, *, quoted: bool = False, single: bool = False) -> None:
        last = parts[-1] if parts else None
        if last is not None and (last.kind, last.quoted, last.single) == ("text", quoted, single):
            parts[-1] = Part(last.text + text, "text", quoted, single, last.line)
        else:
            parts.append(Part(text, "text", quoted, single, self.line))

    def _special(self, sign: str, parts: list[Part]) -> None:
        if sign == "'":
            self._single(parts)
        elif sign == '"':
            self._double(parts)
        elif sign == "`":
            stop = self.text.find("`", self.at + 1)
            stop = len(self.text) if stop < 0 else stop
            parts.append(Part(self.text[self.at + 1 : stop], "command", line=self.line))
            self._move(stop + 1)
        else:
            self._dollar(parts, quoted=False)

    def _single(self, parts: list[Part]) -> None:
        stop = self.text.find("'", self.at + 1)
        if stop < 0:
            self.notes.append(Note(WARNING, "a single quote is never closed", self.line))
            stop = len(self.text)
        self._text(parts, self.text[self.at + 1 : stop], quoted=True, single=True)
        self._move(stop + 1)

    def _double(self, parts: list[Part]) -> None:
        opened, before = self.line, len(parts)
        self.at += 1
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == '"':
                self.at += 1
                if len(parts) == before:
                    self._text(parts, "", quoted=True)  # an empty word is a word
                return
            if sign == "\\":
                follows = self.text[self.at + 1 : self.at + 2]
                if follows != "\n":
                    self._text(parts, follows if follows in '$`"\\' else sign + follows, quoted=True)
                self._move(self.at + 2)
            elif sign == "$":
                self._dollar(parts, quoted=True)
            elif sign == "`":
                stop = self.text.find("`", self.at + 1)
                stop = len(self.text) if stop < 0 else stop
                parts.append(Part(self.text[self.at + 1 : stop], "command", True, line=self.line))
                self._move(stop + 1)
            else:
                self._text(parts, sign, quoted=True)
                self._move(self.at + 1)
        self.notes.append(Note(WARNING, "a double quote is never closed", opened))

    def _dollar(self, parts: list[Part], *, quoted: bool) -> None:
        rest = self.at + 1
        line = self.line
        if self.text.startswith("((", rest):
            end = self.text.find("))", rest)
            end = len(self.text) if end < 0 else end
            parts.append(Part(self.text[rest + 2 : end].strip(), "arithmetic", quoted, line=line))
            self._move(end + 2)
        elif self.text.startswith(("(", "{"), rest):
            end = self._closing(rest)
            kind = "command" if self.text[rest] == "(" else "var"
            parts.append(Part(self.text[rest + 1 : end], kind, quoted, line=line))
            self._move(end + 1)
        elif not quoted and self.text.startswith("'", rest):
            self._ansi(parts)
        elif not quoted and self.text.startswith('"', rest):
            self.at += 1
            self._double(parts)
        elif (name := _NAME.match(self.text, rest)) is not None:
            parts.append(Part(name[0], "var", quoted, line=line))
            self.at = name.end()
        elif rest < len(self.text) and self.text[rest] in "@*#?$!-0123456789":
            parts.append(Part(self.text[rest], "var", quoted, line=line))
            self.at = rest + 1
        else:
            self._text(parts, "$", quoted=quoted)
            self.at = rest

    def _closing(self, opening: int) -> int:
        """Return where the bracket at `opening` closes, quotes and brackets inside it respected."""
        pairs = {"(": ")", "{": "}"}
        shut, depth, at, quote = pairs[self.text[opening]], 0, opening, ""
        while at < len(self.text):
            sign = self.text[at]
            if sign == "\\":
                at += 1
            elif quote:
                quote = "" if sign == quote else quote
            elif sign in "'\"":
                quote = sign
            elif sign == self.text[opening]:
                depth += 1
            elif sign == shut:
                depth -= 1
                if depth == 0:
                    return at
            at += 1
        self.notes.append(Note(WARNING, f"${self.text[opening]} is never closed", self.line))
        return len(self.text)

    def _ansi(self, parts: list[Part]) -> None:
        at = self.at + 2
        text = ""
        while at < len(self.text) and self.text[at] != "'":
            if self.text[at] == "\\" and at + 1 < len(self.text):
                at += 1
                text += _ESCAPES.get(self.text[at], self.text[at])
            else:
                text += self.text[at]
            at += 1
        self._text(parts, text, quoted=True, single=True)
        self._move(at + 1)

    def _array(self) -> tuple[Word, ...]:
        """Return the words of `(…)`; the next sign is its opening bracket."""
        self.at += 1
        words: list[Word] = []
        while self.at < len(self.text):
            if self.text[self.at] == ")":
                self.at += 1
                break
            token = self._next()
            if isinstance(token, Word):
                words.append(token)
        return tuple(words)

"""The outline of a Python file: by its syntax tree, or by indentation where it does not parse."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

from console.domain.source import Document, Symbol

SUFFIXES = (".py", ".pyi", ".pyw")
PARSE_LIMIT = 1 << 19
"""Bytes up to which the syntax tree is built; beyond, indentation is read, which is fifty times faster."""

_HEAD = re.compile(r"(async\s+def|def|class)\s+([^\W\d]\w*)")
_TRIPLE = re.compile(rb"'''|\"\"\"")
_TAB = 8

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def outline(document: Document) -> tuple[Symbol, ...]:
    """Return classes and defs in the order of the file; nothing for what is not Python."""
    if document.binary or not document.path.endswith(SUFFIXES):
        return ()
    lines = document.lines
    if document.complete and sum(map(len, lines)) <= PARSE_LIMIT:
        parsed = _by_tree(b"\n".join(lines) + b"\n")
        if parsed is not None:
            return parsed
    return _Indentation().read(lines, document.first_line)


def enclosing(symbols: Sequence[Symbol], line: int) -> Symbol | None:
    """Return the innermost def or class that holds a line, its decorators included."""
    found = None
    for symbol in symbols:
        if symbol.first_line > line:
            break
        if line <= symbol.last_line and (found is None or symbol.depth >= found.depth):
            found = symbol
    return found


def named(symbols: Sequence[Symbol], name: str) -> tuple[Symbol, ...]:
    """Return the symbols that a name means: the full one first, else whose end it is."""
    exact = tuple(symbol for symbol in symbols if symbol.qualified == name)
    return exact or tuple(symbol for symbol in symbols if f".{symbol.qualified}".endswith(f".{name}"))


def _by_tree(source: bytes) -> tuple[Symbol, ...] | None:
    if b"\r" in source:
        return None  # the parser would count it as a line end
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(_walk(ast.parse(source).body, "", 0))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # newer syntax than ours, or no code at all


def _walk(body: Sequence[ast.AST], prefix: str, depth: int) -> Iterator[Symbol]:
    for node in body:
        if not isinstance(node, _Definition):
            yield from _walk(list(ast.iter_child_nodes(node)), prefix, depth) if _may_hold(node) else ()
            continue
        kind = {ast.ClassDef: "class", ast.FunctionDef: "def"}.get(type(node), "async def")
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        qualified = f"{prefix}{node.name}"
        yield Symbol(node.name, kind, first, node.end_lineno or node.lineno, qualified, depth)
        yield from _walk(node.body, f"{qualified}.", depth + 1)


def _may_hold(node: ast.AST) -> bool:
    return isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)) and not isinstance(node, ast.Expr)


class _Indentation:
    """Reads defs and classes off the indentation; text in long strings is not taken for code."""

    def __init__(self) -> None:
        self._open: list[tuple[int, Symbol]] = []
        self._done: list[Symbol] = []
        self._decorator: tuple[int, int] | None = None
        self._last_code = 0

    def read(self, lines: Sequence[bytes], first_line: int) -> tuple[Symbol, ...]:
        """Return the symbols of lines whose first one has the number given."""
        quote = 0
        for number, line in enumerate(lines, first_line):
            inside, quote = quote, _quote_after(line, quote)
            if inside:
                self._last_code = number
            elif (text := line.strip()) and not text.startswith(b"#"):
                self._take(number, line, text)
        self._close(-1)
        return tuple(sorted(self._done, key=lambda symbol: (symbol.first_line, symbol.depth)))

    def _take(self, number: int, line: bytes, text: bytes) -> None:
        width = _width(line)
        closing = text.startswith((b")", b"]", b"}"))
        if not closing:
            self._close(width)
        self._last_code = number
        if text.startswith(b"@"):
            self._decorator = self._decorator or (width, number)
        elif (head := _head(text)) is not None:
            kind, name = head
            qualified = ".".join([*(symbol.name for _, symbol in self._open), name])
            first = self._decorator[1] if self._decorator else number
            self._open.append((width, Symbol(name, kind, first, number, qualified, len(self._open))))
            self._decorator = None
        elif self._decorator and width <= self._decorator[0] and not closing:
            self._decorator = None

    def _close(self, width: int) -> None:
        while self._open and self._open[-1][0] >= width:
            symbol = self._open.pop()[1]
            self._done.append(replace(symbol, last_line=max(symbol.last_line, self._last_code)))


def _head(text: bytes) -> tuple[str, str] | None:
    if not text.startswith((b"def", b"class", b"async")):
        return None
    match = _HEAD.match(text.decode("utf-8", "replace"))
    return (" ".join(match[1].split()), match[2]) if match else None


def _width(line: bytes) -> int:
    blank = line[: len(line) - len(line.lstrip(b" \t\f"))]
    return len(blank.expandtabs(_TAB))


def _quote_after(line: bytes, quote: int) -> int:
    """Return which triple quote is open after a line: 0 for none, else its character."""
    for match in _TRIPLE.finditer(line):
        if not quote:
            if b"#" in line[: match.start()] and line[: match.start()].count(b'"') % 2 == 0:
                return 0
            quote = match[0][0]
        elif quote == match[0][0]:
            quote = 0
    return quote

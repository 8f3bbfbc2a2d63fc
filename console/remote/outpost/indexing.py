"""What a name is in the lines where it stands: a definition, a call, an import, or only text.

Run by the outpost, and as program text by worker processes: so it stands alone, without relative imports.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import warnings
from bisect import bisect_left
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

KINDS = ("class", "def", "async def", "assign", "parameter", "import", "call", "attribute", "keyword", "name")
"""Best first, where a line holds the name more than once."""

STRINGS = re.compile(
    rb"#[^\n]*|\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    rb"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
"""Comments and strings, so that quotes in one are not taken for another."""

Spot = Tuple[int, int, int, int, str]
"""Line, column in characters, kind, last line (of a definition), and the names around it."""


class Reader:
    """Goes down into those statements of a syntax tree that hold lines with the name."""

    def __init__(self, source: bytes, name: str, lines: Sequence[int]) -> None:
        self.found: Dict[int, Spot] = {}
        self._lines = source.split(b"\n")
        self._name = name
        self._wanted: Set[int] = set(lines)
        self._sorted = sorted(lines)

    def read(self, tree: ast.AST) -> List[Spot]:
        """Return the best spot of each line where the name is code."""
        stack: List[Tuple[ast.AST, str, bool]] = [(tree, "", False)]
        while stack:
            node, scope, called = stack.pop()
            inner = self._take(node, scope, called)
            function = node.func if isinstance(node, ast.Call) else None
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, ast.stmt) or self._holds(child):
                    stack.append((child, inner, child is function))
        return sorted(self.found.values())

    def _holds(self, node: ast.stmt) -> bool:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        return any(first <= line <= last for line in self._sorted)

    def _take(self, node: ast.AST, scope: str, called: bool) -> str:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            kind = {ast.ClassDef: 0, ast.FunctionDef: 1}.get(type(node), 2)
            if node.name == self._name:
                self._add(node.lineno, self._after(node), kind, node.end_lineno or node.lineno, scope)
            return "%s.%s" % (scope, node.name) if scope else node.name
        if isinstance(node, ast.Name) and node.id == self._name:
            kind = 3 if isinstance(node.ctx, ast.Store) else 6 if called else 9
            self._add(node.lineno, self._column(node.lineno, node.col_offset), kind, node.lineno, scope)
        elif isinstance(node, ast.Attribute) and node.attr == self._name:
            end = node.end_lineno or node.lineno
            at = (node.end_col_offset or 0) - len(node.attr.encode())
            kind = 3 if isinstance(node.ctx, ast.Store) else 6 if called else 7
            self._add(end, self._column(end, at), kind, end, scope)
        elif isinstance(node, ast.arg) and node.arg == self._name:
            self._add(node.lineno, self._column(node.lineno, node.col_offset), 4, node.lineno, scope)
        elif isinstance(node, ast.keyword) and node.arg == self._name:
            self._add(node.value.lineno, 0, 8, node.value.lineno, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                if line in self._wanted:
                    self._add(line, 0, 5, line, scope)
        elif isinstance(node, (ast.Global, ast.Nonlocal)) and self._name in node.names:
            self._add(node.lineno, 0, 9, node.lineno, scope)
        return scope

    def _after(self, node: ast.AST) -> int:
        """Return where the name stands in the line of a def or class."""
        text = self._lines[node.lineno - 1].decode("utf-8", "replace")  # type: ignore[attr-defined]
        return max(0, text.find(self._name, text.find("class" if isinstance(node, ast.ClassDef) else "def")))

    def _column(self, line: int, offset: int) -> int:
        raw = self._lines[line - 1] if 0 < line <= len(self._lines) else b""
        return offset if raw.isascii() else len(raw[:offset].decode("utf-8", "replace"))

    def _add(self, line: int, column: int, kind: int, last: int, scope: str) -> None:
        if line not in self._wanted:
            return
        if not column:
            text = self._lines[line - 1].decode("utf-8", "replace") if line <= len(self._lines) else ""
            column = max(0, text.find(self._name))
        spot = (line, column, kind, last, scope)
        known = self.found.get(line)
        if known is None or (kind, column) < (known[2], known[1]):
            self.found[line] = spot


def pruned(source: bytes, lines: Sequence[int]) -> Optional[bytes]:
    """Return the source with `pass` for each function that holds none of some lines, every line where it was.

    Nine tenths of the time go into the parser, and most of a file is functions without the name. Where a
    function's end is not seen rightly, what is left does not parse, and the whole source is read instead.
    """
    if b"\r" in source or b"\f" in source:
        return None
    rows = source.split(b"\n")
    wanted = sorted(lines)
    dropped = 0
    for first, last, width in _functions(source, rows):
        at = bisect_left(wanted, first)
        if at < len(wanted) and wanted[at] <= last:
            continue
        rows[first - 1 : last] = [b""] * (last - first) + [b" " * width + b"pass"]
        dropped += last - first
    return b"\n".join(rows) if dropped * 4 > len(rows) else None


def _functions(source: bytes, rows: Sequence[bytes]) -> List[Tuple[int, int, int]]:
    """Return first line (of its decorators), last line and indent of each function that is in no other one."""
    inside = _in_strings(source)
    found: List[Tuple[int, int, int]] = []
    start, width, code = 0, -1, 0
    decorated = 0
    for number, row in enumerate(rows, 1):
        if number in inside:
            code = number
            continue
        text = row.lstrip(b" ")
        sign = text[:1]
        if not text or sign == b"#":
            continue
        if sign == b"\t":
            return []
        indent = len(row) - len(text)
        if width >= 0 and indent <= width and sign not in b")]}":
            found.append((start, code, width))
            width = -1
        if width < 0:
            if sign == b"@":
                decorated = decorated or number
            elif text.startswith((b"def ", b"async def ")):
                start, width, decorated = decorated or number, indent, 0
            elif text.startswith(b"class "):
                decorated = 0
        code = number
    if width >= 0:
        found.append((start, code, width))
    return found


def _in_strings(source: bytes) -> Set[int]:
    """Return the numbers of lines that begin inside a string."""
    found: Set[int] = set()
    if b'"""' not in source and b"'''" not in source:
        return found
    line, seen = 1, 0
    for match in STRINGS.finditer(source):
        first, last = match.span()
        if last - first > 6 and b"\n" in match.group():
            line += source.count(b"\n", seen, first)
            more = source.count(b"\n", first, last)
            found.update(range(line + 1, line + more + 1))
            line, seen = line + more, last
    return found


def spots_of(source: bytes, name: str, lines: Sequence[int]) -> Optional[List[Spot]]:
    """Return what a name is in some lines of a file; `None` when this Python cannot parse it."""
    for text in (pruned(source, lines), source):
        if text is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
            return Reader(source, name, lines).read(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def answers(asked: Iterator[Any]) -> Iterator[Tuple[str, str, Optional[List[Spot]]]]:
    """Yield path, hash of the content and spots for each (path, name, lines)."""
    for path, name, lines in asked:
        try:
            with open(path.encode("utf-8", "surrogateescape"), "rb") as file:
                source = file.read()
        except OSError:
            continue
        yield path, hashlib.sha256(source).hexdigest(), spots_of(source, name, lines)


def main() -> None:
    """Answer what standard input asks, a line of JSON each."""
    sys.setrecursionlimit(5000)
    for answer in answers(json.loads(text) for text in sys.stdin):
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
        sys.stdout.flush()

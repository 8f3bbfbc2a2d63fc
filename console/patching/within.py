"""Where a def or class stands in a Python file, in bytes."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterable

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@functools.lru_cache(maxsize=32)
def ranges(data: bytes, name: str) -> list[tuple[int, int]]:
    """Return the byte ranges of every def or class with this name (`Class.method` or `method`).

    A file that this interpreter cannot parse is read by its indentation.
    """
    if name.rpartition(".")[2].encode() not in data:
        return []
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = _by_indent(data.split(b"\n"), name)
    else:
        found = _by_tree(tree, name)
    return [(starts[first - 1], min(starts[last], len(data))) for first, last in found]


def _by_tree(tree: ast.Module, name: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []

    def walk(statements: Iterable[ast.AST], path: tuple[str, ...]) -> None:
        for child in statements:
            inner = path
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = (*path, child.name)
                if _named(inner, name):
                    first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
                    found.append((first, child.end_lineno or child.lineno))
            for block in _BLOCKS:  # statements only: expressions are most of a tree, and define nothing by name
                walk(getattr(child, block, ()), inner)

    walk(tree.body, ())
    return found


def _by_indent(lines: list[bytes], name: str) -> list[tuple[int, int]]:
    head = re.compile(rb"^([ \t]*)(?:async[ \t]+def|def|class)[ \t]+(\w+)")
    found: list[tuple[int, int]] = []
    open_blocks: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        match = head.match(line)
        if match is None:
            continue
        depth = len(match[1].expandtabs())
        while open_blocks and open_blocks[-1][0] >= depth:
            open_blocks.pop()
        open_blocks.append((depth, match[2].decode()))
        if _named(tuple(part for _, part in open_blocks), name):
            found.append((number, _block_end(lines, number, depth)))
    return found


def _block_end(lines: list[bytes], first: int, depth: int) -> int:
    last = first
    for number in range(first + 1, len(lines) + 1):
        line = lines[number - 1].expandtabs()
        indent = len(line) - len(line.lstrip())
        closes = line.lstrip()[:1] in (b")", b"]", b"#")
        if line.strip() and indent <= depth and not closes:
            break
        if line.strip():
            last = number
    return last


def _named(path: tuple[str, ...], name: str) -> bool:
    wanted = tuple(name.split("."))
    return path[-len(wanted) :] == wanted

"""Colours of code: parsed once in a thread by tree-sitter, asked for the visible lines only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Piece = tuple[int, int, str]
"""First and last byte in a line, and an ink."""

_PYTHON = """
(comment) @comment
(string) @string
(interpolation) @plain
[(integer) (float) (true) (false) (none)] @constant
(call function: (identifier) @function)
(call function: (attribute attribute: (identifier) @function))
(decorator) @function
(function_definition name: (identifier) @function)
(class_definition name: (identifier) @function)
["and" "as" "assert" "async" "await" "break" "class" "continue" "def" "del" "elif" "else" "except" "finally" "for"
 "from" "global" "if" "import" "in" "is" "lambda" "nonlocal" "not" "or" "pass" "raise" "return" "try" "while"
 "with" "yield" "match" "case"] @keyword
"""

_JSON = """
(pair key: (string) @function)
(string) @string
[(number) (true) (false) (null)] @constant
"""

_TOML = """
(comment) @comment
(bare_key) @function
(string) @string
[(integer) (float) (boolean)] @constant
"""

_BASH = """
(comment) @comment
[(string) (raw_string)] @string
(command_name) @function
["if" "then" "else" "elif" "fi" "for" "do" "done" "while" "case" "esac" "in" "function" "export"] @keyword
"""

_LANGUAGES = {
    ".py": ("tree_sitter_python", _PYTHON),
    ".pyi": ("tree_sitter_python", _PYTHON),
    ".json": ("tree_sitter_json", _JSON),
    ".toml": ("tree_sitter_toml", _TOML),
    ".sh": ("tree_sitter_bash", _BASH),
}

_ORDER = {"function": 0, "constant": 1, "keyword": 2, "string": 3, "plain": 4, "comment": 5}


BLOCK_LINES = 500
LINES_BEYOND = 80
"""Read on after a part, so that a string which goes on there has its end."""
BLOCKS_KEPT = 40
LINE_MOST = 4096
"""Bytes of a line that are looked at for a part's colours."""
_DEFS = (b"def ", b"class ", b"async def ", b"@")
_OUTERMOST = frozenset(bytes([code]) for code in b"@abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


class Colours:
    """The syntax tree of one text."""

    def __init__(self, tree: Any, query: Any) -> None:
        self._tree = tree
        self._query = query

    def of_lines(self, first: int, count: int) -> dict[int, list[Piece]]:
        """Return the coloured pieces of some lines, by 0-based line, later ones over earlier ones."""
        from tree_sitter import QueryCursor

        cursor = QueryCursor(self._query)
        cursor.set_point_range((first, 0), (first + count, 0))
        found: dict[int, list[tuple[int, Piece]]] = {}
        for name, nodes in cursor.captures(self._tree.root_node).items():
            for node in nodes:
                top, bottom = node.start_point, node.end_point
                for row in range(max(top.row, first), min(bottom.row, first + count - 1) + 1):
                    left = top.column if row == top.row else 0
                    right = bottom.column if row == bottom.row else 1 << 30
                    found.setdefault(row, []).append((_ORDER.get(name, 0), (left, right, name)))
        return {row: [piece for _, piece in sorted(pieces)] for row, pieces in found.items()}


class Blocks(Colours):
    """The syntax trees of parts of a text that is too big for one: each is parsed when it comes into sight.

    A part begins where a statement of the outermost level does, so that it is understood without what is before it.
    """

    def __init__(self, parser: Any, query: Any, lines: Sequence[bytes]) -> None:
        self._parser = parser
        self._of = query
        self._lines = lines
        self._parsed: dict[int, tuple[int, Colours]] = {}

    def of_lines(self, first: int, count: int) -> dict[int, list[Piece]]:
        """Return the coloured pieces of some lines, by 0-based line."""
        found: dict[int, list[Piece]] = {}
        count = min(count, len(self._lines) - first)
        for number in range(first // BLOCK_LINES, (first + count - 1) // BLOCK_LINES + 1):
            start, colours = self._block(number)
            top = max(first, number * BLOCK_LINES)
            end = min(first + count, (number + 1) * BLOCK_LINES)
            found |= {row + start: pieces for row, pieces in colours.of_lines(top - start, end - top).items()}
        return found

    def _block(self, number: int) -> tuple[int, Colours]:
        known = self._parsed.get(number)
        if known is None:
            start = number * BLOCK_LINES
            end = start + BLOCK_LINES + LINES_BEYOND
            start = self._begin(start)
            data = b"\n".join(line[:LINE_MOST] for line in self._lines[start:end])
            if len(self._parsed) >= BLOCKS_KEPT:
                self._parsed.clear()
            known = self._parsed[number] = (start, Colours(self._parser.parse(data), self._of))
        return known

    def _begin(self, start: int) -> int:
        """Return where the statement around a line begins: an outermost one, else a def, else the line itself."""
        above = range(start, max(-1, start - BLOCK_LINES), -1)
        outermost = (at for at in above if self._lines[at][:1] in _OUTERMOST)
        inner = (at for at in above if self._lines[at].lstrip(b" \t").startswith(_DEFS))
        return next(outermost, next(inner, start))


def parse(path: str, lines: Sequence[bytes], *, whole: bool = True) -> Colours | None:
    """Return the colours of a text, or nothing for a language that is not known; call it in a thread.

    Args:
        path: Its name tells the language.
        lines: The text.
        whole: Parse all of it now; else parts of it as they come into sight.
    """
    dot = path.rfind(".")
    known = _LANGUAGES.get(path[dot:]) if dot >= 0 else None
    if known is None:
        return None
    import importlib

    from tree_sitter import Language, Parser, Query

    language = Language(importlib.import_module(known[0]).language())
    parser, query = Parser(language), Query(language, known[1])
    return Colours(parser.parse(b"\n".join(lines)), query) if whole else Blocks(parser, query, lines)

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


def parse(path: str, lines: Sequence[bytes]) -> Colours | None:
    """Return the colours of a text, or nothing for a language that is not known; call it in a thread."""
    dot = path.rfind(".")
    known = _LANGUAGES.get(path[dot:]) if dot >= 0 else None
    if known is None:
        return None
    import importlib

    from tree_sitter import Language, Parser, Query

    language = Language(importlib.import_module(known[0]).language())
    return Colours(Parser(language).parse(b"\n".join(lines)), Query(language, known[1]))

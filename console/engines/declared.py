"""Flags as source code declares them: `add_argument` calls and annotated fields, read without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from console.engines.flags import Flag, deprecation, spelled

NUMBERS = {"int": "int", "float": "float", "str": "str"}

SWITCHES = ("StoreTrue", "StoreFalse", "DeprecatedAction")
"""In the names of actions that take no value; the last is SGLang's own, which only warns."""

SEVERAL = ("list", "tuple", "set", "frozenset", "sequence")
"""Types of fields whose flags take several values."""


def trees(sources: Mapping[str, bytes]) -> dict[str, ast.Module]:
    """Return what can be parsed of some files."""
    found = {}
    for name, source in sources.items():
        try:
            found[name] = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            continue
    return found


def constant_lists(modules: Iterable[ast.Module]) -> dict[str, tuple[str, ...]]:
    """Return module-level names that stand for lists of words: lists, tuples, `Literal[…]`, sums of those."""
    found: dict[str, tuple[str, ...]] = {}
    for tree in modules:
        for node in tree.body:
            target, value = _assigned(node)
            if target and value is not None and (words := words_of(value, found)):
                found[target] = words
    return found


def _assigned(node: ast.stmt) -> tuple[str, ast.expr | None]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    return "", None


def words_of(node: ast.expr | None, lists: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the words of a list, tuple, `Literal[…]` or known name; empty when any is not known."""
    if isinstance(node, ast.Name):
        return lists.get(node.id, ())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = words_of(node.left, lists), words_of(node.right, lists)
        return left + right if left and right else ()
    if isinstance(node, ast.Subscript) and name_of(node.value) == "Literal":
        inner = node.slice
        return words_of(inner if isinstance(inner, ast.Tuple) else ast.Tuple([inner], ast.Load()), lists)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        values = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        return tuple(map(str, values)) if len(values) == len(node.elts) else ()
    return ()


def name_of(node: ast.expr | None) -> str:
    """Return the last name of `a.b.C`, empty when it is none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def text_of(node: ast.expr | None) -> str:
    """Return the text of a string in source, its formatted parts left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return ""


def add_argument_calls(tree: ast.AST) -> list[ast.Call]:
    """Return the calls that declare a flag."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
    ]


def of_call(node: ast.Call, lists: Mapping[str, tuple[str, ...]]) -> dict[str, Flag]:
    """Return the flag that one `add_argument` call declares, under all its spellings."""
    names = [text for arg in node.args if (text := text_of(arg)).startswith("-")]
    options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    action, nargs = options.get("action"), options.get("nargs")
    verb = text_of(action) or name_of(action)
    paired = verb == "BooleanOptionalAction"
    count = nargs.value if isinstance(nargs, ast.Constant) else None
    flag = Flag(
        "",
        words_of(options.get("choices"), lists),
        paired or verb.startswith("store_") or any(one in verb for one in SWITCHES) or count == 0,
        NUMBERS.get(name_of(options.get("type")), ""),
        count in ("+", "*") or (isinstance(count, int) and count > 0) or verb == "append",
        count in ("?", "*") or (nargs is not None and count is None and "StoreConst" in verb),
        deprecated=deprecation(text_of(options.get("help"))) or _instead(verb, options),
    )
    return spelled(names, flag, paired=paired)


def _instead(verb: str, options: Mapping[str, ast.expr]) -> str:
    new = text_of(options.get("new_flag")).lstrip("-")
    return f"write {new}" if new and "Deprecated" in verb else ""


def kind_of(annotation: ast.expr | None, lists: Mapping[str, tuple[str, ...]]) -> Flag:
    """Return what a field's type says of its flag: switch, numbers, words to choose from, several values, JSON."""
    parts = _union(annotation)
    names = {name_of(part) for part in parts}
    if "bool" in names and len(parts) == 1:
        return Flag("", switch=True)
    words = [word for part in parts if isinstance(part, (ast.Name, ast.Subscript)) for word in words_of(part, lists)]
    several = any(isinstance(part, ast.Subscript) and name_of(part.value).lower() in SEVERAL for part in parts)
    if several:
        inner = [part.slice for part in parts if isinstance(part, ast.Subscript)]
        return Flag("", type=NUMBERS.get(name_of(inner[0]), "") if len(parts) == 1 else "", several=True)
    if words and "str" not in names:
        return Flag("", tuple(dict.fromkeys(words)), type="str")
    if len(names) == 1 and (kind := NUMBERS.get(next(iter(names)))):
        return Flag("", type=kind)
    if any(isinstance(part, ast.Subscript) and name_of(part.value) in ("Dict", "dict") for part in parts):
        return Flag("", type="json")
    if len(parts) == 1 and next(iter(names)).endswith(("Config", "Policy")):
        return Flag("", type="json")
    return Flag("")


def _union(node: ast.expr | None) -> list[ast.expr]:
    """Return the parts of `X | Y`, `Optional[X]` and `Union[X, Y]`, `None` left out."""
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return []
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _union(ast.parse(node.value, mode="eval").body)
        except SyntaxError:
            return [node]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union(node.left) + _union(node.right)
    if isinstance(node, ast.Subscript) and name_of(node.value) in ("Optional", "Union"):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [part for each in inner for part in _union(each)]
    return [node]

"""The flags that an installed SGLang knows, read from its source; nothing is imported there."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from console.domain.profile import ArgValue

SOURCE = "srt/server_args.py"
"""Relative to the package; where the flags are declared up to the versions read."""

FEWEST = 50
"""With fewer flags found the source has another shape, and nothing can be said."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One declared flag."""

    name: str
    choices: tuple[str, ...] = ()
    switch: bool = False
    """Takes no value."""


@dataclass(frozen=True, slots=True)
class FlagFault:
    """What an install would refuse."""

    flag: str
    what: str
    hint: str = ""
    fatal: bool = True
    """Whether the launch would end with it."""


def flags_of(source: bytes) -> Mapping[str, Flag]:
    """Return every flag that the source declares, without `--`; empty when its shape is unknown."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    lists = _constant_lists(tree)
    found: dict[str, Flag] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for flag in _declared(node, lists):
                found[flag.name] = flag
    return found if len(found) >= FEWEST else {}


def faults(args: Mapping[str, ArgValue], known: Mapping[str, Flag]) -> tuple[FlagFault, ...]:
    """Return what is wrong with the arguments of a profile, as the install's parser would say."""
    found = [_fault(name, value, known) for name, value in args.items() if value is not False]
    return tuple(fault for fault in found if fault is not None)


def _fault(name: str, value: ArgValue, known: Mapping[str, Flag]) -> FlagFault | None:
    flag = known.get(name)
    if flag is None:
        longer = [other for other in known if other.startswith(name)]
        if len(longer) == 1:
            return FlagFault(name, "is an abbreviation", f"write {longer[0]}", fatal=False)
        if longer:
            return FlagFault(name, f"is ambiguous: {', '.join(sorted(longer)[:5])}")
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        return FlagFault(name, "is not a flag of this install", f"did you mean {close[0]}?" if close else "")
    single = isinstance(value, (str, int)) and not isinstance(value, bool)
    if flag.choices and single and str(value) not in flag.choices:
        close = difflib.get_close_matches(str(value), flag.choices, n=1, cutoff=0.5)
        near = f"did you mean {close[0]}?" if close else f"one of {', '.join(flag.choices)}"
        return FlagFault(name, f"cannot be {value!r}", near)
    if flag.switch and value is not True:
        return FlagFault(name, "takes no value", "write true")
    if value is True and not flag.switch and flag.choices:
        return FlagFault(name, "needs a value", f"one of {', '.join(flag.choices)}")
    return None


def _declared(node: ast.Call, lists: Mapping[str, tuple[str, ...]]) -> list[Flag]:
    names = [
        arg.value[2:]
        for arg in node.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and arg.value.startswith("--")
    ]
    options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    action = options.get("action")
    paired = isinstance(action, ast.Attribute) and action.attr == "BooleanOptionalAction"
    names += [f"no-{name}" for name in names] if paired else []
    switch = paired or (isinstance(action, ast.Constant) and str(action.value).startswith("store_"))
    choices = _strings(options.get("choices"), lists)
    return [Flag(name, choices, switch) for name in names]


def _strings(node: ast.expr | None, lists: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return lists.get(node.id, ())
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        return tuple(map(str, values)) if len(values) == len(node.elts) else ()
    return ()


def _constant_lists(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values = _strings(node.value, found)
            if values:
                found[node.targets[0].id] = values
    return found

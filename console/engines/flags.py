"""Flags of one install: what its parser or its source says, and what that parser would say of a profile."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from console.domain.profile import ArgValue

MARK = "FLAGS "
"""Begins the line on which an install tells its flags, among whatever its imports print."""

TELL = f"""
import json
def tell(parser):
    found = []
    for action in parser._actions:
        kind = getattr(action.type, "__name__", "") if action.type is not None else ""
        found.append(dict(names=list(action.option_strings), switch=action.nargs == 0, nargs=action.nargs, type=kind,
                          choices=[str(each) for each in action.choices or []], help=str(action.help or "")[:300]))
    print("\\n{MARK}" + json.dumps(found))
"""
"""Sent to the interpreter that launches; a line that makes the engine's own parser follows."""

FEWEST = 50
"""With fewer flags found the source has another shape, and nothing can be said."""

_INVOCATION = re.compile(
    r"(?P<name>--?[A-Za-z][\w.-]*)(?P<meta>[ =](?:\{[^}]*\}|\[?[^\s,\[{-][^,]*?(?: \.\.\.\]?)?|\[[^\]]*\](?: \.\.\.)?))?(?=, |,\s+-|\s{2,}|$)"
)
_DEPRECATED = re.compile(r"\bdeprecated\b|\bno longer (?:used|has)", re.IGNORECASE)
_INSTEAD = re.compile(r"(?:[Uu]se|in favou?r of|replaced by|renamed to) [`'\"]?(?P<flag>--[\w.-]+)")
_COUNT = re.compile(r"-?\d[\d_]*(?:\.\d+)?(?:[kKmMgGtT]i?)?")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag that an install accepts."""

    name: str
    choices: tuple[str, ...] = ()
    switch: bool = False
    """Takes no value."""
    type: str = ""
    """`int`, `float`, `json`, `str`; empty when it is not known, or a parser of its own reads it."""
    several: bool = False
    """Takes several values."""
    optional: bool = False
    """May stand without its value."""
    same_as: str = ""
    """The name of the same flag that all its spellings share."""
    deprecated: str = ""
    """What the install says of it, when it is about to go."""


@dataclass(frozen=True, slots=True)
class FlagFault:
    """What an install would refuse, or take otherwise than it is written."""

    flag: str
    what: str
    hint: str = ""
    fatal: bool = True
    """Whether the launch would end with it."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How the parser of an engine departs from the usual."""

    abbreviations: bool = True
    underscores: bool = False
    """Whether `--a_b` is `--a-b`."""
    dotted: bool = False
    """Whether `--a.b c` sets a part of the JSON value of `--a`."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Flags of other versions, and what to write instead."""


def told(output: str) -> Mapping[str, Flag]:
    """Return the flags that an install tells of itself: on a marked line, or as help text; empty when it does not."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            try:
                return _of_actions(json.loads(line.removeprefix(MARK)))
            except (ValueError, TypeError, KeyError):
                return {}
    return _of_help(output)


def spelled(names: Sequence[str], flag: Flag, *, paired: bool = False) -> dict[str, Flag]:
    """Return one flag under all its spellings; a pair also as `no-…`."""
    plain = [name.lstrip("-") for name in names if name.startswith("--") and len(name) > 2]
    if not plain:
        return {}
    if paired:
        plain += [f"no-{name}" for name in plain if not name.startswith("no-")]
    return {name: replace(flag, name=name, same_as=plain[0]) for name in plain}


def check(args: Mapping[str, ArgValue], known: Mapping[str, Flag], habits: Habits) -> tuple[FlagFault, ...]:
    """Return what is wrong with the arguments of a profile, as the install's parser would say."""
    found: list[FlagFault] = []
    given: dict[str, str] = {}
    for name, value in args.items():
        if value is False:
            continue
        flag, fault = _flag_of(name, known, habits)
        if fault is not None:
            found.append(fault)
        if flag is None:
            continue
        if flag.deprecated:
            found.append(FlagFault(name, "is deprecated", flag.deprecated, fatal=False))
        if "." not in name:
            found += _again(name, flag, given)
            worth = _worth(name, value, flag)
            found += [worth] if worth is not None else []
    return tuple(found)


def _flag_of(name: str, known: Mapping[str, Flag], habits: Habits) -> tuple[Flag | None, FlagFault | None]:
    """Return the flag that the parser would take a name for, and what is wrong with the name."""
    looked = name.replace("_", "-") if habits.underscores else name
    head = looked.partition(".")[0] if habits.dotted else looked
    if flag := known.get(looked) or known.get(head):
        return flag, None
    if instead := habits.renamed.get(looked):
        return None, FlagFault(name, "is not a flag of this install", instead)
    longer = [other for other in known if other.startswith(head)] if habits.abbreviations else []
    meant = {known[other].same_as or other for other in longer}
    if len(meant) == 1:
        first = min(longer, key=len)
        return known[first], FlagFault(name, "is an abbreviation", f"write {first}", fatal=False)
    if longer:
        return None, FlagFault(name, f"is ambiguous: {', '.join(sorted(longer)[:5])}")
    close = difflib.get_close_matches(head, known, n=1, cutoff=0.6)
    return None, FlagFault(name, "is not a flag of this install", f"did you mean {close[0]}?" if close else "")


def _again(name: str, flag: Flag, given: dict[str, str]) -> list[FlagFault]:
    """Return that one flag is given under two names: the later one wins without a word."""
    key = flag.same_as or flag.name
    before = given.setdefault(key, name)
    if before == name:
        return []
    if (before.startswith("no-") or name.startswith("no-")) and before.startswith("no-") != name.startswith("no-"):
        return [FlagFault(name, f"contradicts {before}", "keep one of them")]
    return [FlagFault(name, f"is the same flag as {before}: the last one wins", "keep one of them", fatal=False)]


def _worth(name: str, value: ArgValue, flag: Flag) -> FlagFault | None:
    if flag.switch:
        return None if value is True else FlagFault(name, "takes no value", "write true")
    if value is True:
        if flag.optional:
            return None
        return FlagFault(name, "needs a value", f"one of {', '.join(flag.choices)}" if flag.choices else "")
    if isinstance(value, tuple) and not flag.several and len(value) > 1 and flag.type != "":
        return FlagFault(name, f"takes one value, {len(value)} are given")
    for each in value if isinstance(value, tuple) else (value,):
        if fault := _one(name, each, flag):
            return fault
    return None


def _one(name: str, value: object, flag: Flag) -> FlagFault | None:
    if isinstance(value, Mapping):
        fits = flag.type in ("json", "", "str")
        return None if fits else FlagFault(name, "takes no JSON")
    if flag.choices and str(value) not in flag.choices:
        close = difflib.get_close_matches(str(value), flag.choices, n=1, cutoff=0.5)
        near = f"did you mean {close[0]}?" if close else f"one of {', '.join(flag.choices)}"
        return FlagFault(name, f"cannot be {value!r}", near)
    if flag.type in ("int", "float") and value == "None":
        return None  # what vLLM's optional numbers may be; whether a flag's is one, nobody tells
    if flag.type == "int" and not (isinstance(value, int) or (isinstance(value, str) and _is_count(value))):
        return FlagFault(name, f"cannot be {value!r}", "a whole number is needed")
    if flag.type == "float" and not _is_number(value):
        return FlagFault(name, f"cannot be {value!r}", "a number is needed")
    if flag.type == "json" and isinstance(value, str) and value[:1] in ("{", "["):
        try:
            json.loads(value)
        except ValueError as error:
            return FlagFault(name, f"is no JSON: {error}", "write it as a TOML table")
    return None


def _is_count(text: str) -> bool:
    return _COUNT.fullmatch(text) is not None


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def with_types(asked: Mapping[str, Flag], read: Mapping[str, Flag]) -> Mapping[str, Flag]:
    """Return what an install tells, with the numbers that its source declares where a parser of its own reads them.

    vLLM wraps the types of its optional numbers, and tells of none.
    """
    return {
        name: replace(flag, type=read[name].type)
        if not flag.type and not flag.several and name in read and read[name].type in ("int", "float")
        else flag
        for name, flag in asked.items()
    }


def _of_actions(actions: Sequence[Mapping[str, object]]) -> dict[str, Flag]:
    found: dict[str, Flag] = {}
    for action in actions:
        names = [str(name) for name in _list(action["names"])]
        kind, nargs = str(action.get("type") or ""), action.get("nargs")
        flag = Flag(
            "",
            tuple(map(str, _list(action.get("choices")))),
            bool(action.get("switch")),
            kind if kind in ("int", "float", "str") else ("json" if "json" in kind or "loads" in kind else ""),
            nargs in ("+", "*") or (isinstance(nargs, int) and nargs > 0),
            nargs in ("?", "*"),
            deprecated=deprecation(str(action.get("help") or "")),
        )
        found.update(spelled(names, flag))
    return found


def deprecation(text: str) -> str:
    """Return what to write instead of a deprecated flag, as its help says; empty when it is not deprecated."""
    if not _DEPRECATED.search(text[:120]):
        return ""
    instead = _INSTEAD.search(text)
    return f"write {instead['flag'].lstrip('-')}" if instead else " ".join(text.split())[:120]


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _of_help(text: str) -> dict[str, Flag]:
    """Return the flags of a help text: argparse's, or one that has them in a first column."""
    found: dict[str, Flag] = {}
    for line in text.splitlines():
        if not re.match(r" {0,6}-{1,2}[A-Za-z]", line):
            continue
        names, meta = [], ""
        at = len(line) - len(line.lstrip())
        while match := _INVOCATION.match(line, at):
            names.append(match["name"])
            meta = (match["meta"] or "").strip(" =") or meta
            at = match.end()
            skipped = re.match(r",\s*", line[at:])
            if skipped is None:
                break
            at += skipped.end()
        braces = re.match(r"\[?\{([^}]*)\}", meta) or re.match(r"\[([\w|-]+\|[\w|-]+)\]", meta)
        choices = tuple(re.split(r"[,|]", braces[1])) if braces else ()
        found.update(spelled(names, Flag("", choices, not meta, several="..." in meta, optional=meta.startswith("["))))
    return found

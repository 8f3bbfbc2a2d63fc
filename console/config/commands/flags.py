"""The words behind a launch to flags and values, as the engine's own parser would take them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from console.config.commands.dialects import Dialect
from console.config.commands.expand import Field
from console.config.commands.json_values import is_json, judged, parsed
from console.config.commands.notes import ERROR, NOTE, WARNING, Note
from console.domain.profile import ArgValue

_NUMBER = re.compile(r"-?\d{1,18}|-?\d+\.\d+")
_NEGATIVE = re.compile(r"-\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SWITCHES = ("enable-", "disable-", "no-", "skip-")
_LONG = re.compile(r"--[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Given:
    """One flag as it stands on the line."""

    name: str
    """Without dashes, as it was spelled; a short one by its long name."""
    values: tuple[Field, ...]
    line: int


@dataclass(slots=True)
class Read:
    """The flags of a launch."""

    args: dict[str, ArgValue] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unresolved: list[tuple[str, str, int]] = field(default_factory=list)
    """Flag, what is not known, line."""
    positional: list[Field] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def read_flags(words: Sequence[Field], spelled: Dialect, text: str, *, repair: bool = False) -> Read:
    """Return the flags of the words behind a launch.

    Args:
        words: What the engine's parser gets.
        spelled: The engine's spelling.
        text: The whole source.
        repair: Take what was probably meant in place of what stands there.
    """
    found = Read()
    given = _given([one.at_home() for one in words], spelled, found)
    folded: dict[str, dict[str, object]] = {}
    for each in given:
        each = _renamed(each, found)
        for value in each.values:
            found.unresolved += [(each.name, what, value.line) for what in value.unresolved]
        if spelled.dotted and "." in each.name:
            _fold(each, folded, found)
            continue
        note, meant = judged(each.name, each.values, text)
        if note is not None:
            taken = repair and bool(meant)
            found.notes.append(
                Note(NOTE, f"--{each.name}: taken as it was meant, {meant}", note.line, each.name) if taken else note
            )
            if taken:
                each = replace(each, values=(replace(each.values[0], text=meant),))
        _keep(each, spelled, found)
    for name, parts in folded.items():
        _merge(name, parts, found)
    return found


def _renamed(each: Given, found: Read) -> Given:
    """Return what `-O` was before it was a level: the compilation's configuration."""
    head, dot, rest = each.name.partition(".")
    whole = bool(each.values) and each.values[0].text.startswith("{")
    if head != "optimization-level" or not (dot or whole):
        return each
    said = "-O with more than a level is gone from present versions; written as --compilation-config"
    found.notes.append(Note(WARNING, said, each.line, "compilation-config"))
    return replace(each, name=f"compilation-config{dot}{rest}")


def _given(words: Sequence[Field], spelled: Dialect, found: Read) -> list[Given]:
    given: list[Given] = []
    at = 0
    while at < len(words):
        one = words[at]
        at += 1
        name, value = _name(one, spelled)
        if not name:
            _loose(one, given, spelled, found)
            continue
        values = [replace(one, text=value)] if value is not None else []
        canonical = spelled.canonical(name)
        while value is None and at < len(words) and _is_value(words[at].text):
            if canonical in spelled.switches and words[at].text.lower() not in ("true", "false"):
                break
            if words[at].open and (values or canonical.startswith(_SWITCHES)):
                break  # it stands for flags of its own, or for nothing
            values.append(words[at])
            at += 1
        given.append(Given(name, tuple(values), one.line))
    return given


def _name(one: Field, spelled: Dialect) -> tuple[str, str | None]:
    """Return the flag that a word is, and the value glued to it."""
    text = one.text
    if _LONG.match(text):
        head, equals, value = text[2:].partition("=")
        if spelled.underscores:
            front, dot, tail = head.partition(".")
            head = front.replace("_", "-") + dot + tail
        return head, value if equals else None
    if not text.startswith("-") or _NEGATIVE.fullmatch(text) or len(text) < 2:
        return "", None
    head, equals, value = text[1:].partition("=")
    short, dot, rest = head.partition(".")
    if short in spelled.short:
        return spelled.short[short] + dot + rest, value if equals else None
    if text[1] in spelled.short and text[2:].isdigit():
        return spelled.short[text[1]], text[2:]
    return "", None


def _is_value(text: str) -> bool:
    return not text.startswith("-") or text == "-" or _NEGATIVE.fullmatch(text) is not None or text.startswith("- ")


def _loose(one: Field, given: list[Given], spelled: Dialect, found: Read) -> None:
    if one.text == "--":
        return
    if one.open and (given or not spelled.positional):
        name = re.sub(r"\W", "", one.text)
        said = f"{one.text} is not defined in this text and may hold flags: left out; --set {name}=… fills it in"
        found.notes.append(Note(WARNING, said, one.line, name))
        return
    if one.text.startswith("-"):
        said = f"{one.text} has one dash and is no short flag of {spelled.kind} that is known: left out"
        found.notes.append(Note(WARNING, said, one.line, one.text.lstrip("-"), f"-{one.text}"))
    else:
        found.positional.append(one)


def _keep(each: Given, spelled: Dialect, found: Read) -> None:
    canonical = spelled.canonical(each.name)
    name = each.name if spelled.same.get(each.name) == canonical else canonical
    if name != each.name:
        said = f"--{each.name} is an abbreviation of --{name}: written whole"
        found.notes.append(Note(WARNING, said, each.line, name))
    if (instead := spelled.gone.get(canonical)) is not None:
        said = f"--{canonical} is gone from present versions of {spelled.kind}; instead: {instead}"
        found.notes.append(Note(WARNING, said, each.line, canonical))
    value = argument(each.values)
    if canonical in spelled.switches and isinstance(value, str) and value.lower() in ("true", "false"):
        found.notes.append(_switched(name, value, each.line, spelled))
        if value.lower() == "false":
            canonical = name = f"no-{name}"
            if not spelled.underscores:
                return
        value = True
    before = next((other for other in found.args if spelled.canonical(other) == canonical), None)
    if before is not None and canonical in spelled.repeated:
        had = found.args[before]
        found.args[before] = (*_many(had), *_many(value))
        return
    if before is not None:
        same = found.args[before] == value
        shown = "" if same or value is True else f": {value_text(value)} counts, not {value_text(found.args[before])}"
        twice = f"--{name} given twice" if before == name else f"--{before} and --{name} are one flag, given twice"
        found.notes.append(Note(WARNING, twice + shown, each.line, name))
        del found.args[before]
    found.args[name] = value
    found.lines[name] = each.line


def _switched(name: str, value: str, line: int, spelled: Dialect) -> Note:
    """Return the remark on a switch with a value, which the engine's parser does not take."""
    meant = f"--{name}" if value.lower() == "true" else f"--no-{name}" if spelled.underscores else "nothing"
    return Note(WARNING, f"--{name} takes no value: {value} was read as {meant}", line, name)


def _many(value: ArgValue) -> tuple[str | int | float, ...]:
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, (str, int, float)) else ()


def argument(values: Sequence[Field]) -> ArgValue:
    """Return values as a profile has them; a number only where it is written back as it stood."""
    if not values:
        return True
    plain = tuple(scalar(one.text) for one in values)
    return plain[0] if len(plain) == 1 else plain


def scalar(text: str) -> str | int | float:
    """Return a number for text that is written back the same, else the text."""
    if not _NUMBER.fullmatch(text):
        return text
    number: int | float = int(text) if "." not in text else float(text)
    return number if repr(number) == text else text


def value_text(value: object) -> str:
    """Return a value as it stands on a command line."""
    if value is True:
        return "given"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _fold(each: Given, folded: dict[str, dict[str, object]], found: Read) -> None:
    name, *path = each.name.split(".")
    text = " ".join(one.text for one in each.values)
    value: object = True if not each.values else parsed(text)
    if each.values and value is None and text != "null":
        value = _readable(text)
    if path[-1].endswith("+"):  # a list, item by item
        path[-1] = path[-1][:-1]
        value = [item if (made := parsed(item)) is None else made for item in text.split(",")]
    at: dict[str, object] = folded.setdefault(name, {})
    for key in path[:-1]:
        below = at.setdefault(key, {})
        if not isinstance(below, dict):
            found.notes.append(Note(WARNING, f"--{each.name}: {key} has a value already", each.line, name))
            return
        at = below
    had = at.get(path[-1])
    if isinstance(had, list) and isinstance(value, list):
        value = [*had, *value]
    elif path[-1] in at:
        found.notes.append(Note(WARNING, f"--{each.name} given twice: the last one counts", each.line, name))
    at[path[-1]] = value
    found.lines.setdefault(name, each.line)


def _readable(text: str) -> object:
    """Return the number that `32k` or `80G` means in a part of a JSON value, else the text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT])", text)
    if match is None:
        return text
    power = "kmgt".index(match[2].lower()) + 1
    return int(float(match[1]) * (1000**power if match[2].islower() else 1024**power))


def _merge(name: str, value: dict[str, object], found: Read) -> None:
    had = found.args.get(name)
    line = found.lines.get(name, 0)
    if had is None:
        found.args[name] = value
        found.notes.append(Note(NOTE, f"--{name}.… are parts of one JSON value, written as one table", line, name))
        return
    whole = parsed(had) if isinstance(had, str) else None
    if not isinstance(whole, dict):
        said = f"--{name} is given whole and in parts, and the whole is no JSON object"
        found.notes.append(Note(ERROR, said, line, name))
        return
    said = f"--{name} is given whole and in parts: the parts are laid over the whole"
    found.notes.append(Note(WARNING, said, line, name))
    found.args[name] = laid_over(whole, value)


def laid_over(below: dict[str, object], above: dict[str, object]) -> dict[str, object]:
    """Return an object with the parts of another put in."""
    made = dict(below)
    for key, value in above.items():
        under = made.get(key)
        made[key] = laid_over(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return made


def settings(args: Mapping[str, ArgValue]) -> dict[str, object]:
    """Return arguments with JSON texts as what they mean, so that two spellings of one setting are equal."""
    return {name: parsed(value) if isinstance(value, str) and is_json(value) else value for name, value in args.items()}

"""Expansion of words with the variables that the text itself gives; commands in it are never run."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from console.config.commands.lexer import Lexer, Part, Word

_PARAMETER = re.compile(r"(?P<name>[A-Za-z_]\w*|[@*#?$!-]|\d+)(?P<index>\[[^\]]*\])?(?P<rest>.*)", re.DOTALL)
_DEFAULT = re.compile(r"(?P<sign>:?[-=+?])(?P<word>.*)", re.DOTALL)
_SLICE = re.compile(r": ?(?P<first>\d+)(?::(?P<count>\d+))?")
_TRIM = re.compile(r"(?P<sign>##?|%%?)(?P<pattern>.*)", re.DOTALL)
_REPLACE = re.compile(r"//?(?P<old>[^/]*)/?(?P<new>.*)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}\s:\"']*,[^{}\s:\"']*|(\d+)\.\.(\d+))\}")
_DEPTH_LIMIT = 20
_BRACES_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Variable:
    """One shell variable of the text."""

    value: str | tuple[str, ...]
    line: int = 0
    exported: bool = False
    uncertain: bool = False
    """Set where a condition decides."""
    needs: frozenset[str] = frozenset()
    """Variables that its value was made of."""
    unresolved: tuple[str, ...] = ()
    """What in its value the text does not tell, as it is written."""
    others: tuple[tuple[int, str | tuple[str, ...]], ...] = ()
    """Lines and values that a condition may choose instead."""


@dataclass(frozen=True, slots=True)
class Field:
    """One argument after expansion, and where it came from."""

    text: str
    line: int
    start: int = 0
    end: int = 0
    word_line: int = 0
    unresolved: tuple[str, ...] = ()
    """What the text does not define, as it is written: `$MODEL`, `$(nproc)`."""
    used: frozenset[str] = frozenset()
    literal_dollar: bool = False
    """A dollar inside single quotes."""
    bare_braces: bool = False
    """Braces that a shell would not leave alone."""
    open: bool = False
    """An unquoted variable alone, of which nothing is known: it may be nothing, or several arguments."""

    def at_home(self) -> Field:
        """Return the field with `$HOME/` at its beginning as `~/`, which a profile can say."""
        home = "${HOME}"
        begins = self.text == home or self.text.startswith(home + "/")
        if not begins or self.unresolved.count(home) != 1:
            return self
        left = tuple(what for what in self.unresolved if what != home)
        return replace(self, text="~" + self.text.removeprefix(home), unresolved=left)


@dataclass(slots=True)
class _Building:
    text: str = ""
    started: bool = False
    unresolved: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    open: bool = False


def expanded(word: Word, known: Mapping[str, Variable], *, split: bool = True) -> list[Field]:
    """Return the arguments that a word becomes.

    Args:
        word: The word.
        known: The variables so far.
        split: Whether unquoted values part at blanks, as they do everywhere but in an assignment.
    """
    built = [_Building()]
    for part in word.parts:
        _take(part, known, built, split)
    single = any(part.single and re.search(r"\$[A-Za-z_{]", part.text) for part in word.parts)
    open_text = "".join(part.text for part in word.parts if part.kind == "text" and not part.quoted)
    bare = re.search(r"\{.*[,:]|[,:].*\}", open_text) is not None
    fields = [
        Field(
            one.text,
            word.line,
            word.start,
            word.end,
            word.line,
            tuple(one.unresolved),
            frozenset(one.used),
            single,
            bare,
            one.open and one.unresolved == [one.text],
        )
        for one in built
        if one.started
    ]
    plain = all(part.kind == "text" and not part.quoted for part in word.parts)
    return [each for one in fields for each in _braced(one)] if plain and split else fields


def _take(part: Part, known: Mapping[str, Variable], built: list[_Building], split: bool) -> None:
    last = built[-1]
    if part.kind == "text":
        last.text += part.text
        last.started = last.started or bool(part.text) or part.quoted
        return
    if part.kind == "command" and (document := _DOCUMENT.fullmatch(part.text)) is not None:
        read = _document(document, known)
        _join(_split(read.text, read.unresolved) if split and not part.quoted else [read.text], built, read, last.open)
        return
    if part.kind != "var":
        written = f"$(({part.text}))" if part.kind == "arithmetic" else f"$({part.text})"
        value = _sum(part.text, known) if part.kind == "arithmetic" else None
        last.text += written if value is None else value
        last.unresolved += [written] if value is None else []
        last.started = True
        return
    values, needed, missing = parameter(part.text, known)
    last.used |= needed
    if missing:
        last.open = not (last.started or part.quoted)
        last.text += missing
        last.unresolved.append(missing)
        last.started = True
        return
    main = known.get(_name_of(part.text))
    come = Field("", part.line, unresolved=main.unresolved if main is not None else (), used=frozenset(needed))
    splits = split and not part.quoted
    pieces = [piece for value in values for piece in _split(value, come.unresolved)] if splits else values
    if len(values) == 1 and splits:
        if values[0][:1].isspace() and last.started and pieces:
            built.append(_Building(used=set(needed)))
        _join(pieces, built, come, True)
        if values[0][-1:].isspace() and pieces and built[-1].started:
            built.append(_Building())
        return
    if not pieces and part.quoted and not _is_list(part.text):
        pieces = [""]
    _join(pieces, built, come, splits)


def _join(pieces: list[str], built: list[_Building], come: Field, open_: bool) -> None:
    """Put pieces of a value behind what is built; `come` has what was used for them."""
    for number, piece in enumerate(pieces):
        if number:
            built.append(_Building())
        last = built[-1]
        last.open = open_ and not last.started
        last.text += piece
        last.started = True
        last.used |= come.used
        last.unresolved += [what for what in come.unresolved if what in piece]


_DOCUMENT = re.compile(
    r"\s*cat\s*<<-?\s*(?P<quote>['\"\\]?)(?P<end>\w+)['\"]?[ \t]*\n(?P<body>.*?)\n\s*(?P=end)\s*", re.DOTALL
)
"""`$(cat <<EOF …)`: a text, whatever runs."""


def _document(found: re.Match[str], known: Mapping[str, Variable]) -> Field:
    if found["quote"]:
        return Field(found["body"], 0)
    body = found["body"].replace('"', '\\"')
    tokens = Lexer(f'"{body}"').tokens()
    fields = [one for token in tokens if isinstance(token, Word) for one in expanded(token, known)]
    return fields[0] if fields else Field("", 0)


def _name_of(text: str) -> str:
    match = _PARAMETER.fullmatch(text.removeprefix("!"))
    return match["name"] if match is not None else ""


def names_in(word: Word, known: Mapping[str, Variable]) -> set[str]:
    """Return the variables of a word, and those that their values were made of."""
    found: set[str] = set()
    for part in word.parts:
        if part.kind == "var" and (name := _name_of(part.text)):
            found |= {name, *(known[name].needs if name in known else ())}
    return found


def assigning(word: Word, known: Mapping[str, Variable]) -> dict[str, Field]:
    """Return the variables that `${NAME:=value}` in a word sets, where they are not set yet."""
    found: dict[str, Field] = {}
    for part in word.parts:
        match = _PARAMETER.fullmatch(part.text) if part.kind == "var" else None
        if match is None or not re.match(r":?=", match["rest"]):
            continue
        old = known.get(match["name"])
        if old is None or (match["rest"].startswith(":") and not old.value):
            fields = expanded(replace(word, parts=(replace(part, quoted=True),)), known)
            found[match["name"]] = fields[0] if fields else Field("", word.line)
    return found


def _is_list(text: str) -> bool:
    return text.startswith(("@", "*")) or text.partition(":")[0].endswith(("[@]", "[*]"))


def _word(variable: Variable) -> str:
    return variable.value if isinstance(variable.value, str) else " ".join(variable.value)


def _split(value: str, whole: Iterable[str] = ()) -> list[str]:
    """Part a value at its blanks; never inside what is not known (`$(hostname -I)`)."""
    kept = [what for what in dict.fromkeys(whole) if any(map(str.isspace, what))]
    for number, what in enumerate(kept):
        value = value.replace(what, f"\0{number}\0")
    pieces = value.split()
    for number, what in enumerate(kept):
        pieces = [piece.replace(f"\0{number}\0", what) for piece in pieces]
    return pieces


def parameter(text: str, known: Mapping[str, Variable], depth: int = 0) -> tuple[list[str], set[str], str]:
    """Return the values of `$text`, the variables used, and how it is written when it cannot be known."""
    written = f"${{{text}}}"
    match = _PARAMETER.fullmatch(text.removeprefix("!"))
    if match is None or (text.startswith(("!", "#")) and len(text) > 1) or depth > _DEPTH_LIMIT:
        return [], set(), written
    name, rest = match["name"], match["rest"]
    variable = known.get(name)
    default = _DEFAULT.fullmatch(rest)
    if default is not None:
        return _defaulted(variable, default, known, {name}, written, depth)
    if variable is None:
        return ([], set(), "") if name in ("@", "*") else ([], {name}, written)
    values = _indexed(variable.value, "[@]" if name in ("@", "*") else match["index"])
    if values is None:
        return [], {name}, written
    if _is_list(text) and (part := _SLICE.fullmatch(rest)):
        before = [_word(known["0"])] if name in ("@", "*") and "0" in known else [""] * (name in ("@", "*"))
        first = int(part["first"])  # counted from `$0` where these are the arguments
        values = [*before, *values][first : first + int(part["count"]) if part["count"] else None]
    elif rest:
        trimmed = [_shaped(value, rest) for value in values]
        if any(value is None for value in trimmed):
            return [], {name}, written
        values = [value for value in trimmed if value is not None]
    return values, {name, *variable.needs}, ""


def _defaulted(
    variable: Variable | None,
    default: re.Match[str],
    known: Mapping[str, Variable],
    used: set[str],
    written: str,
    depth: int,
) -> tuple[list[str], set[str], str]:
    sign, word = default["sign"], default["word"]
    lacking = variable is None or (sign.startswith(":") and not variable.value)
    if sign.endswith("+"):
        if lacking:
            return [], used, ""
    elif not lacking and variable is not None:
        return [_word(variable)], used | variable.needs, ""
    elif sign.endswith("?"):
        return [], used, written
    tokens = Lexer(word).tokens()
    fields = [one for token in tokens if isinstance(token, Word) for one in expanded(token, known)]
    missing = [what for one in fields for what in one.unresolved]
    return (
        [" ".join(one.text for one in fields)],
        used.union(*(one.used for one in fields)),
        missing[0] if missing else "",
    )


def _indexed(value: str | tuple[str, ...], index: str | None) -> list[str] | None:
    if isinstance(value, str):
        return [value] if index in (None, "[0]", "[@]", "[*]") else None
    if index in ("[@]", "[*]"):
        return list(value)
    number = index[1:-1] if index else "0"
    if not number.isdigit() or int(number) >= len(value):
        return None
    return [value[int(number)]]


def _shaped(value: str, rest: str) -> str | None:
    """Return `${x%…}`, `${x#…}` or `${x/…/…}`; `None` for what is not read."""
    if (trim := _TRIM.fullmatch(rest)) is not None:
        sizes: Iterator[int] = iter(range(len(value) + 1))
        if len(trim["sign"]) == 2:
            sizes = reversed(range(len(value) + 1))
        for size in sizes:
            front = trim["sign"][0] == "#"
            piece = value[:size] if front else value[len(value) - size :]
            if fnmatch.fnmatchcase(piece, trim["pattern"]):
                return value[size:] if front else value[: len(value) - size]
        return value
    swap = _REPLACE.fullmatch(rest)
    if swap is None or not rest.startswith("/") or re.search(r"[*?\[]", swap["old"]):
        return None
    return value.replace(swap["old"], swap["new"], -1 if rest.startswith("//") else 1)


def _sum(text: str, known: Mapping[str, Variable]) -> str | None:
    """Return the value of a product, quotient, sum or difference of two whole numbers."""
    match = re.fullmatch(r"\$?\{?(\w+)\}?\s*(?:([-+*/%])\s*\$?\{?(\w+)\}?)?", text)
    if match is None:
        return None
    numbers = []
    for name in (match[1], match[3] or "0"):
        found = known.get(name)
        value = name if name.isdigit() else found.value if found is not None else None
        if not isinstance(value, str) or not re.fullmatch(r"\d{1,18}", value):
            return None
        numbers.append(int(value))
    left, right = numbers
    if match[2] in ("/", "%") and right == 0:
        return None
    done = {"+": left + right, "-": left - right, "*": left * right, None: left}
    if match[2] in ("/", "%"):
        done |= {"/": left // right, "%": left % right}
    return str(done[match[2]])


def _braced(one: Field) -> list[Field]:
    match = _BRACES.search(one.text)
    if match is None:
        return [one]
    if match[2]:
        low, high = int(match[2]), int(match[3])
        if abs(high - low) > _BRACES_LIMIT:
            return [one]
        step = 1 if low <= high else -1
        values = [str(number) for number in range(low, high + step, step)]
    else:
        values = match[1].split(",")
    made = [
        replace(one, text=one.text[: match.start()] + value + one.text[match.end() :], bare_braces=False)
        for value in values
    ]
    if len(made) > _BRACES_LIMIT:
        return [one]
    return [each for part in made for each in _braced(part)]

"""How a failure is recognised in a record: signatures, the exception thrown, the lines that prove it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

LINES_KEPT = 12
SEARCHED = 64 * 1024
SEARCHED_LINE = 4096
"""Characters of a folded record, and of a single line, in which a cause is looked for."""

TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Found:
    """A failure recognised in one record."""

    name: str
    cause: str
    lines: tuple[str, ...]
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a failure looks like, and its cause in words."""

    name: str
    pattern: re.Pattern[str]
    cause: str
    r"""A template of the pattern's groups: `\g<port> is taken`."""
    anywhere: bool = False
    """Whether it may stand in a stamped message that is no traceback."""
    needs: str = ""
    """A word that must be in the record, too."""


def sig(name: str, pattern: str, cause: str, anywhere: bool = False, needs: str = "") -> Signature:
    """Return a signature."""
    return Signature(name, re.compile(pattern, re.MULTILINE), cause, anywhere, needs)


COMPILER = re.compile(
    r"^(?P<what>[^\s:(]+[:(]\d+(?:[:,]\d+)?\)?: (?:fatal )?error[ :].*|(?:nvcc|ptxas) fatal\s*:.*|"
    r"(?:collect2|ld|/\S*/ld): (?:error: |cannot find ).*)",
    re.MULTILINE,
)
"""A compiler's complaint: many lines above the exception that says no more than that a build failed."""

_WORTH_A_LOOK = re.compile(
    r"rror|xception|fatal|[Kk]illed|[Ff]ail|[Nn]ot |No |[Oo]ut of|atchdog|NCCL|nccl|used by|crashed|too old|"
    r"nsupported|mismatch|annot|Traceback|is dead|^tokwatt|oom[-_]kill|[Rr]equire|only support|Duplicate|lost|Xid|"
    r"Segmentation|Segfault|terminate called|Out Of Memory|OOMKilled"
)
_THROWN = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?(?P<what>(?:Exception|[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout))\b.*)$",
    re.MULTILINE,
)

_ASSERTED = re.compile(r"^[ \t]+assert (.{1,200})$", re.MULTILINE)
_CHAIN = re.compile(r"^(?:During handling of the above|The above exception was)", re.MULTILINE)


def found_in(message: str, signatures: Iterable[Signature], stamped: bool, usage: str = "") -> Found | None:
    """Return the failure that a record tells of.

    Args:
        message: The record without prefixes, continuation lines included.
        signatures: What to look for, in this order.
        stamped: Whether an engine's stamp stood before it: then it tells a failure only in a traceback.
        usage: The usage text printed before, for near misses.
    """
    folded = is_traceback(message)
    message = searched(message, folded)
    if not _WORTH_A_LOOK.search(message):
        return None
    for candidate in signatures:
        if (stamped and not folded and not candidate.anywhere) or candidate.needs not in message:
            continue
        if match := candidate.pattern.search(message):
            return Found(candidate.name, _cause(candidate, match, usage), proof(message, match), _values(match))
    return None


def is_traceback(message: str) -> bool:
    """Return whether a record is, or holds, a traceback."""
    return "\n" in message and TRACEBACK in message


def searched(message: str, folded: bool) -> str:
    """Return the part of a record that is looked at: patterns must not run over megabytes."""
    most = SEARCHED if folded else SEARCHED_LINE
    return message if len(message) <= most else f"{message[: most // 2]}\n{message[-most // 2 :]}"


def thrown(message: str) -> str:
    """Return the last exception line of a traceback, or its last line."""
    lines = _THROWN.findall(message)
    last: str = lines[-1] if lines else message.rstrip().rpartition("\n")[2]
    if last == "AssertionError" and (asserted := _ASSERTED.findall(message)):
        last = f"AssertionError: {asserted[-1]}"
    return last[:300]


def first_thrown(message: str) -> str:
    """Return the exception that a chain of tracebacks begins with."""
    return thrown(_CHAIN.split(message, maxsplit=1)[0])


def proof(message: str, match: re.Match[str]) -> tuple[str, ...]:
    """Return the whole lines of a match."""
    start = message.rfind("\n", 0, match.start()) + 1
    end = message.find("\n", match.end())
    return tuple(message[start : end if end >= 0 else len(message)].split("\n")[:LINES_KEPT])


def crash(who: str, code: int) -> str:
    """Return how a child process ended, in words."""
    how = {
        -9: "was killed (SIGKILL)",
        -11: "crashed (segmentation fault)",
        -6: "aborted",
        -4: "crashed (illegal instruction: built for another processor)",
        -7: "crashed (bus error: shared memory may be too small)",
        -15: "was ended (SIGTERM)",
    }.get(code)
    return f"{who} {how or f'ended with exit code {code}'}"


def _values(match: re.Match[str]) -> dict[str, object]:
    values: dict[str, object] = {key: value for key, value in match.groupdict().items() if value is not None}
    for key in ("port", "gpu", "seconds", "pid", "task_pid"):
        if key in values:
            values[key] = int(str(values[key]))
    return values


def _cause(candidate: Signature, match: re.Match[str], usage: str) -> str:
    cause = " ".join(match.expand(candidate.cause).split())
    groups = match.groupdict()
    if candidate.name == "gpu-memory" and groups.get("held"):
        cause += f"; process {groups['pid']} holds {groups['held']} of it"
    if candidate.name == "unknown-flag" and usage:
        known = sorted(set(re.findall(r"--[a-z0-9][\w-]*", usage)))
        for word in match["flag"].split():
            if word.startswith("--") and (close := difflib.get_close_matches(word, known, n=1, cutoff=0.6)):
                return f"{cause} (did you mean {close[0]}?)"
    return cause

"""Argument lists as one command line that sh, bash, zsh, fish, csh and tcsh all read alike."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_BARE = re.compile(r"[A-Za-z0-9_./:,@+-]+")
_QUOTABLE = re.compile(r"[ -~]*")


def command_line(argv: Sequence[str]) -> str:
    """Return the command that an SSH server hands to whatever login shell it finds.

    Nearly everything fits into single quotes. What does not mean the same in all shells (`'`, `!`,
    `\\`, line ends, other than ASCII) travels as octal digits to an explicit `/bin/sh`.

    Raises:
        ValueError: An argument holds a NUL, which no argument can.
    """
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument cannot hold a NUL byte")
    if all(_plain(argument) for argument in argv):
        return "exec " + " ".join(_quoted(argument) for argument in argv)
    script = "exec " + " ".join(shlex.quote(argument) for argument in argv)
    octal = "".join(f"\\0{byte:03o}" for byte in script.encode("utf-8", "surrogateescape"))
    return f"""exec /bin/sh -c 'eval "$(printf %b "{octal}")"'"""


def _plain(argument: str) -> bool:
    return bool(_QUOTABLE.fullmatch(argument)) and not set(argument) & set("'!\\")


def _quoted(argument: str) -> str:
    return argument if _BARE.fullmatch(argument) else f"'{argument}'"

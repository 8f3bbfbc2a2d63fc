"""Programs run over a channel of their own, their output between marks: no notice of a login script gets in."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

SCRIPT = """
b=$1; n=$2; shift 2
if timeout -k 1 5 true >/dev/null 2>&1; then set -- timeout -k 1 "$n" "$@"; fi
printf '%s\\n' "<$b>"
"$@"
printf '%s\\n' "<$b $?>"
"""
"""Frames and, where there is `timeout`, bounds a program: a silent one would keep its session for ever."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The marks around one program's output."""

    mark: str
    argv: tuple[str, ...]

    def unpacked(self, output: bytes) -> tuple[int | None, bytes]:
        """Return exit status and output of the program; `None` when it never ended."""
        begin = output.find(f"<{self.mark}>\n".encode())
        if begin < 0:
            return None, output
        inner = output[begin + len(self.mark) + 3 :]
        ends = list(re.finditer(rf"<{self.mark} (\d+)>\n".encode(), inner))
        return (int(ends[-1][1]), inner[: ends[-1].start()]) if ends else (None, inner)


def framed(argv: Sequence[str], deadline_s: float) -> Frame:
    """Return how to run a program between marks."""
    mark = secrets.token_hex(8)
    wait = str(max(1, int(deadline_s + 0.999)))
    return Frame(mark, ("/bin/sh", "-c", SCRIPT, "sh", mark, wait, *argv))

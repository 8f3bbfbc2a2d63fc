"""Hits of a search as grep prints them."""

from __future__ import annotations

import asyncio
import os

from console.cli.output import Output
from console.domain.source import GrepHit
from console.errors import ConsoleError


class Hits:
    """Prints `file:line:text`, context lines with `-`, each line once, `--` between groups."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._file: str | None = None
        self._last = 0
        self._after: list[tuple[int, bytes]] = []
        self._grouped = False
        self._pending = bytearray()
        self._fault: Exception | None = None

    def take(self, hit: GrepHit, context: int) -> None:
        """Print a hit with the lines before it; those after it wait, since they may be hits, too."""
        if hit.file != self._file:
            self._rest()
            self._file, self._last = hit.file, 0
        for number, raw in (*self._after, *enumerate(hit.raw_before, hit.line - len(hit.raw_before))):
            if self._last < number < hit.line:
                self._line(number, b"-", raw, context)
        self._line(hit.line, b":", hit.raw, context)
        self._after = list(enumerate(hit.raw_after, hit.line + 1))

    def end(self) -> None:
        """Print what waits."""
        self._rest()
        self._flush()

    def _rest(self) -> None:
        for number, raw in self._after:
            if number > self._last:
                self._line(number, b"-", raw, 1)
        self._after = []

    def _line(self, number: int, mark: bytes, raw: bytes, context: int) -> None:
        if context and self._grouped and (not self._last or number != self._last + 1):
            self._write(b"--\n")
        self._grouped = True
        self._last = number
        self._write(b"%s%s%d%s%s\n" % (os.fsencode(self._file or ""), mark, number, mark, raw))

    def _write(self, data: bytes) -> None:
        """Print what came in one part of the answer at once: before the next part is waited for."""
        if self._fault is not None:
            raise self._fault
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush_soon)
        self._pending += data

    def _flush_soon(self) -> None:
        try:
            self._flush()
        except (
            BrokenPipeError,
            ConsoleError,
        ) as fault:  # the loop would only log it: raised where the next line is printed
            self._fault = fault

    def _flush(self) -> None:
        if self._fault is not None:
            raise self._fault
        data, self._pending = bytes(self._pending), bytearray()
        if data:
            self._out.raw(data.removesuffix(b"\n") if self._out.stdout.isatty() else data)

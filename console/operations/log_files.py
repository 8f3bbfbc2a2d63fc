"""Log files that people were sent: plain or compressed, of any engine, of any size, read as a stream."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from console.errors import ConsoleError, UsageError

CHUNK = 1 << 18
HEAD = 1 << 16
"""Bytes looked at to tell what a file is."""

STDIN = "-"

_PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_WIDE = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BINARY = bytes(set(range(1, 32)) - set(b"\t\n\r\x1b\x07\x08\x0c"))
_VLLM = re.compile(
    rb"(?:INFO|WARNING|ERROR) (?:\x1b\[0m )?\d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\]|vllm\.engine|\(APIServer pid="
)
_SGLANG = re.compile(rb"\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d[^\]]*\] |sglang")
_LLAMA = re.compile(
    rb"^(?:\d+\.\d\d\.\d{3}\.\d{3} [IWED] |srv |slot |main: |llama_|load_|print_info|que |ggml_|gguf_|error: invalid argument: -)",
    re.MULTILINE,
)


def chunks(name: str, stdin: BinaryIO | None = None) -> Iterator[bytes]:
    """Yield the bytes of a log file, decompressed; `UsageError` when there is no such file, or it is no log.

    Args:
        name: A path, or `-` for standard input.
        stdin: What `-` means.
    """
    if name == STDIN and stdin is not None:
        yield from _unpacked("standard input", stdin)
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed by the `with` below, where reading may fault
    except OSError as error:
        raise UsageError(f"{name}: cannot be read", error.strerror or str(error)) from error
    with file:
        yield from _unpacked(name, file)


def _unpacked(name: str, file: BinaryIO) -> Iterator[bytes]:
    source = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    try:
        head = source.peek(8)[:8]
        for magic, opened in _PACKED:
            if head.startswith(magic):
                source = cast(io.BufferedReader, opened(source, "rb"))
                break
        first = _read(source)
        for mark, encoding in _WIDE:
            if first.startswith(mark):
                yield from _narrow(first, source, encoding)
                return
        if _is_binary(first):
            raise UsageError(f"{name}: is no log, but binary", hint="plain text, or text packed as gz, bz2 or xz")
        while first:
            yield first
            first = _read(source)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ConsoleError(
            f"{name}: cannot be read to its end", str(error), hint="what came before is shown"
        ) from error


def _read(source: io.BufferedReader) -> bytes:
    """Return what is there, so that a pipe's lines come at once."""
    return source.read1(CHUNK)


def _narrow(first: bytes, source: io.BufferedReader, encoding: str) -> Iterator[bytes]:
    """Yield UTF-8 of what PowerShell wrote as UTF-16."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(first[2:])
    while text:
        yield text.encode("utf-8", "replace")
        more = _read(source)
        text = decoder.decode(more, final=not more)


def _is_binary(head: bytes) -> bool:
    """Return whether a file is no text; NULs alone are what is left of a log truncated under its writer."""
    head = head[:HEAD]
    return len(head) - len(head.translate(None, _BINARY)) > 0.03 * (len(head.replace(b"\0", b"")) + 1)


def recognised(head: bytes) -> str:
    """Return the engine whose log begins so."""
    head = head[:HEAD]
    counts = {
        "sglang": len(_SGLANG.findall(head)),
        "vllm": len(_VLLM.findall(head)),
        "llamacpp": len(_LLAMA.findall(head)),
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else "sglang"

"""Recorded logs, and what reading them gives."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

from console.domain.run import LogKind, LogRecord
from console.engines.protocol import Watch
from console.engines.records import LogParser
from console.engines.registry import engine

DATA = Path(__file__).parents[1] / "data" / "engines"


def content(name: str) -> bytes:
    """Return a recorded file by name, decompressed."""
    packed = DATA / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (DATA / name).read_bytes()


def read(
    data: bytes | Iterable[bytes], utc_offset_s: int | None = None, *, kind: str = "sglang", since: float | None = None
) -> list[LogRecord]:
    """Return the records of a whole log."""
    parser = LogParser(engine(kind).grammar(), utc_offset_s=utc_offset_s, since=since)
    found: list[LogRecord] = []
    for chunk in [data] if isinstance(data, bytes) else data:
        found += parser.feed(chunk)
    return found + parser.close()


def watched(records: Iterable[LogRecord], *, kind: str = "sglang") -> Watch:
    """Return a follower that has seen the records."""
    watch = engine(kind).watch()
    for record in records:
        watch.see(record)
    return watch


def of_kind(records: Iterable[LogRecord], kind: LogKind) -> list[LogRecord]:
    """Return the records of one kind."""
    return [record for record in records if record.kind is kind]


def ranks(record: LogRecord) -> dict[str, int]:
    """Return the ranks of a record, empty when it names none."""
    found = record.source.get("ranks", {})
    assert isinstance(found, dict)
    return found

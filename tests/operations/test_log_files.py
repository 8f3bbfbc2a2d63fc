"""Log files that people were sent, and which of their records are wanted."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.domain.run import LogKind, LogRecord
from console.errors import ConsoleError, UsageError
from console.operations import log_files, log_filter, logs

DATA = Path(__file__).parents[1] / "data"
LOG = (DATA / "engines" / "G04.log").read_bytes()


def records_of(path: Path, engine: str = "") -> list[LogRecord]:
    return list(logs.records(log_files.chunks(str(path)), engine=engine))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_packed_logs_are_opened_whatever_their_name(tmp_path: Path, pack: type[bytes]) -> None:
    path = tmp_path / "sent"
    path.write_bytes(pack(LOG))
    assert [record.raw for record in records_of(path)] == [record.raw for record in logs.records([LOG])]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_what_powershell_wrote_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "sent.log"
    mark = b"\xfe\xff" if encoding.endswith("be") else b""
    path.write_bytes(mark + LOG.decode().encode(encoding))
    assert [record.raw for record in records_of(path)] == [record.raw for record in logs.records([LOG])]


def test_what_is_no_log_is_usage(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with pytest.raises(UsageError, match="cannot be read"):
        records_of(path)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 40)
    with pytest.raises(UsageError, match="binary"):
        records_of(path)


def test_a_cut_archive_gives_what_it_has(tmp_path: Path) -> None:
    whole = b"".join(b"[2026-01-02 03:04:05] line %d %d\n" % (number, number**7) for number in range(40_000))
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(whole)[:-1000])
    got = 0
    with pytest.raises(ConsoleError, match="cannot be read to its end"):
        for _ in logs.records(log_files.chunks(str(path))):
            got += 1
    assert got > 30_000


def test_lines_of_a_pipe_come_at_once() -> None:
    class Pipe(io.RawIOBase):
        """Gives one line at a time."""

        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            self.given += 1
            if self.given > 2:
                pytest.fail("read on before the first line was told")
            line = b"[2026-01-02 03:04:05] hi\n"
            buffer[: len(line)] = line
            return len(line)

    first = next(logs.records(log_files.chunks("-", io.BufferedReader(Pipe()))))
    assert first.raw.endswith("hi")


def test_a_hole_of_zeros_is_no_line(tmp_path: Path) -> None:
    """What is left when a log is truncated under a writer without O_APPEND."""
    path = tmp_path / "x.log"
    path.write_bytes(b"\0" * 9_000_000 + b"[2026-01-02 03:04:05] hi\n")
    [record] = records_of(path)
    assert (record.raw, record.offset) == ("[2026-01-02 03:04:05] hi", 9_000_000)


def test_a_huge_log_is_read_in_little_memory() -> None:
    def flood() -> Iterator[bytes]:
        for second in range(60):
            yield (
                b"[2026-01-02 03:04:%02d TP0] Decode batch, #running-req: 7, gen throughput (token/s): 61.5\n"
                % second
                * 2000
            )

    tracemalloc.start()
    count = sum(1 for _ in logs.records(flood()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 120_000
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("name", "engine"),
    [("A01.log", "sglang"), ("A08.log", "vllm"), ("A10.log", "vllm"), ("A11.log", "vllm"), ("A15.log", "sglang"), ("G03.log", "sglang")],
)  # fmt: skip
def test_whose_log_it_is(name: str, engine: str) -> None:
    assert log_files.recognised((DATA / "engines" / name).read_bytes()) == engine


def record(raw: str = "x", kind: LogKind = LogKind.OTHER, severity: str = "", **ranks: object) -> LogRecord:
    return LogRecord(kind, raw, severity=severity, source={"ranks": ranks} if ranks else {})


def test_filters() -> None:
    accepts = log_filter.make(pattern="boom").accepts
    assert accepts(record("a BOOM")) and not accepts(record("a bam"))
    assert not log_filter.make(pattern="Boom").accepts(record("a BOOM"))
    assert log_filter.make(pattern="boom", inverse=True).accepts(record("a bam"))
    assert log_filter.make(rank="tp3").accepts(record(TP=3, DP=0)) and not log_filter.make(rank="TP3").accepts(
        record(TP=13)
    )
    assert log_filter.make(rank="3").accepts(record(rank=3)) and not log_filter.make(rank="3").accepts(record())
    assert log_filter.make(rank="DP1 TP3").accepts(record(DP=1, TP=3))
    assert not log_filter.make(rank="DP1 TP3").accepts(record(DP=0, TP=3))
    assert log_filter.make(rank="TP7").accepts(record(TP=[0, 7]))
    warns = log_filter.make(level="warning").accepts
    assert warns(record(severity="warning")) and warns(record(kind=LogKind.FAILURE)) and not warns(record())
    assert not log_filter.make(level="error").accepts(record(severity="warning"))
    assert log_filter.make(kinds="decode, prefill").accepts(record(kind=LogKind.PREFILL))
    assert log_filter.RecordFilter().wants_all and not log_filter.make(level="error").wants_all
    words = log_filter.make(kinds="decode", pattern="x", inverse=True, rank="TP3", level="warning").words()
    assert words == "not x · rank TP3 · warning and worse · kind decode"


@pytest.mark.parametrize(
    "asked", [{"pattern": "[a-z"}, {"rank": "x"}, {"level": "loud"}, {"kinds": "decode,nope"}, {"inverse": True}]
)
def test_a_wrong_filter_is_usage(asked: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        log_filter.make(**asked)  # type: ignore[arg-type]


def test_every_record_is_strict_json() -> None:
    for name in ("A07.log", "A13.log", "A14.log", "E09.txt"):
        for found in logs.records([(DATA / "engines" / name).read_bytes()]):
            told = json.loads(json.dumps(logs.as_json(found), allow_nan=False))
            assert {"time", "source", "kind", "values", "raw"} <= told.keys()

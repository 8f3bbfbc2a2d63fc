"""Records of many lines: tracebacks, also of several ranks at once, dumps, native crashes; nothing lost, order kept."""

from __future__ import annotations

from console.domain.run import LogKind, LogRecord
from tests.engines.recorded import ranks, read, watched

TRACE = """Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 2181, in run
    self.step()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {gpu} has a total capacity of 94.97 GiB \
of which 1.{gpu}2 GiB is free.
"""


def _ranks_fail(count: int) -> bytes:
    lines = ["[2026-01-02 03:04:04] Load weight begin. avail mem=90.00 GB\n"]
    for gpu in range(count):
        lines.append(f"[2026-01-02 03:04:05 TP{gpu}] Scheduler hit an exception: " + TRACE.format(gpu=gpu))
        lines.append("\n")
    lines.append("[2026-01-02 03:04:07] Received sigquit from a child process. It usually means the child failed.\n")
    return "".join(lines).encode()


def test_the_same_traceback_of_eight_ranks_is_one_record() -> None:
    records = read(_ranks_fail(8))
    assert [record.kind for record in records] == [LogKind.PHASE, LogKind.FAILURE, LogKind.OTHER]
    folded = records[1]
    assert folded.source["ranks"] == {"TP": [0, 1, 2, 3, 4, 5, 6, 7]}
    assert folded.values["times"] == 8
    assert folded.values["ranks"] == [f"TP{rank}" for rank in range(8)]
    data = _ranks_fail(8)
    offsets = folded.values["offsets"]
    assert isinstance(offsets, list) and len(offsets) == 8
    assert all(data[offset:].startswith(b"[2026-01-02 03:04:05 TP") for offset in offsets)
    failure = watched(records).failure()
    assert failure is not None
    assert failure.cause.startswith("GPU 0 is out of memory: 2.00 GiB asked")


def test_a_traceback_of_another_place_is_not_folded() -> None:
    other = _ranks_fail(1).replace(b"line 2181", b"line 2182").replace(b" TP0]", b" TP1]")
    records = read(_ranks_fail(1) + other)
    assert [record.kind.value for record in records].count("failure") == 2


def test_a_rank_that_fails_twice_is_told_twice() -> None:
    assert [record.kind.value for record in read(_ranks_fail(1) * 2)].count("failure") == 2


def test_ranks_that_fail_an_hour_apart_are_not_one() -> None:
    later = _ranks_fail(2).replace(b" TP0]", b" TP2]").replace(b" TP1]", b" TP3]").replace(b"03:04", b"04:04")
    failures = [record for record in read(_ranks_fail(2) + later) if record.kind is LogKind.FAILURE]
    assert [record.source["ranks"] for record in failures] == [{"TP": [0, 1]}, {"TP": [2, 3]}]


def test_lines_with_the_rank_before_each_are_kept_apart() -> None:
    """torchrun writes `[rank1]: ` before every line, and the ranks write through one another."""
    trace = ["Traceback (most recent call last):", '  File "serve.py", line 3, in main', "ValueError: boom"]
    lines = [f"[rank{rank}]: {line}" for line in trace for rank in range(4)]
    records = read(("\n".join(lines) + "\nafter\n").encode())
    assert [record.source.get("ranks") for record in records] == [{"rank": [0, 1, 2, 3]}, None]
    assert records[0].raw.split("\n")[-1] == "[rank0]: ValueError: boom"


def _order(records: list[LogRecord]) -> list[int]:
    return [record.offset for record in records]


def test_records_come_in_the_order_of_the_file_whoever_waits() -> None:
    lines = ["[rank0]: Traceback (most recent call last):", '[rank0]:   File "x.py", line 1']
    lines += [f"[2026-01-02 03:04:05 TP0] line {number}" for number in range(30)]
    lines += ["[rank0]: ValueError: boom"]
    lines += [f"[2026-01-02 03:04:05 TP0] line {number}" for number in range(300)]
    records = read(("\n".join(lines) + "\n").encode())
    assert _order(records) == sorted(_order(records))
    assert len(records) == 331
    assert records[0].raw.endswith("ValueError: boom")


def test_a_log_of_another_systems_line_ends_is_the_same() -> None:
    data = _ranks_fail(2)
    plain, dos = read(data), read(data.replace(b"\n", b"\r\n"))
    assert [record.raw for record in dos] == [record.raw for record in plain]
    cuts = [data.replace(b"\n", b"\r\n")[at : at + 1] for at in range(len(data) + data.count(b"\n"))]
    assert [record.raw for record in read(cuts)] == [record.raw for record in plain]


def test_a_stack_dump_ends_where_others_begin() -> None:
    lines = b"""[2026-01-02 03:04:05 TP0] Pyspy dump for PID 3:
Process 3: sglang::scheduler_TP0
Python v3.12.12 (/usr/bin/python3.12)

Thread 3 (active): "MainThread"
    run_batch (scheduler.py:1573)
Thread 9 (idle)
    wait (threading.py:1)
Killed
"""
    records = read(lines)
    assert [record.raw.count("\n") for record in records] == [7, 0]
    assert records[1].raw == "Killed"


def test_a_native_crash_is_one_record() -> None:
    lines = b"""Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait

Extension modules: numpy.core, torch._C (total: 200)
[2026-01-02 03:04:05] next
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0] Process group watchdog thread terminated with exception: NCCL error: remote process exited
Exception raised from checkForNCCLErrorsInternal at ProcessGroupNCCL.cpp:2 (most recent call first):
frame #0: c10::Error::Error() + 0x96 (0x7f in libc10.so)
frame #1: <unknown function> + 0xdbbf4 (0x7f in libstdc++.so.6)

[2026-01-02 03:04:06] after
"""
    records = read(lines)
    assert [record.raw.count("\n") for record in records] == [5, 0, 4, 0]
    assert ranks(records[1]) == {}

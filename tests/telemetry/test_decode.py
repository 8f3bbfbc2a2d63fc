"""Case A14: the first decode line after a pause is meaningless, and nan is no number."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from console.domain.run import LogKind, LogRecord
from console.operations.logs import records
from console.telemetry.decode import LogReadings, decode_speeds, steady_mean

DATA = Path(__file__).parent.parent / "data"
LOG = DATA / "logs" / "A14.log"


def fail() -> NoReturn:
    pytest.fail("no reading")


def test_the_steady_mean_leaves_out_first_lines_and_nan() -> None:
    speeds = list(decode_speeds(records([LOG.read_bytes()])))
    assert [speed.first_after_idle for speed in speeds] == [True, False, False, False, True, False, False]
    assert [speed.tok_s for speed in speeds] == [3.37, 184.1, 185.2, 184.3, 0.05, 185.0, None]
    mean = steady_mean(speeds)
    assert mean is not None and round(mean, 2) == 184.65


def decode(rank: int, tok_s: float, running: int) -> LogRecord:
    values = {"gen_throughput_tok_s": tok_s, "running_req": running, "queue_req": 1}
    return LogRecord(LogKind.DECODE, "", source={"ranks": {"DP": rank, "TP": 0}}, values=values)


def test_data_parallel_ranks_are_summed_each_at_its_latest() -> None:
    readings = LogReadings()
    assert readings.reading(0) is None
    readings.take([decode(0, 100, 4), decode(1, 50, 2), decode(0, 110, 5)], now=10)
    found = readings.reading(11)
    assert found is not None and (found.speed, found.running, found.queued) == (160, 7, 2)


def test_a_log_that_says_nothing_is_idle_not_the_last_value() -> None:
    readings = LogReadings()
    readings.take([decode(0, 100, 4)], now=10)
    later = readings.reading(60)
    assert later is not None and later.running == 0 and later.speed is None


def engine(number: int | None, tok_s: float, running: int, *, engines: int = 0, kv: float = 0.1) -> LogRecord:
    values: dict[str, object] = {"gen_throughput_tok_s": tok_s, "running_req": running, "queue_req": 0, "kv_usage": kv}
    values |= {"engine": number} if number is not None else {}
    values |= {"engines": engines} if engines else {}
    return LogRecord(LogKind.DECODE, "", values=values)


def test_several_engines_of_vllm_are_summed_each_at_its_latest() -> None:
    readings = LogReadings()
    readings.take([engine(0, 98.9, 1, kv=0.2), engine(1, 0.4, 1, kv=0.6), engine(0, 100.0, 3)], now=10)
    found = readings.reading(11)
    assert found is not None and (found.speed, found.running, found.kv_usage) == (100.4, 4, 0.6)


def test_the_recorded_lines_of_two_engines_are_summed() -> None:
    log = b"".join(
        line + b"\n" for line in (DATA / "engines" / "A10.log").read_bytes().split(b"\n") if b"12-15 18:56:34" in line
    )
    readings = LogReadings()
    readings.take(records([log]), now=10)
    found = readings.reading(11)
    assert found is not None and found.speed == 98.9 + 0.4 and found.running == 2


def test_a_line_over_all_engines_is_not_added_to_theirs() -> None:
    readings = LogReadings()
    readings.take([engine(0, 50.0, 1), engine(1, 50.0, 1), engine(None, 100.0, 2, engines=2)], now=10)
    found = readings.reading(11)
    assert found is not None and (found.speed, found.running) == (100.0, 2)


def test_tensor_parallel_ranks_are_never_summed() -> None:
    readings = LogReadings()
    values = {"gen_throughput_tok_s": 100.0, "running_req": 4, "queue_req": 0}
    ranks = [LogRecord(LogKind.DECODE, "", source={"ranks": {"TP": rank}}, values=values) for rank in range(8)]
    both = [LogRecord(LogKind.DECODE, "", source={"ranks": {"DP": 1, "TP": r}}, values=values) for r in range(8)]
    readings.take(ranks, now=10)
    assert (readings.reading(11) or fail()).speed == 100.0
    readings.take(both, now=11)
    assert (readings.reading(11) or fail()).speed == 200.0


def test_a_rank_after_its_pause_is_no_drop_of_the_sum() -> None:
    readings = LogReadings()
    prefill = LogRecord(LogKind.PREFILL, "", source={"ranks": {"DP": 0, "TP": 0}}, values={"running_req": 0})
    readings.take([decode(0, 100, 4), decode(1, 50, 2)], now=10)
    readings.take([prefill, decode(0, 0.05, 4)], now=13)
    assert (readings.reading(13) or fail()).speed == 150
    readings.take([decode(0, 104, 4)], now=15)
    assert (readings.reading(15) or fail()).speed == 154


def test_a_sum_that_lacks_a_rank_is_unknown_not_low() -> None:
    readings = LogReadings()
    prefill = LogRecord(LogKind.PREFILL, "", source={"ranks": {"DP": 0, "TP": 0}}, values={"running_req": 0})
    readings.take([decode(1, 50, 2), prefill, decode(0, 0.05, 4)], now=10)
    found = readings.reading(10)
    assert found is not None and found.speed is None and found.running == 6


def test_a_server_whose_lines_come_slowly_is_slow_not_idle() -> None:
    readings = LogReadings()
    readings.take([decode(0, 100, 4)], now=0)
    readings.take([decode(0, 100, 4)], now=20)
    assert (readings.reading(45) or fail()).speed == 100
    assert (readings.reading(75) or fail()).running == 0

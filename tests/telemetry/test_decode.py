"""Case A14: the first decode line after a pause is meaningless, and nan is no number."""

from __future__ import annotations

from pathlib import Path

from console.domain.run import LogKind, LogRecord
from console.operations.logs import records
from console.telemetry.decode import LogReadings, decode_speeds, steady_mean

LOG = Path(__file__).parent.parent / "data" / "logs" / "A14.log"


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

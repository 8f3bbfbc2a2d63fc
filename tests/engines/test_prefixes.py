"""What stands before a message: collectors, processes, stamps with and without year and zone."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from console.domain.run import LogKind
from console.engines.clocks import Zone, seconds_between
from console.engines.prefixes import peel
from console.engines.records import LogParser
from console.engines.registry import engine
from tests.engines.recorded import content, ranks, read


def test_coloured_process_prefixes_and_hostile_escapes() -> None:
    """A08: no control sequence survives for parsers, each line keeps its process, one error is one record."""
    records = read(content("A08.log"))
    told = [(record.source.get("process"), record.source.get("pid"), record.raw.count("\n")) for record in records]
    assert told == [
        ("APIServer", 1391, 0),
        ("EngineCore_DP0", 1399, 0),
        ("APIServer", 1391, 0),
        ("APIServer", 1391, 0),
        ("EngineCore_DP0", 1399, 2),
        ("EngineCore_DP0", 1399, 0),
        ("APIServer", 1391, 0),
    ]
    assert [record.clock for record in records][2:5] == ["08-19 15:04:51", "08-19 15:05:01", "08-19 15:05:02"]
    assert records[4].severity == "error" and ranks(records[4]) == {"DP": 0}
    assert records[5].clock == "" and records[5].severity == ""
    echo = peel(content("A08.log").decode().split("\n")[3])
    assert "[red]x[/red]" in echo.message and "\x1b" not in echo.message and "owned" not in echo.message


def test_an_outer_stamp_is_absolute_and_wins() -> None:
    """A11: Docker's stamp is UTC; the inner one, 7 h away and without year, is not mixed with it."""
    records = read(content("A11.log"))
    assert len(records) == 6
    assert [record.time for record in records] == [
        "2025-12-31T23:59:49.108632509Z",
        "2025-12-31T23:59:59.110000001Z",
        "2026-01-01T00:00:09.111111111Z",
        None,
        None,
        None,
    ]
    assert [record.clock for record in records[3:]] == ["12-31 23:59:55", "01-01 00:00:05", "01-01 00:00:06"]
    assert (records[5].source["host"], records[5].source["unit"], records[5].source["pid"]) == (
        "gpu-node-3",
        "vllm",
        4242,
    )


def test_new_year_is_a_step_forward() -> None:
    """A11: +10 s, neither a year back nor out of order; with a known launch there is a moment, too."""
    assert seconds_between("12-31 23:59:55", "01-01 00:00:05") == 10.0
    begun = datetime(2025, 12, 31, 22, tzinfo=UTC).timestamp()
    parser = LogParser(engine("sglang").grammar(), utc_offset_s=0, since=begun)
    records = parser.feed(content("A11.log")) + parser.close()
    assert [record.time for record in records[3:]] == [
        "2025-12-31T23:59:55+00:00",
        "2026-01-01T00:00:05+00:00",
        "2026-01-01T00:00:06+00:00",
    ]


@pytest.mark.parametrize(
    ("before", "now", "gone_s"),
    [
        ("2026-01-01 00:00:00", "2026-01-01 00:00:01.5", 1.5),
        ("2026-01-01 00:00:01", "2026-01-01 00:00:00", -1.0),
        ("23:59:59", "00:00:01", 2.0),
        ("00:00:02", "00:00:01", -1.0),
        ("02-28 23:59:59", "03-01 00:00:00", 86401.0),
        ("02-29 00:00:00", "02-29 00:00:03", 3.0),
        ("", "", None),
        ("", "2026-01-01 00:00:00", None),
        ("23:59:59", "2026-01-01 00:00:00", None),
        ("nonsense", "nonsense", 0.0),
        ("12-31 23:59", "12-31 23:59:01", None),
    ],
)
def test_seconds_between_stamps(before: str, now: str, gone_s: float | None) -> None:
    assert seconds_between(before, now) == gone_s


def test_a_zone_without_offset_gives_no_moment() -> None:
    assert Zone().moment("2026-01-01", "00:00:00") is None
    assert Zone(3600).moment("2026-01-01", "00:00:00") == "2026-01-01T00:00:00+01:00"
    assert Zone(3600).moment("01-01", "00:00:00") is None
    assert Zone(0, 1_767_225_600.0).moment("02-30", "00:00:00") is None
    assert Zone(0).moment("2026-13-01", "00:00:00") is None


@pytest.mark.parametrize(
    ("line", "message", "source"),
    [
        ("[pod/glm-0/server] [2026-01-02 03:04:05 TP1] hi", "hi", {"pod": "glm-0", "container": "server", "ranks": {"TP": 1}}),
        ("2026-01-02T03:04:05Z stdout F [2026-01-02 03:04:05] hi", "hi", {}),
        ('{"log":"[2026-01-02 03:04:05 TP0] hi\\n","stream":"stderr","time":"2026-01-02T03:04:05.1Z"}', "hi", {"ranks": {"TP": 0}}),
        ('{"log": 3}', '{"log": 3}', {}),
        ('{"log":"cut', '{"log":"cut', {}),
        ("[rank3]: ValueError: boom", "ValueError: boom", {"ranks": {"rank": 3}}),
        ("WARNING:sglang.srt.utils:careful", "careful", {"logger": "sglang.srt.utils"}),
        ("(Worker_DP1_TP3_EP3 pid=7) hi", "hi", {"process": "Worker_DP1_TP3_EP3", "pid": 7, "ranks": {"DP": 1, "TP": 3, "EP": 3}}),
        ("[2026-01-02 03:04:05 TP0 XX7 odd] hi", "hi", {"ranks": {"TP": 0, "XX": 7}, "tags": ["odd"]}),
        ("[1, 2, 3] is no stamp", "[1, 2, 3] is no stamp", {}),
        ("[03:04:05", "[03:04:05", {}),
    ],
)  # fmt: skip
def test_what_collectors_and_processes_write_before(line: str, message: str, source: dict[str, object]) -> None:
    peeled = peel(line)
    assert (peeled.message, peeled.source) == (message, source)


BATCH = "Decode batch, #running-req: 1, #token: 64, token usage: 0.00, gen throughput (token/s): 12.00, #queue-req: 0"
STAMPED = f"[2025-08-14 02:21:16 TP0] {BATCH}"


@pytest.mark.parametrize(
    ("line", "source"),
    [
        (f"[gpu=0] {BATCH}", {"ranks": {"gpu": 0}}),
        (f"02:13:47 [gpu=3] {BATCH}", {"ranks": {"gpu": 3}}),
        (f" 3: {STAMPED}", {"task": 3, "ranks": {"TP": 0}}),
        (f"Aug 14 02:21:16 gpu-7 docker/sglang[812]: {STAMPED}",
         {"host": "gpu-7", "unit": "docker/sglang", "pid": 812, "ranks": {"TP": 0}}),
        (json.dumps({"asctime": "2025-08-14 02:21:16,250", "levelname": "INFO", "name": "sglang", "message": BATCH}),
         {"logger": "sglang"}),
        (json.dumps({"@timestamp": "2025-08-14T02:21:16Z", "level": "info", "msg": BATCH}), {}),
    ],
)  # fmt: skip
def test_ways_to_write_a_decode_line_down(line: str, source: dict[str, object]) -> None:
    """Old versions, `srun --label`, rsyslog, loggers of JSON."""
    [record] = read(line.encode() + b"\n")
    assert (record.kind, record.values["gen_throughput_tok_s"], record.raw) == (LogKind.DECODE, 12.0, line)
    assert record.source == source


def test_the_time_of_a_json_line_is_a_moment_only_with_its_zone() -> None:
    lines = [{"asctime": "2025-08-14 02:21:16,250", "message": "a"}, {"time": "2025-08-14T02:21:17Z", "message": "b"}]
    records = read("".join(f"{json.dumps(line)}\n" for line in lines).encode())
    assert [(record.clock, record.time) for record in records] == [
        ("2025-08-14 02:21:16", None),
        ("2025-08-14 02:21:17", "2025-08-14T02:21:17Z"),
    ]


def test_what_vllm_before_0_7_writes_in_two_lines() -> None:
    text = "INFO 07-08 17:30:00 metrics.py:335] Avg prompt throughput: 2.8 tokens/s, Avg generation throughput: 0.1 tokens/s, "
    text += "Running: 1 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 0.2%, CPU KV cache usage: 0.0%.\n"
    more = "INFO 07-08 17:30:00 metrics.py:351] Prefix cache hit rate: GPU: 52.22%, CPU: 0.00%\n"
    [record] = read((text + more).encode(), kind="vllm")
    assert record.kind is LogKind.DECODE
    assert (record.values["queue_req"], record.values["prefix_cache_hit_rate_pct"]) == (3, 52.22)
    first, second = read((text + text).encode(), kind="vllm")
    assert first.values == second.values

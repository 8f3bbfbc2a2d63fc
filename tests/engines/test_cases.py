"""Field cases: logs as people paste them, and what they mean."""

from __future__ import annotations

import json
from statistics import fmean

import pytest

from console.domain.run import LogKind, LogRecord
from tests.engines.recorded import content, of_kind, ranks, read, watched


def _values(record: LogRecord, *names: str) -> tuple[object, ...]:
    return tuple(record.values.get(name) for name in names)


def test_decode_lines_of_three_years() -> None:
    """A01: separators, extra fields and trailing commas come and go."""
    records = read(content("A01.log"))
    assert [record.kind.value for record in records] == [
        "decode", "decode", "prefill", "decode", "decode", "decode", "decode", "prefill", "decode",
    ]  # fmt: skip
    names = ("running_req", "tokens", "token_usage", "cuda_graph", "gen_throughput_tok_s", "queue_req")
    assert [_values(record, *names) for record in of_kind(records, LogKind.DECODE)] == [
        (996, 54120, 0.92, None, 1411.27, 11802),
        (2, 4310, 0.0, None, 441.9, 0),
        (8, 65731, 0.13, None, 184.07, 0),
        (509, 180310, 0.43, None, 7891.02, 0),
        (6, 1984, 0.94, True, 446.11, 5),
        (1, 64, 0.0, None, 84.12, 0),
        (29, 10096, 0.07, False, 1588.7, 0),
    ]
    prefill = of_kind(records, LogKind.PREFILL)
    assert _values(prefill[0], "new_seq", "new_token", "cached_token", "cache_hit_rate_pct") == (6, 8064, 2711, 14.02)
    assert "input_throughput_tok_s" not in prefill[0].values
    assert _values(prefill[1], "new_token", "cached_token", "input_throughput_tok_s") == (160, 0, 562.4)
    assert records[4].values["largest_len"] == 0
    assert records[6].values["cache_miss"] == 1


def test_a_time_without_date_is_no_moment() -> None:
    records = read(content("A01.log"), utc_offset_s=0)
    assert (records[0].clock, records[0].time, records[0].source) == ("", None, {})
    assert (records[1].clock, records[1].time, ranks(records[1])) == ("04:41:07", None, {"TP": 0})
    assert records[3].time == "2025-02-27T04:52:40+00:00"


def test_prefill_and_decode_nodes() -> None:
    """A03: fields of disaggregated servers; access lines are no throughput."""
    records = read(content("A03.log"))
    assert [record.kind.value for record in records] == ["prefill", "decode", "access", "decode", "prefill"]
    names = ("running_req", "tokens", "token_usage", "prealloc_usage", "prealloc_req", "transfer_req", "retracted_req")
    assert _values(records[1], *names) == (8, 7198, 0.01, 0.03, 4, 2, 0)
    assert ranks(records[1]) == {"DP": 0, "TP": 0, "EP": 0}
    assert _values(records[3], "retracted_req", "gen_throughput_tok_s") == (3, 653.2)
    assert _values(records[0], "tokens", "new_token", "cached_token", "pending_token", "inflight_req") == (
        None, 2048, 512, 9012, 5,
    )  # fmt: skip
    assert _values(records[4], "iteration", "input_throughput_tok_s") == (882, 7.34)
    assert records[2].values == {"method": "POST", "path": "/generate", "code": 200}


def test_the_pool_that_binds() -> None:
    """A05: the mamba pool is full while the KV cache is not; graphs of another device."""
    records = read(content("A05.log"))
    assert len(records) == 6
    decode = of_kind(records, LogKind.DECODE)
    names = ("tokens", "full_token_usage", "mamba_num", "mamba_usage", "accept_len", "accept_rate")
    assert _values(decode[0], *names) == (11584, 0.01, 36, 0.6, 3.04, 0.68)
    assert _values(decode[1], "kv_usage", "binding_pool", "queue_req") == (1.0, "mamba", 6)
    assert _values(records[4], "npu_graph", "graph_kind") == (False, "npu")
    estimates = ("est_decode_tflops_per_gpu", "est_read_gb_s_per_gpu", "est_write_gb_s_per_gpu")
    assert _values(decode[2], "iteration", "queue_req", *estimates) == (1240, 0, 12.31, 1843.2, 0.44)


def test_a_traceback_is_one_record() -> None:
    failure = of_kind(read(content("A05.log")), LogKind.FAILURE)
    assert len(failure) == 1
    assert failure[0].raw.count("\n") == 3
    assert failure[0].clock == "2026-03-14 05:03:11"
    assert failure[0].severity == "error"
    assert failure[0].lines == ("RuntimeError: Not enough space for mamba cache",)


def test_bars_and_what_is_glued_to_them() -> None:
    """A07: carriage returns, and records written into a bar's line."""
    records = read(content("A07.log"))
    phases = of_kind(records, LogKind.PHASE)
    assert [(record.clock, ranks(record)) for record in phases] == [
        ("2026-01-20 02:46:28", {"DP": 0, "TP": 0}),
        ("2026-01-20 02:46:29", {"DP": 1, "TP": 1}),
        ("2026-01-20 02:46:29", {"DP": 1, "TP": 0}),
        ("2026-01-20 02:46:51", {"DP": 0, "TP": 0}),
    ]
    assert _values(phases[2], "tokens", "k_size_gb", "v_size_gb") == (404777, 24.71, 24.71)
    assert _values(phases[3], "elapsed_s", "step") == (21.9, "end")
    bars = of_kind(records, LogKind.PROGRESS)
    told = [(bar.values["label"], bar.values["done"], bar.values["total"]) for bar in bars]
    assert told == [
        ("Loading safetensors checkpoint shards", 1, 8),
        ("Loading safetensors checkpoint shards", 8, 8),
        ("", 0, 36),
        ("Capturing batches", 0, 36),
        ("Capturing batches", 3, 36),
        ("Capturing batches", 17, 36),
        ("Capturing batches", 36, 36),
    ]
    assert [bar.values.get("avail_mem_gb") for bar in bars[3:]] == [13.31, 12.61, 12.02, 11.22]
    assert "▊" in bars[4].raw
    assert [record.source.get("logger") for record in of_kind(records, LogKind.OTHER)] == ["flashinfer.jit"]


def test_offsets_are_where_records_begin() -> None:
    data = content("A07.log")
    for record in read(data):
        assert data[record.offset :].startswith(record.raw.partition("\n")[0].encode())


def test_compose_prefixes_and_a_stack_dump() -> None:
    """A13: the watchdog is the cause, exit 137 its consequence."""
    records = read(content("A13.log"))
    assert records[0].kind is LogKind.FAILURE
    assert records[0].source == {"container": "sglang-1", "ranks": {"TP": 3}}
    dump = records[1].raw.split("\n")
    assert len(dump) == 8
    assert [line.split("|", 1)[1].split()[0] for line in dump[-3:]] == ["_apply", "verify", "run_batch"]
    assert records[2].values == {"batch_size": 2, "available_size": 2225, "evictable_size": 482822}
    assert records[-1].source == {"container": "router-1"}
    failure = watched(records).failure()
    assert failure is not None
    assert "watchdog" in failure.cause and "TP3" in failure.cause
    assert "memory" not in failure.cause


def test_the_first_line_after_idle_is_marked() -> None:
    """A14: tokens per second of a gap say nothing; nan is no sample."""
    records = read(content("A14.log"))
    decode = of_kind(records, LogKind.DECODE)
    assert (len(decode), len(of_kind(records, LogKind.PREFILL))) == (7, 2)
    steady = [
        value
        for record in decode
        if "first_after_idle" not in record.values and isinstance(value := record.values["gen_throughput_tok_s"], float)
    ]
    assert fmean(steady) == pytest.approx(184.65)
    assert decode[-1].values["gen_throughput_tok_s"] is None
    json.dumps([dict(record.values) for record in records], allow_nan=False)


def test_foreign_lines_between() -> None:
    """A15: a folded warning, an NCCL error with two rank numbers, a path with commas and brackets."""
    records = read(content("A15.log"))
    assert len(records) == 7
    warning, nccl, noise, hint = records[3:]
    assert (warning.severity, warning.raw.count("\n"), warning.clock[:5]) == ("warning", 4, "04-27")
    assert (nccl.severity, ranks(nccl)) == ("error", {"rank": 3})
    assert "[Rank 1]" in nccl.raw
    assert noise.values == {"rank": 13, "nranks": 16, "cudaDev": 5}
    assert str(hint.values["path"]).endswith(
        "/E=512,N=128,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json"
    )
    assert records[2].severity == "warning" and "kv_usage" not in records[2].values


def test_which_port_is_taken() -> None:
    """G03: five different problems, not one; the c10d warning is none."""
    records = read(content("G03.log"))
    told = [(record.kind.value, record.values.get("signature"), record.values.get("port")) for record in records]
    assert told == [
        ("failure", "port", 30000),
        ("failure", "rendezvous-port", 29500),
        ("other", None, None),
        ("failure", "internal-port", 30100),
        ("failure", "address", None),
    ]
    assert records[2].severity == "warning"


def test_all_ranks_time_out() -> None:
    """G04: one incident on five ranks, with the moment when it began; no out-of-memory kill is claimed."""
    failure = watched(read(content("G04.log"))).failure()
    assert failure is not None
    assert "TP4, TP6, TP1, TP3, TP0" in failure.cause
    assert "stalled since 2025-03-09 00:57:15" in failure.cause
    assert "kill" not in failure.cause


def test_a_start_that_hangs_in_distributed_init() -> None:
    """G06: begun on both ranks, ended on none."""
    watch = watched(read(content("G06.txt")))
    assert not watch.ready
    assert watch.ladder()[-1].name == "distributed"
    assert watch.ladder()[-1].ended_s is None


def test_readiness_is_what_the_engine_says() -> None:
    """G07: start-up complete is not ready; the ready line is."""
    steps = json.loads(content("G07.json"))
    ready_at = None
    lines = b""
    for step in steps:
        lines += (step.get("log", "") + "\n").encode()
        if ready_at is None and watched(read(lines)).ready:
            ready_at = step["t"]
    assert ready_at == 73


def test_bytes_that_are_no_text() -> None:
    """E09: a glyph cut by a chunk stays whole, invalid bytes become U+FFFD each."""
    chunks = [
        bytes.fromhex(line)
        for line in content("E09.txt").decode().splitlines()
        if set(line) <= set("0123456789abcdef") and line
    ]
    [record] = read(chunks)
    assert record.raw == "[2026-01-20 02:46:29 DP1 TP1] ▊ █\ufffd\ufffd end"

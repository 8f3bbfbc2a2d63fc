"""Properties of reading: chunk boundaries, field order and unknown fields change nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.domain.run import LogKind
from console.engines.records import LogParser
from console.engines.registry import engine
from tests.engines.recorded import content, of_kind, read

MIXED = b"".join(content(f"{name}.log") for name in ("A07", "A05", "A13", "A15")) + content("no-model.log")
WHOLE = read(MIXED)


@given(st.lists(st.integers(0, len(MIXED)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_chunk_boundary_gives_the_same_records(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(MIXED)]
    assert read([MIXED[start:end] for start, end in itertools.pairwise(edges)]) == WHOLE


def test_byte_by_byte_gives_the_same_records() -> None:
    data = content("A07.log")
    assert read([data[at : at + 1] for at in range(len(data))]) == read(data)


_FIELDS = {"#running-req": 7, "#token": 900, "token usage": 0.25, "gen throughput (token/s)": 61.5, "#queue-req": 3}


@given(
    st.permutations(list(_FIELDS)),
    st.dictionaries(st.from_regex(r"[a-z][a-z ]{1,10}[a-z]", fullmatch=True), st.integers(0, 9), max_size=3),
    st.sampled_from(["", ",", ", "]),
    st.sampled_from(["Decode batch. ", "Decode batch, ", "Decode batch [12], "]),
)
def test_order_and_unknown_fields_change_nothing(
    order: list[str], unknown: dict[str, int], trailing: str, head: str
) -> None:
    pairs = [f"{name}: {_FIELDS[name]}" for name in order]
    pairs[1:1] = [f"zz {name}: {value}" for name, value in unknown.items()]
    line = f"[2026-01-02 03:04:05 TP0 XX7] {head}{', '.join(pairs)}{trailing}\n"
    [record] = read(line.encode())
    values = record.values
    assert record.kind is LogKind.DECODE
    assert record.source["ranks"] == {"TP": 0, "XX": 7}
    assert (values["running_req"], values["tokens"], values["queue_req"]) == (7, 900, 3)
    assert (values["token_usage"], values["gen_throughput_tok_s"]) == (0.25, 61.5)
    assert sum(name.startswith("zz_") for name in values) == len({"_".join(name.split()) for name in unknown})


@given(st.binary(max_size=400))
def test_noise_never_raises_and_loses_no_byte(noise: bytes) -> None:
    records = read(noise)
    assert all(0 <= record.offset <= len(noise) for record in records)


@pytest.mark.parametrize("filling", [b"x", b" ", b"-", b"9%|", b"a.b-", b"error: ", b"\x1b[0m", b"(a pid=1) ", b"[1"])
def test_a_line_without_end_is_cut_and_holds_nobody_up(filling: bytes) -> None:
    records = read([filling * ((1 << 20) // len(filling) + 1)] * 9)
    assert len(records) <= 3
    assert all(len(record.raw.encode()) <= 4 << 20 for record in records)


def test_what_users_send_is_no_sample() -> None:
    line = (
        b"[2026-01-02 03:04:05] Receive: obj=GenerateReqInput(text='[2026-01-02 03:04:06 TP0] Decode batch, "
        b"gen throughput (token/s): 99999.00, torch.OutOfMemoryError: CUDA out of memory.')\n"
    )
    [record] = read(line)
    assert (record.kind, dict(record.values), record.severity) == (LogKind.OTHER, {}, "")


def test_prefixes_of_collectors_are_taken_off() -> None:
    lines = [
        b"(launch pid=77, ip=10.0.0.3) [2026-01-02 03:04:05 TP1] Load weight begin. avail mem=1.00 GB",
        b"2026-01-02T03:04:05.123456789Z [2026-01-01 20:04:05 TP1] Load weight begin. avail mem=1.00 GB",
        b"Jan  2 03:04:05 node-3 sglang[42]: [2026-01-02 03:04:05 TP1] Load weight begin. avail mem=1.00 GB",
        b"\x1b[36msglang-1  | \x1b[0m[2026-01-02 03:04:05.250 TP1] Load weight begin. avail mem=1.00 GB",
    ]
    records = read(b"\r\n".join(lines) + b"\r\n")
    assert [record.kind for record in records] == [LogKind.PHASE] * 4
    assert [record.source["ranks"] for record in records] == [{"TP": 1}] * 4
    assert (records[0].source["process"], records[0].source["pid"], records[0].source["ip"]) == (
        "launch",
        77,
        "10.0.0.3",
    )
    assert records[1].time == "2026-01-02T03:04:05.123456789Z"
    assert (records[2].source["host"], records[2].source["unit"]) == ("node-3", "sglang")
    assert (records[3].source["container"], records[3].clock) == ("sglang-1", "2026-01-02 03:04:05.250")


def test_an_open_record_is_shown_when_the_log_is_quiet() -> None:
    parser = LogParser(engine("sglang").grammar())
    head = b"[2026-01-02 03:04:05 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    assert parser.feed(head + b'  File "x.py", line 1, in f\nValueError: boom\n') == []
    [record] = parser.settle()
    assert record.kind is LogKind.FAILURE
    assert record.cause.endswith("ValueError: boom")
    assert parser.settle() == parser.close() == []


def test_a_bar_that_is_being_drawn_is_pending() -> None:
    parser = LogParser(engine("sglang").grammar())
    assert (
        of_kind(parser.feed(b"\rCapturing batches:  10%|#    | 1/10 [00:01<00:09,  1.0s/it]"), LogKind.PROGRESS) == []
    )
    assert parser.pending.startswith("Capturing batches:  10%")


HOSTILE = (
    b"\x1b[0;36m(EngineCore_DP0 pid=1)\x1b[0;0m [2026-01-02 03:04:05 TP0] \xe2\x96\x8a \xe2\x96\x88 \xff\xfe end\r\n"
    b"\x1b]0;title\x07[2026-01-02 03:04:05 TP1] Load weight begin. avail mem=1.00 GB\r\n"
    b"\rCapturing batches:  10%|\xe2\x96\x8a   | 1/10 [00:01<00:09,  1.0s/it]\rCapturing batches: 100%|\xe2\x96\x88| 10/10 "
    b"[00:09<00:00,  1.0s/it][2026-01-02 03:04:06 TP0] Capture cuda graph end. Time elapsed: 9.00 s.\n"
    b"[rank0]: Traceback (most recent call last):\r\n[rank1]: Traceback (most recent call last):\r\n"
    b'[rank0]:   File "x.py", line 1\r\n[rank1]:   File "x.py", line 1\r\n[rank0]: ValueError: \xc3\xa9\r\n[rank1]: ValueError: \xc3\xa9\r\n'
    b'{"log":"[2026-01-02 03:04:07] docker\\n","stream":"stderr","time":"2026-01-02T03:04:07.5Z"}\n\0\0\0\n'
    b"Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  <no Python frame>\nno end of line"
)
HOSTILE_WHOLE = read(HOSTILE, 0)


@given(st.lists(st.integers(0, len(HOSTILE)), max_size=60))
@settings(max_examples=150, deadline=None)
def test_boundaries_inside_glyphs_escapes_and_line_ends_give_the_same_records(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(HOSTILE)]
    assert read([HOSTILE[start:end] for start, end in itertools.pairwise(edges)], 0) == HOSTILE_WHOLE


def test_what_the_hostile_log_says() -> None:
    told = [(record.kind.value, record.clock[11:], record.source.get("ranks")) for record in HOSTILE_WHOLE]
    assert told == [
        ("other", "03:04:05", {"DP": 0, "TP": 0}),
        ("phase", "03:04:05", {"TP": 1}),
        ("progress", "", None),
        ("progress", "", None),
        ("phase", "03:04:06", {"TP": 0}),
        ("failure", "", {"rank": [0, 1]}),
        ("other", "03:04:07", None),
        ("failure", "", None),
        ("other", "", None),
    ]
    assert "▊ █ \ufffd\ufffd end" in HOSTILE_WHOLE[0].raw


PIECES = [HOSTILE[at : at + 37] for at in range(0, len(HOSTILE), 37)] + content("A15.log").splitlines(keepends=True)


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(["sglang", "vllm", "llamacpp", "openai"]))
@settings(max_examples=150, deadline=None)
def test_parts_in_any_order_never_raise_and_keep_the_order_of_the_file(parts: list[bytes], kind: str) -> None:
    data = b"".join(parts)
    parser, watch = LogParser(engine(kind).grammar(), utc_offset_s=0, since=1.7e9), engine(kind).watch()
    found = parser.feed(data) + parser.close()
    for record in found:
        watch.see(record)
    assert [record.offset for record in found] == sorted(record.offset for record in found)
    assert parser.told == parser.fed == len(data)
    watch.ladder()
    watch.failure(ended=True)


_RANKS_FAIL = (
    b"".join(
        b"[2026-01-02 03:04:05 TP%d] Scheduler hit an exception: Traceback (most recent call last):\n"
        b'  File "gr\xc3\xb6\xc3\x9fe.py", line 1, in run\n    self.step()\nRuntimeError: \xe2\x9c\x97 kein Speicher\n\n'
        % rank
        for rank in range(8)
    )
    + b"[2026-01-02 03:04:07] Received sigquit from a child process. It usually means the child failed.\n"
)
_INTERLEAVED = b"".join(
    b"[rank%d]: %s\n" % (rank, line)
    for line in (
        b"Traceback (most recent call last):",
        b'  File "x.py", line 1, in \xc3\xa9',
        b"ValueError: \xe2\x9c\x97",
    )
    for rank in range(8)
)


@pytest.mark.parametrize("data", [_RANKS_FAIL, _INTERLEAVED])
@given(cuts=st.lists(st.integers(0, len(_RANKS_FAIL)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_folded_ranks_are_the_same_over_any_boundary(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole = read(data, 0)
    assert any(record.values.get("times") == 8 for record in whole)
    assert read([data[start:end] for start, end in itertools.pairwise(edges)], 0) == whole

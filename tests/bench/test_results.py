"""Result files of other clients (cases of kind f): what is no measurement wins nothing."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.bench.results import Imported, import_results

DATA = Path(__file__).parent.parent / "data" / "results"


def read(name: str) -> Imported:
    return import_results((DATA / name).read_bytes())


def test_f01_notes_infinity_zero_latencies_and_a_cut_line() -> None:
    found = read("F01.txt")
    first, second = found.results
    assert [result.concurrency_limit for result in found.results] == [16, 32]
    assert len(found.notes) == 2 and [line for line, _ in found.damaged] == [6]
    assert first.request_rate == "inf" and json.dumps(first.request_rate, allow_nan=False)
    assert first.output_throughput_tok_s == 3267.15
    assert set(first.latencies["ttft_ms"].values()) == {None} == set(first.latencies["itl_ms"].values())
    assert first.latencies["tpot_ms"]["mean_ms"] == 4.765
    assert "TTFT/ITL not measured, no text seen" in first.flags and not first.fit
    assert first.accept_length is None and second.accept_length == 2.66
    assert second.latencies["ttft_ms"] == {"mean_ms": 812.3, "p50_ms": 790.1, "p99_ms": 2010.9}


def test_f03_failed_points_win_nothing() -> None:
    found = read("F03.txt")
    one, empty, dead = found.results
    assert (one.requests, one.completed, one.failed, one.derived) == (100, 1, 99, ("failed",))
    assert "1 of 100 requests completed (1 %)" in one.flags and not one.fit
    assert one.request_rate == "inf" and empty.concurrency_limit is None
    assert empty.output_throughput_tok_s == 0 and set(empty.latencies["tpot_ms"].values()) == {None}
    assert dead.flags[0].startswith("FAILED") and all(
        value is None for values in dead.latencies.values() for value in values.values()
    )
    assert found.winner is None


def test_f04_keys_of_every_engine_and_version() -> None:
    found = read("F04.txt").results
    assert [result.output_throughput_tok_s for result in found] == [5000, 2249.2, 2249.2, 5]
    assert [result.total_throughput_tok_s for result in found] == [25000, 10566.3, 10566.3, 13]
    assert [result.derived for result in found] == [("total_throughput_tok_s",), (), (), ()]
    assert [result.goodput_req_s for result in found] == [None, 3.2, 3.2, None]
    assert [result.failed for result in found] == [None, None, 0, None]
    assert [result.peak_output_tok_s for result in found] == [None, None, 3100, None]
    assert found[1].tags["deployment"] == "base" and found[1].tags["input_len"] == "1000" and found[1].input_len == 1000
    assert "p90_ms" not in found[0].latencies["ttft_ms"] and "ttfts" not in found[3].tags


def test_f06_a_warm_cache_is_no_win() -> None:
    found = read("F06.txt")
    a, b = found.results
    assert (a.cached_share, b.cached_share) == (0, 0.992)
    assert b.flags == ("ran on a warm prefix cache (99 % of prompt tokens cached)",)
    assert "flush" in found.warnings[0] and found.winner is None


def test_f08_latencies_are_those_of_requests_that_were_measured() -> None:
    (result,) = read("F08.json").results
    assert result.flags[0].startswith("TTFT missing for 3/6 requests")
    assert result.latencies["ttft_ms"] == {"mean_ms": pytest.approx(1900), "p50_ms": pytest.approx(1900)}
    assert result.latencies["tpot_ms"]["mean_ms"] == pytest.approx(47)


def test_the_fastest_of_alike_results_wins() -> None:
    lines = [{"output_throughput": speed, "completed": 4, "total_output_tokens": 9} for speed in (5.0, 7.0, 6.0)]
    found = import_results("\n".join(map(json.dumps, lines)).encode())
    assert found.winner is not None and found.winner.line == 2


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(data: bytes) -> None:
    assert isinstance(import_results(data), Imported)


@given(
    st.dictionaries(
        st.sampled_from(["completed", "mean_ttft_ms", "duration", "ttfts", "failed"]), st.none() | st.text()
    )
)
def test_values_of_a_wrong_type_are_unknown(keys: dict[str, object]) -> None:
    assert len(import_results(json.dumps({"duration": 1, **keys}).encode()).results) == 1


GOOD = {"completed": 3, "num_prompts": 3, "duration": 1.0, "output_throughput": 5.0}


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([GOOD, GOOD]).encode(),
        gzip.compress(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}".encode()),
        b"\xef\xbb\xbf" + f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}".encode(),
        f"{json.dumps(GOOD)}\r\n{json.dumps(GOOD)}".encode("utf-16"),
    ],
    ids=["one list", "packed", "byte order mark", "utf-16"],
)
def test_a_file_is_read_as_people_are_sent_it(data: bytes) -> None:
    found = import_results(data)
    assert [one.output_throughput_tok_s for one in found.results] == [5.0, 5.0]
    assert not (found.notes or found.damaged or found.others)


def test_json_that_is_nobodys_result_is_told_with_its_line_and_keys() -> None:
    found = import_results(f'{json.dumps(GOOD)}\n{{"a": 1, "b": 2}}\n{{}}'.encode())
    assert len(found.results) == 1 and found.others == ((2, "a, b"), (3, ""))


def test_a_value_that_is_no_number_is_named_and_an_absent_limit_is_not_unlimited() -> None:
    (one,) = import_results(json.dumps({**GOOD, "output_throughput": "fast", "max_concurrency": None}).encode()).results
    assert one.flags == ("output_throughput: 'fast' is no number",) and one.unlimited
    (one,) = import_results(json.dumps(GOOD | {"duration": math.nan}).encode()).results
    assert not one.flags and one.duration_s is None and not one.unlimited


@pytest.mark.parametrize("key", ["ttfts", "latencies", "output_lens"])
@pytest.mark.parametrize("value", [[0.0, "x"], [None], [], "x", [0.0, 10**400]])
def test_arrays_of_a_wrong_kind_are_read_without_a_fault(key: str, value: object) -> None:
    whole = json.loads((DATA / "F08.json").read_bytes())
    assert len(import_results(json.dumps(whole | {key: value}).encode()).results) == 1


def test_a_row_of_our_own_export_is_read_in_the_engines_words() -> None:
    row = {
        "host": "demo", "run_id": "r", "concurrency_limit": 8, "requests": 8, "completed": 8, "failed": 0,
        "duration_s": 1.6, "output_throughput_tok_s": 154.2, "ttft_p50_ms": 60.4, "itl_mean_ms": 51.5,
        "protocol": {"input_tokens": 128, "output_tokens": 32},
    }  # fmt: skip
    (one,) = import_results(json.dumps(row).encode()).results
    assert (one.backend, one.concurrency_limit, one.output_throughput_tok_s) == ("tokwatt", 8, 154.2)
    assert (one.input_len, one.output_len, one.completed, one.duration_s) == (128, 32, 8, 1.6)
    assert one.latencies["ttft_ms"] == {"p50_ms": 60.4} and one.tags["run_id"] == "r"

"""Whole console outputs of real SGLang servers: every record counted, every death explained."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from console.domain.profile import LaunchSection, Profile
from console.domain.run import LogKind
from console.engines.registry import engine
from console.operations import logs
from tests.engines.recorded import content, read, watched

CAME_UP = {
    "cpu-drained": {"other": 102, "phase": 13, "progress": 2, "prefill": 1},
    "cpu-killed": {"other": 42, "phase": 9, "progress": 2, "prefill": 17, "decode": 6},
    "ctrl-c": {"other": 17, "phase": 17, "progress": 6, "access": 85, "prefill": 5, "decode": 50},
    "graph": {"other": 42, "phase": 30, "progress": 220, "access": 5595, "prefill": 1044, "decode": 351},
    "retract": {"other": 575, "phase": 16, "progress": 6, "access": 359, "prefill": 41, "decode": 223},
    "triton-graph": {"other": 33, "phase": 27, "progress": 225, "access": 331, "prefill": 73, "decode": 53},
}

DIED = {
    "bad-choice": ("--attention-backend cannot be 'flashinfr'", "invalid choice"),
    "cpu-port": ("port 31777 is taken: 127.0.0.1:31777 is already in use", "[Errno 98]"),
    "bad-value": ("more GPUs are asked for than there are", "invalid device ordinal"),
    "context": ("context-length 100000 is more than the model's 32768", "User-specified context_length"),
    "gpu-in-use": ("the weights leave no GPU memory for the KV cache", "Not enough memory"),
    "mem-too-high": ("GPU 0 is out of memory: 5.62 GiB asked, 5.23 GiB of 139.80 GiB free (during: kv cache)", "OutOfMemory"),
    "mem-too-low": ("the weights leave no GPU memory for the KV cache", "Not enough memory"),
    "no-model": ("the model is not there", "Repo id must be in the form"),
    "port-in-use": ("port 30000 is taken", "address already in use"),
    "unknown-flag": ("unknown argument: --mem-fraction-statik 0.8 (did you mean --mem-fraction-static?)", "unrecognized"),
    "scheduler-killed": ("scheduler_0 was killed (SIGKILL)", "crashed with exit code -9"),
}  # fmt: skip


@pytest.mark.parametrize("name", CAME_UP)
def test_servers_that_came_up(name: str) -> None:
    data = content(f"{name}.log")
    records = read(data)
    assert dict(Counter(record.kind.value for record in records)) == CAME_UP[name]
    assert sum(record.raw.count("\n") + 1 for record in records) <= data.count(b"\n") + data.count(b"\r") + 200
    watch = watched(records)
    assert watch.ready_clock
    assert watch.failure(ended=True) is None
    steps = [rung.name for rung in watch.ladder()]
    assert steps[0] == "start" and steps[-1] == "ready"
    assert {"arguments", "distributed", "weights", "kv cache", "http"} <= set(steps)
    assert all(rung.ended_s is not None for rung in watch.ladder())


def test_no_long_part_of_a_start_is_missing_from_the_ladder() -> None:
    """SGLang 0.5.23 says `Init parallel begin`, and is silent while workers import and memory is filled."""
    ladder = watched(read(content("cpu-drained.log"))).ladder()
    assert [rung.name for rung in ladder] == [
        "start", "arguments", "workers", "distributed", "weights", "kv cache", "http", "ready",
    ]  # fmt: skip
    spent = {rung.name: (rung.ended_s or 0.0) - (rung.started_s or 0.0) for rung in ladder}
    assert (spent["workers"], spent["kv cache"]) == (13.0, 52.0)
    assert sum(spent.values()) > 0.9 * (ladder[-1].ended_s or 0.0)


def test_noise_at_the_end_of_a_drained_server_is_no_crash() -> None:
    records = read(content("cpu-drained.log"))
    watch = watched(records)
    assert any("nanobind: leaked" in record.raw for record in records)
    assert watch.stopping and watch.ended and watch.failure(ended=True) is None
    assert not [record for record in records if record.severity == "error"]


def test_batch_lines_without_cuda_are_read_all_the_same() -> None:
    records = read(content("cpu-killed.log"))
    decode = next(record for record in records if record.kind is LogKind.DECODE)
    assert (decode.values["graph_kind"], decode.values["cpu_graph"]) == ("cpu", False)
    assert isinstance(decode.values["gen_throughput_tok_s"], float) and decode.values["running_req"] == 1


def test_batch_lines_are_counted_as_grep_counts_them() -> None:
    data = content("graph.log")
    records = Counter(record.kind for record in read(data))
    assert records[LogKind.DECODE] == data.count(b"] Decode batch, ")
    assert records[LogKind.PREFILL] == data.count(b"] Prefill batch, ")
    assert records[LogKind.ACCESS] == data.count(b' HTTP/1.1" ')


@pytest.mark.parametrize("name", DIED)
def test_the_first_cause_of_a_death(name: str) -> None:
    cause, proof = DIED[name]
    watch = watched(read(content(f"{name}.log")))
    failure = watch.failure(ended=True)
    assert failure is not None
    assert failure.cause.startswith(cause)
    assert any(proof in line for line in failure.lines)
    assert not watch.ready


@pytest.mark.parametrize("name", DIED)
def test_the_last_record_of_a_failed_run_is_its_failure(name: str) -> None:
    records = list(logs.records([content(f"{name}.log")]))
    assert records[-1].kind is LogKind.FAILURE
    assert records[-1].cause.startswith(DIED[name][0])
    json.dumps(logs.as_json(records[-1]), allow_nan=False)


def test_a_ready_line_beside_a_taken_port_is_no_readiness() -> None:
    data = content("port-in-use.log")
    assert b"The server is fired up and ready to roll!" in data
    watch = watched(read(data))
    assert watch.ready_clock and not watch.ready
    assert watch.failure() is not None


def test_a_failed_request_is_no_failed_server() -> None:
    """graph.log holds an `Exception in ASGI application` with its traceback; the server went on."""
    records = read(content("graph.log"))
    exceptions = [record for record in records if "Exception in ASGI application" in record.raw]
    assert len(exceptions) == content("graph.log").count(b"Exception in ASGI application")
    assert all(exception.raw.count("\n") > 20 for exception in exceptions)
    assert {(exception.kind, exception.severity) for exception in exceptions} == {(LogKind.OTHER, "error")}


def test_usage_of_27_kb_is_one_record() -> None:
    records = read(content("unknown-flag.log"))
    assert len(records) == 3
    assert len(records[1].raw) > 25_000
    assert records[1].values == {"folded": "usage"}


def test_arguments_in_force_from_the_log_are_those_of_the_server() -> None:
    adapter = engine("sglang")
    line = next(record.raw for record in read(content("graph.log")) if "server_args=" in record.raw)
    from_log = adapter.resolved_from_log(line)
    info: dict[str, Any] = json.loads(content("server_info.json"))
    from_server = adapter.resolved(info)
    assert len(from_log) > 300
    same = [name for name in from_log if name in from_server and from_log[name] == from_server[name]]
    assert len(same) > 0.95 * len(from_log)
    asked = Profile(name="p", launch=LaunchSection(args={"mem-fraction-static": 0.8, "tp": 1, "no-such-flag": 1}))
    [difference] = adapter.differences(asked, from_server)
    assert (difference.name, difference.requested, difference.resolved) == ("mem-fraction-static", 0.8, 0.903)


def test_nothing_but_arguments_is_taken_from_a_reply_of_another_version() -> None:
    adapter = engine("sglang")
    line = next(record.raw for record in read(content("cpu-drained.log")) if "server_args=" in record.raw)
    from_server = adapter.resolved(json.loads(content("cpu-server_info.json")))
    assert len(from_server) > 500 and from_server.keys() == adapter.resolved_from_log(line).keys()
    assert from_server["max_total_tokens"] == 32768
    assert adapter.in_flight(json.loads(content("cpu-loads.json"))) == 0


def test_fewer_tokens_than_asked_for_are_a_difference() -> None:
    adapter = engine("sglang")
    told = {
        "max_total_tokens": 3_000_000_000,
        "max_total_num_tokens": 15_568_587,
        "status": "ready",
        "version": "0.5.23",
    }
    resolved = adapter.resolved(told)
    assert resolved == {"max_total_tokens": 15_568_587}
    asked = Profile(name="p", launch=LaunchSection(args={"max-total-tokens": 3_000_000_000}))
    [difference] = adapter.differences(asked, resolved)
    assert (difference.requested, difference.resolved) == (3_000_000_000, 15_568_587)
    assert adapter.resolved({**told, "max_total_tokens": None}) == {"max_total_tokens": None}


def test_requests_in_flight() -> None:
    adapter = engine("sglang")
    assert adapter.in_flight(json.loads(content("get_load.json"))) == 0
    ranks = [{"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 2}, {"num_running_reqs": 4}]
    assert adapter.in_flight({"loads": ranks}) == 9
    assert adapter.in_flight("Internal Server Error") is None

"""vLLM: its log of three years, a recorded start and deaths of 0.32.0, its command line and its replies."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean

import pytest

from console.domain.profile import ArgValue, EngineSection, LaunchSection, Profile
from console.domain.run import LogKind, LogRecord
from console.engines.registry import engine
from tests.engines.recorded import content, of_kind, ranks, read, watched

VLLM = engine("vllm")
NAMES = ("engine", "input_throughput_tok_s", "gen_throughput_tok_s", "running_req", "queue_req", "kv_usage")

DIED = {
    "vllm-flag": ("unknown argument: --max-num-sequencess 2", "unrecognized arguments"),
    "vllm-port": ("port 31910 is taken: address already in use", "[Errno 98]"),
    "vllm-model": ("the model is not there: /models/nope", "Repo id must be in the form"),
    "vllm-len": ("max-model-len 100000 is more than the model's 4096", "User-specified max_model_len"),
    "vllm-mem": ("the host's memory does not suffice on kv cache allocation: 400.0 GiB asked", "Available memory on node 0"),
    "vllm-core": ("the engine core ended unexpectedly: killed, or crashed without a word", "exited unexpectedly"),
}  # fmt: skip


def profile(args: dict[str, ArgValue], python: str = "/v/bin/python", port: int = 8000) -> Profile:
    return Profile("p", engine=EngineSection("vllm", python), launch=LaunchSection(port=port, args=args))


def values(record: LogRecord, *names: str) -> tuple[object, ...]:
    return tuple(record.values.get(name) for name in names)


def test_statistics_of_all_versions() -> None:
    """A10: nine lines are six samples, one of them said in two lines, and two of speculative decoding."""
    records = read(content("A10.log"), kind="vllm")
    assert len(records) == 8
    stats = of_kind(records, LogKind.DECODE)
    assert [(*values(record, *NAMES), record.values.get("prefix_cache_hit_rate_pct")) for record in stats] == [
        (None, 2.8, 0.1, 1, 3, pytest.approx(0.002), 52.22),
        (0, 1254.4, 29.2, 10, 4, pytest.approx(0.579), 40.5),
        (0, 600.0, 98.9, 1, 0, 0.0, 0.0),
        (1, 600.0, 0.4, 1, 0, 0.0, 0.0),
        (0, 1.3, 0.1, 0, 0, 0.0, 0.0),
        (1, 0.0, 5.9, 0, 1, pytest.approx(0.005), 0.0),
    ]
    assert stats[0].values["swapped_req"] == 0
    assert stats[2].values["mfu"] == "1.7 TF/s/GPU 50.0 GB/s/GPU"
    assert stats[4].values["mm_cache_hit_rate_pct"] == 12.1
    assert values(stats[5], "deferred_req", "external_prefix_cache_hit_rate_pct") == (1, 100.0)


def test_speculation_is_no_speed_of_the_engine() -> None:
    new, old = read(content("A10.log"), kind="vllm")[-2:]
    names = (
        "accept_len",
        "accepted_tokens",
        "drafted_tokens",
        "per_position_acceptance_rate",
        "draft_acceptance_rate_pct",
    )
    assert values(new, *names) == (1.9, 28, 31, [0.903, 0.512], 90.3)
    assert values(old, *names) == (None, 66, 66, None, 100.0)
    assert new.values["accepted_throughput_tok_s"] == 2.8
    assert {record.kind for record in (new, old)} == {LogKind.OTHER}
    assert "gen_throughput_tok_s" not in new.values


def test_what_users_send_is_no_sample() -> None:
    """A08: colours, and a request whose text looks like a statistic."""
    records = read(content("A08.log"), kind="vllm")
    [stats] = of_kind(records, LogKind.DECODE)
    assert (*values(stats, *NAMES), stats.values["prefix_cache_hit_rate_pct"]) == (
        0, 105.8, 158.0, 1, 0, pytest.approx(0.003), 68.2,
    )  # fmt: skip
    assert (stats.clock, stats.source["process"], stats.source["pid"]) == ("08-19 15:04:51", "APIServer", 1391)
    [failure] = of_kind(records, LogKind.FAILURE)
    assert failure.source["pid"] == 1399 and failure.lines[-1] == "ValueError: boom"
    assert failure.raw.count("\n") == 2
    [phase] = of_kind(records, LogKind.PHASE)
    assert (phase.values["avail_mem_gib"], ranks(phase)) == (112.61, {"DP": 0})
    [access] = of_kind(records, LogKind.ACCESS)
    assert access.values == {"method": "POST", "path": "/v1/chat/completions", "code": 200}
    [echo] = [record for record in records if "Received request" in record.raw]
    assert (echo.kind, dict(echo.values)) == (LogKind.OTHER, {})


def test_stamps_without_a_year() -> None:
    """A11: the collector's moment wins; new year is a step of ten seconds."""
    since = datetime(2025, 12, 31, 12, tzinfo=UTC).timestamp()
    records = read(content("A11.log"), 0, kind="vllm", since=since)
    assert [record.values["gen_throughput_tok_s"] for record in records] == [200.0, 210.0, 220.0, 50.0, 51.0, 52.0]
    times = [datetime.fromisoformat(record.time[:19]) for record in records if record.time]
    assert [(later - sooner).total_seconds() for sooner, later in pairwise(times[:3])] == [10, 10]
    assert (times[4] - times[3]).total_seconds() == 10


def test_sizes_and_several_engines() -> None:
    """0.33: stages of fetching have commas of their own, and several engines may be one line."""
    line = (
        b"(APIServer pid=1) INFO 12-02 05:40:00 [loggers.py:335] 2 Engines Aggregated: Avg prompt throughput: 1.0 tokens/s,"
        b" Avg generation throughput: nan tokens/s, Running: 4 reqs, Waiting: 2 reqs, KV fetch: 1 waiting to start,"
        b" 2 in progress, 3 completed waiting, Preemptions: 7, CPU KV cache usage: 1.5%, New thing: 3.5 furlongs\n"
    )
    [record] = read(line, kind="vllm")
    assert values(record, "engines", "gen_throughput_tok_s", "preemptions", "kv_usage") == (
        2,
        None,
        7,
        pytest.approx(0.015),
    )
    assert record.values["kv_fetch"] == "1 waiting to start, 2 in progress, 3 completed waiting"
    assert record.values["new_thing"] == "3.5 furlongs"
    json.dumps(dict(record.values), allow_nan=False)


def test_a_whole_life() -> None:
    data = content("vllm-life.log")
    records = read(data, kind="vllm")
    kinds = Counter(record.kind for record in records)
    assert kinds[LogKind.DECODE] == data.count(b" Avg generation throughput: ")
    assert kinds[LogKind.ACCESS] == data.count(b' HTTP/1.1" ')
    assert kinds[LogKind.FAILURE] == 0
    watch = watched(records, kind="vllm")
    assert [rung.name for rung in watch.ladder()] == [
        "start", "arguments", "engine", "distributed", "weights", "kv cache", "warm-up", "http", "ready",
    ]  # fmt: skip
    notes = {rung.name: rung.note for rung in watch.ladder() if rung.note}
    assert notes == {"engine": "vLLM 0.32.0", "kv cache": "1,048,576 tokens"}
    assert all(rung.ended_s is not None for rung in watch.ladder())
    assert watch.ready_clock == "12-02 14:36:29" and watch.stopping
    assert watch.failure(ended=True) is None


def test_ready_is_not_the_line_before() -> None:
    data = content("vllm-life.log")
    before = data[: data.index(b"INFO:     Application startup complete")]
    assert not watched(read(before, kind="vllm"), kind="vllm").ready


def test_a_gpu_start_of_another_version() -> None:
    """Lines of 0.11 on a GPU, as their sources print them."""
    text = """INFO 12-02 05:40:00 [utils.py:233] non-default args: {'model': '/m', 'tensor_parallel_size': 2}
(EngineCore_DP0 pid=2) INFO 12-02 05:40:09 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='/m', max_seq_len=8192, tensor_parallel_size=2, dtype=torch.bfloat16
(Worker_TP0 pid=3) INFO 12-02 05:40:15 [pynccl.py:103] vLLM is using nccl==2.27.3
(Worker_TP0 pid=3) INFO 12-02 05:40:16 [parallel_state.py:1208] rank 0 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 0, EP rank 0
(Worker_TP0 pid=3) INFO 12-02 05:40:17 [gpu_model_runner.py:2602] Starting to load model /m...
Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:03<00:03,  1.51s/it]
(Worker_TP0 pid=3) INFO 12-02 05:40:30 [gpu_model_runner.py:2653] Model loading took 12.5 GiB and 13.1 seconds
(Worker_TP0 pid=3) INFO 12-02 05:40:40 [backends.py:559] Dynamo bytecode transform time: 9.1 s
(Worker_TP0 pid=3) INFO 12-02 05:41:00 [monitor.py:34] torch.compile takes 29.0 s in total
(Worker_TP0 pid=3) INFO 12-02 05:41:02 [gpu_worker.py:298] Available KV cache memory: 60.25 GiB
(EngineCore_DP0 pid=2) INFO 12-02 05:41:03 [kv_cache_utils.py:1087] GPU KV cache size: 493,520 tokens
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|#####     | 33/67 [00:04<00:04,  8.1it/s]
(Worker_TP0 pid=3) INFO 12-02 05:41:13 [gpu_model_runner.py:3480] Graph capturing finished in 9 secs, took 1.18 GiB
(EngineCore_DP0 pid=2) INFO 12-02 05:41:14 [core.py:210] init engine (profile, create kv cache, warmup model) took 43.2 seconds
"""
    watch = watched(read(text.encode(), kind="vllm"), kind="vllm")
    spent = {rung.name: (rung.ended_s or 0) - (rung.started_s or 0) for rung in watch.ladder()}
    assert list(spent) == [
        "start", "arguments", "engine", "distributed", "weights", "profile", "compile", "kv cache", "cuda graphs", "warm-up",
    ]  # fmt: skip
    assert (spent["weights"], spent["profile"], spent["compile"], spent["cuda graphs"]) == (13, 10, 20, 10)
    assert {rung.name: rung.note for rung in watch.ladder()}["weights"] == "12.5 GiB"
    graphs = text[: text.index("(Worker_TP0 pid=3) INFO 12-02 05:41:13")]
    assert watched(read(graphs.encode(), kind="vllm"), kind="vllm").ladder()[-1].progress == pytest.approx(33 / 67)
    found = VLLM.resolved_from_log(text.split("\n")[1])
    assert (found["max_model_len"], found["dtype"]) == (8192, "bfloat16")


@pytest.mark.parametrize("name", DIED)
def test_the_first_cause_of_a_death(name: str) -> None:
    cause, proof = DIED[name]
    watch = watched(read(content(f"{name}.log"), kind="vllm"), kind="vllm")
    failure = watch.failure(ended=True)
    assert failure is not None
    assert failure.cause.startswith(cause)
    assert any(proof in line for line in failure.lines)
    assert not watch.ready


GPU_DEATHS = {
    "Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired GPU memory utilization (0.9, 71.3 GiB)": (
        "the GPU has only 3.1 of 79.2 GiB free, gpu-memory-utilization 0.9 asks for 71.3 GiB",
        "free the GPU of other processes",
    ),
    "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.": (
        "the weights leave no memory for the KV cache",
        "free the GPU of other processes",
    ),
    "To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger "
    "than the available KV cache memory (9.50 GiB).": (
        "max-model-len 131072 needs more KV cache than there is",
        "lower",
    ),
    "World size (8) is larger than the number of available GPUs (4) in this node.": (
        "more GPUs are asked for",
        "lower",
    ),
    "Total number of attention heads (14) must be divisible by tensor parallel size (4).": (
        "tensor-parallel-size 4 does not divide the model's 14 attention heads",
        "choose a tensor-parallel-size",
    ),
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.20 GiB of which 1.00 GiB is free.": (
        "GPU 3 is out of memory: 2.00 GiB asked, 1.00 GiB of 79.20 GiB free",
        "lower",
    ),
}


@pytest.mark.parametrize("text", GPU_DEATHS)
def test_deaths_that_need_a_gpu(text: str) -> None:
    head = "(EngineCore_DP0 pid=9) ERROR 08-19 15:05:02 [core.py:718] "
    kind = "torch.OutOfMemoryError" if "CUDA" in text else "ValueError"
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):", '  File "/v/core.py", line 5, in f']
    log = "\n".join(head + line for line in [*lines, f"{kind}: {text}"])
    log += "\nRuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    failure = watched(read(log.encode(), kind="vllm"), kind="vllm").failure(ended=True)
    assert failure is not None
    cause, hint = GPU_DEATHS[text]
    assert failure.cause.startswith(cause) and failure.hint.startswith(hint)


def test_command_lines() -> None:
    asked = profile(
        {
            "model": "/models/m",
            "tensor-parallel-size": 2,
            "enforce-eager": True,
            "enable-prefix-caching": False,
            "compilation-config": {"cudagraph_mode": "FULL"},
            "middleware": ("a.b", "c.d"),
            "api-key": "hunter2",
        },
        port=8123,
    )
    words = VLLM.command(asked)
    assert words == (
        "/v/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", "/models/m", "--tensor-parallel-size", "2",
        "--enforce-eager", "--compilation-config", '{"cudagraph_mode":"FULL"}', "--middleware", "a.b", "--middleware", "c.d",
        "--api-key", "hunter2", "--port", "8123",
    )  # fmt: skip
    assert "hunter2" not in " ".join(VLLM.redacted(words))
    assert VLLM.model_paths(asked) == ("/models/m",)


def test_all_of_several_keys_are_hidden() -> None:
    words = ("vllm", "serve", "--api-key", "one", "two", "--port", "1", "--api_key=three", "--seed", "-1")
    shown = VLLM.redacted(words)
    assert not {"one", "two"} & set(shown) and "three" not in " ".join(shown)
    assert shown[-4:] == ("1", "--api_key=•••", "--seed", "-1")


@pytest.mark.parametrize("name", ["vllm-server_info.json", "vllm-server_info-text.json"])
def test_what_is_in_force(name: str) -> None:
    resolved = VLLM.resolved(json.loads(content(name)))
    told = {key: resolved[key] for key in ("model", "dtype", "max_model_len", "enforce_eager", "tensor_parallel_size")}
    assert told == {
        "model": "/models/tiny", "dtype": "float32", "max_model_len": 2048, "enforce_eager": True,
        "tensor_parallel_size": 1,
    }  # fmt: skip
    asked = profile({"model": "/models/tiny", "dtype": "float", "max-model-len": 4096, "no-enforce-eager": True})
    assert {(found.name, found.requested, found.resolved) for found in VLLM.differences(asked, resolved)} == {
        ("max-model-len", 4096, 2048),
        ("no-enforce-eager", False, True),
    }


def test_what_is_in_force_as_the_log_tells() -> None:
    told: dict[str, object] = {}
    for record in of_kind(read(content("vllm-life.log"), kind="vllm"), LogKind.PHASE):
        told |= VLLM.resolved_from_log(record.raw)
    assert (told["model"], told["port"], told["max_model_len"]) == ("/models/tiny", 31900, 2048)
    assert (told["dtype"], told["tensor_parallel_size"], told["quantization"]) == ("float32", 1, None)
    assert isinstance(told["compilation_config"], dict) or "cudagraph" in str(told["compilation_config"])


def test_requests_in_flight() -> None:
    text = content("vllm-metrics.txt").decode()
    assert VLLM.in_flight(text) == 0
    busy = text.replace(
        'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0',
        'vllm:num_requests_running{engine="0"} 4.0\nvllm:num_requests_running{engine="1"} 2.0',
    )
    busy = busy.replace(
        'vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0', 'vllm:num_requests_waiting{engine="0"} 3.0'
    )
    assert VLLM.in_flight(busy) == 9
    assert VLLM.in_flight("nothing of it") is None
    assert VLLM.in_flight({"server_load": 0}) is None


def test_the_mean_of_a_recorded_run_counts_every_interval() -> None:
    """Unlike SGLang's, each line is a true average: none is to be left out."""
    stats = of_kind(read(content("A11.log"), kind="vllm"), LogKind.DECODE)
    assert not any("first_after_idle" in record.values for record in stats)
    speeds = [speed for record in stats if isinstance(speed := record.values["gen_throughput_tok_s"], float)]
    assert fmean(speeds) == pytest.approx(130.5)

"""The engine stand-in: real processes and HTTP, the real one's words and exits."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.demo import layout
from tests.demo.conftest import ROLL, Launch

PHASES = (
    r"server_args=ServerArgs\(model_path=",
    r"TP0\] Init torch distributed begin\.",
    r"TP0\] Init torch distributed ends\. elapsed=[\d.]+ s, mem usage=[\d.]+ GB",
    r"TP0\] Load weight begin\. avail mem=",
    r"Loading safetensors checkpoint shards: 100% Completed \| 12/12",
    r"TP0\] Load weight end\. elapsed=",
    r"TP0\] KV Cache is allocated\. #tokens: \d+",
    r"TP0\] Memory pool end\.",
    r"TP0\] Capture cuda graph begin\.",
    r"TP0\] Capture cuda graph end\.",
    r"TP0\] max_total_num_tokens=\d+, .*max_running_requests=64",
    r"INFO:     Started server process \[\d+\]",
    r"INFO:     Uvicorn running on http://127\.0\.0\.1:\d+",
    r"TP0\] Prefill batch, #new-seq: 1, ",
    re.escape(ROLL),
)


def test_starts_in_the_order_of_the_real_one_and_ends_as_it_does(launch: Launch) -> None:
    engine = launch("--max-running-requests", "64")
    text = engine.wait_for(ROLL)
    places = [match.start() if (match := re.search(phase, text)) else -1 for phase in PHASES]
    assert -1 not in places
    assert places == sorted(places)
    children = engine.children()
    titles = {Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode() for pid in children}
    assert titles == {*(f"sglang::scheduler_TP{rank}" for rank in range(8)), "sglang::detokenizer"}
    assert engine.end() == -signal.SIGKILL
    assert "SIGTERM received. signum=None frame=None. Draining requests and shutting down..." in engine.text()
    assert (
        "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[]." in engine.text()
    )
    assert not _left(children)


def test_serves_text_whole_and_streamed_with_true_counts(launch: Launch) -> None:
    engine = launch("--enable-metrics")
    engine.wait_for(ROLL)
    with httpx.Client(base_url=f"http://127.0.0.1:{engine.port}", trust_env=False, timeout=20) as client:
        body = {"model": "x", "prompt": [1, 2, 3], "max_tokens": 9, "ignore_eos": True}
        whole = client.post("/v1/completions", json=body).json()
        assert whole["usage"]["completion_tokens"] == 9
        assert whole["usage"]["prompt_tokens"] == 3
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        events = _events(client.post("/v1/completions", json=body).text)
        assert len(events) == 10
        assert [event["choices"][0]["finish_reason"] for event in events[:9]] == [None] * 8 + ["length"]
        assert events[-1]["choices"] == []
        assert events[-1]["usage"]["completion_tokens"] == 9
        chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, "ignore_eos": True, "stream": True}
        assert len(_events(client.post("/v1/chat/completions", json=chat).text)) == 3
        asked = {
            "input_ids": list(range(64)),
            "sampling_params": {"max_new_tokens": 5, "ignore_eos": True},
            "stream": True,
        }
        events = _events(client.post("/generate", json=asked).text)
        assert [event["meta_info"]["completion_tokens"] for event in events] == [1, 2, 3, 4, 5]
        again = client.post("/generate", json={**asked, "stream": False}).json()
        assert again["meta_info"]["cached_tokens"] > 0
        assert client.post("/flush_cache").status_code == 200
        flushed = client.post("/generate", json={**asked, "stream": False}).json()
        assert flushed["meta_info"]["cached_tokens"] == 0
        assert flushed["meta_info"]["completion_tokens"] == 5
        missing = client.post("/v1/chat/completions", json={"model": "x"})
        assert missing.status_code == 400
        assert client.get("/no_such_path").status_code == 404


def test_tells_its_numbers_in_every_place(launch: Launch) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    engine = launch("--enable-metrics", "--max-running-requests", "64")
    engine.wait_for(ROLL)
    with httpx.Client(base_url=f"http://127.0.0.1:{engine.port}", trust_env=False, timeout=20) as client:
        families = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}
        assert {"sglang:num_running_reqs", "sglang:gen_throughput", "sglang:realtime_tokens"} <= families
        load = client.get("/v1/loads").json()["loads"][0]
        assert load["max_running_requests"] == 64
        info = client.get("/server_info").json()
        assert info["max_running_requests"] == 64
        assert info["version"] == "0.5.9"
        assert info["internal_states"][0]["last_gen_throughput"] >= 0
        assert client.get("/model_info").json() == client.get("/get_model_info").json()
        assert client.get("/health").status_code == 200


def test_a_port_in_use_ends_it_with_3(launch: Launch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        engine = launch(port=taken.getsockname()[1])
        assert engine.process.wait(30) == 3
    assert "[Errno 98] error while attempting to bind on address ('127.0.0.1'" in engine.text()
    assert ROLL not in engine.text()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--mem-fraction-statik", "0.8"), "error: unrecognized arguments: --mem-fraction-statik 0.8"),
        (("--attention-backend", "flashinfr"), "argument --attention-backend: invalid choice: 'flashinfr'"),
    ],
)
def test_a_wrong_flag_is_usage_and_2(launch: Launch, args: tuple[str, ...], said: str) -> None:
    engine = launch(*args)
    assert engine.process.wait(30) == 2
    assert said in engine.text()


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (
            ("--mem-fraction-static", "0.02"),
            {},
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        ),
        (("--mem-fraction-static", "0.999"), {}, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "),
        ((), {"TOKWATT_DEMO_CRASH": "oom"}, "torch.OutOfMemoryError: CUDA out of memory."),
        (("--model-path", "nobody/nothing"), {}, "OSError: Repo id must be in the form"),
        (("--context-length", "9000000"), {}, "ValueError: Warning: User-specified context_length (9000000)"),
    ],
)
def test_a_failing_rank_takes_the_server_down(
    launch: Launch, args: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    engine = launch(*args, **env)
    assert engine.process.wait(30) == -signal.SIGKILL
    text = engine.text()
    assert "Scheduler hit an exception: Traceback (most recent call last):" in text
    assert said in text
    assert "Received sigquit from a child process. It usually means the child failed." in text


def test_a_hang_in_the_process_group_stays_a_hang(launch: Launch) -> None:
    engine = launch(TOKWATT_DEMO_CRASH="hang")
    engine.wait_for("sglang is using nccl")
    assert "Init torch distributed ends" not in engine.text()
    assert engine.process.poll() is None


def test_the_ranks_die_with_a_killed_launcher(launch: Launch) -> None:
    engine = launch()
    engine.wait_for(ROLL)
    children = engine.children()
    engine.process.kill()
    engine.process.wait(10)
    assert not _left(children)


def test_what_it_does_follows_from_the_bytes_of_its_files(built: Path, tmp_path: Path, launch: Launch) -> None:
    folder = tmp_path / "changed"
    layout.build(folder)
    runner = layout.package_folder(folder) / "srt" / "model_executor" / "model_runner.py"
    runner.write_text(runner.read_text().replace('# "flashinfer_cutlass",', '"flashinfer_cutlass",'))
    flags = ("--moe-runner-backend", "flashinfer_cutlass", "--quantization", "modelopt_fp4", "--disable-cuda-graph")
    assert "Running FlashInfer autotune..." not in launch(*flags).wait_for(ROLL)
    assert "Running FlashInfer autotune..." not in launch("--disable-cuda-graph", folder=folder).wait_for(ROLL)
    tuned = launch(*flags, folder=folder).wait_for(ROLL)
    assert tuned.count("Running FlashInfer autotune...") == tuned.count("FlashInfer autotune completed.") == 8
    runner.write_text(runner.read_text().replace("def kernel_warmup", "def kernel_warm-up"))
    broken = launch(*flags, folder=folder)
    assert broken.process.wait(30) == -signal.SIGKILL
    assert "SyntaxError" in broken.text()


def test_its_own_fusion_gate_knows_no_sm120(launch: Launch) -> None:
    assert "FlashInfer workspace initialized" not in launch("--enable-flashinfer-allreduce-fusion").wait_for(ROLL)


def test_the_shipped_python_is_the_only_thing_it_needs(built: Path) -> None:
    assert shutil.which("git")
    python = built / "home" / "ml-env" / "bin" / "python3"
    done = subprocess.run(
        [str(python), "-m", "sglang.launch_server", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PATH": os.defpath},
    )
    assert done.returncode == 0
    assert "--moe-runner-backend" in done.stdout


def _events(text: str) -> list[dict[str, Any]]:
    parts = [part.removeprefix("data: ") for part in text.split("\n\n") if part]
    assert parts[-1] == "[DONE]"
    return [json.loads(part) for part in parts[:-1]]


def _left(pids: list[int]) -> list[int]:
    """Return which still live 10 s after the signal that was to end them; the kernel carries it out in its own time."""
    until = time.monotonic() + 10
    while _living(pids) and time.monotonic() < until:
        time.sleep(0.01)
    return _living(pids)


def _living(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found

"""What real clients wrote of one paced server (first token after 300 ms, then one each 10 ms): 24 requests, 32 tokens."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.bench.results import Result, import_results
from tests.bench.test_results import DATA

FILES = {
    "sglang-0.5.23.jsonl": ("sglang", ""),
    "sglang-0.5.23-details.jsonl.gz": ("sglang", ""),
    "vllm-0.32.json": ("openai", "tiny"),
    "vllm-0.32-detailed.json.gz": ("openai", "tiny"),
    "aiperf-0.13.json.gz": ("aiperf", "tiny"),
    "guidellm-0.8.json.gz": ("guidellm", "tiny"),
    "genai-bench-0.0.5.json.gz": ("genai-bench", ""),
}


def data(name: str) -> bytes:
    found = (DATA / name).read_bytes()
    return gzip.decompress(found) if name.endswith(".gz") else found


def only(name: str) -> Result:
    found = import_results(data(name))
    assert not found.damaged and not found.notes
    [result] = found.results
    return result


@pytest.mark.parametrize("name", FILES)
def test_what_a_real_client_measured_is_read(name: str) -> None:
    result = only(name)
    assert (result.backend, result.model) == FILES[name]
    assert (result.concurrency_limit, result.completed, result.failed or 0, result.fit) == (8, 24, 0, True)
    assert result.output_tokens == 24 * 32
    assert result.duration_s is not None and 1.8 < result.duration_s < 2.5
    assert result.output_throughput_tok_s == pytest.approx(24 * 32 / result.duration_s, rel=0.02)
    # every time in milliseconds by our definitions, whatever the tool calls it
    assert result.latencies["ttft_ms"]["mean_ms"] == pytest.approx(310, abs=60)
    assert result.latencies["tpot_ms"]["mean_ms"] == pytest.approx(10, rel=0.05)
    assert result.latencies["e2el_ms"]["mean_ms"] == pytest.approx(310 + 31 * 10, abs=60)
    if result.backend != "genai-bench":  # it tells no gaps
        assert result.latencies["itl_ms"]["mean_ms"] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("name", ["aiperf-0.13.json.gz", "guidellm-0.8.json.gz", "genai-bench-0.0.5.json.gz"])
def test_the_lengths_that_a_client_was_asked_for_are_found(name: str) -> None:
    assert (only(name).input_len, only(name).output_len) == (32, 32)


def test_tokens_of_the_clients_own_tokenizer_are_no_throughput() -> None:
    result = only("aiperf-0.13-retokenized.json.gz")
    assert result.flags == ("1,536 output tokens by the client's tokenizer, 768 by the server's count",)
    assert not result.fit and result.output_tokens == 1536


def test_the_shell_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(data("aiperf-0.13.json.gz"))
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "console", "bench", "import", str(file), "--json"]
    done = subprocess.run(words, capture_output=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])

"""Ceiling of the load generator beside the engines' own clients, aiperf and guidellm: the same unpaced server for all.

Each client is asked for the same streams and tokens; what it tells (tok/s over its own window) and the processor time
of its processes are printed as ratios to ours of the same minute. The server and the client share this machine's cores.
Processor time of ours and of aiperf and guidellm holds their starts; that of the engines' clients, which start long
before, holds their prompts and results. Clients whose venv is not below `.venvs/` are left out and named; `install.py` has pins of all.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from console.bench.results import import_results
from tests.real_engine.clients import SGLANG, VLLM, Client, Load, client, paced_server
from tests.real_engine.install import venv_of
from tests.real_engine.model import write_model

ROOT = Path(__file__).parent.parent.parent
TOKENS = 128
Told = tuple[float, float]
"""Output tok/s and processor seconds."""


@pytest.fixture
def unpaced() -> Iterator[int]:
    with paced_server(0, 0) as port:
        yield port


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def engines(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        found = []
        for make in (SGLANG, VLLM):
            if (venv_of(make.engine) / "bin/python").exists():
                found.append(stack.enter_context(client(make, tmp_path_factory.mktemp("client"), model)))
            else:
                print(f"\nwithout {make.engine}'s client: make test-engines installs it")
        yield found


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(load: Load, api: str, rate: float = 0.0) -> tuple[Told, float]:
    """Return what our load comes to, and its lag p99 in ms: of the loop, or of sends where there is a rate."""
    plan = {
        "port": load.port, "concurrency": load.streams, "requests": load.requests, "api": api, "model": "tiny",
        "input_tokens": load.input_tokens, "output_tokens": load.output_tokens, "token_range": [256, 1024],
        "rate": rate,
    }  # fmt: skip
    before = children_s()
    words = [sys.executable, "-m", "console.bench.load.run", "--plan", json.dumps(plan)]
    done = subprocess.run(words, capture_output=True, cwd=ROOT, timeout=300, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["completed"] == load.requests and told["wrong_length"] == 0
    lag = told["send_lag"] if rate else told["lag"]
    return (load.requests * load.output_tokens / told["duration_s"], children_s() - before), 1000 * lag["p99_s"]


def theirs(one: Client, load: Load) -> Told:
    """Return what an engine's own client comes to."""
    [result] = import_results(one.run(load).read_bytes()).results
    assert result.completed == load.requests and result.output_throughput_tok_s
    return result.output_throughput_tok_s, one.processor_s


def program(words: list[str], result: Path, folder: Path) -> Told:
    """Return what a client of its own venv comes to, its children with it."""
    before = children_s()
    env = {**os.environ, "HOME": str(folder)}
    subprocess.run(words, cwd=folder, env=env, timeout=300, check=True, capture_output=True)
    [found] = import_results(result.read_bytes()).results
    assert found.output_throughput_tok_s
    return found.output_throughput_tok_s, children_s() - before


def aiperf(load: Load, folder: Path, model: Path) -> Told:
    words = [
        str(venv_of("aiperf") / "bin/aiperf"), "profile", "--model", "tiny", "--url", f"127.0.0.1:{load.port}",
        "--endpoint-type", "completions", "--streaming", "--concurrency", str(load.streams),
        "--request-count", str(load.requests), "--synthetic-input-tokens-mean", str(load.input_tokens),
        "--output-tokens-mean", str(load.output_tokens), "--extra-inputs", "ignore_eos:true",
        "--tokenizer", str(model), "--ui", "none", "--output-artifact-dir", str(folder / "aiperf"),
    ]  # fmt: skip
    return program(words, folder / "aiperf/profile_export_aiperf.json", folder)


def guidellm(load: Load, folder: Path, model: Path) -> Told:
    file = folder / "guidellm.json"
    words = [
        str(venv_of("guidellm") / "bin/guidellm"), "run", "--disable-console",
        "--backend", f"kind=openai_http,target=http://127.0.0.1:{load.port},model=tiny",
        "--profile", f"kind=concurrent,streams={load.streams}",
        "--constraint", f"kind=max_requests,count={load.requests}", "--tokenizer", f"kind=hf_auto,model={model}",
        "--data", f"kind=synthetic_text,prompt_tokens={load.input_tokens},output_tokens={load.output_tokens}",
        "--output", f"kind=json,path={file}",
    ]  # fmt: skip
    return program(words, file, folder)


@pytest.mark.parametrize("streams", [64, 256, 1024])
def test_ceilings(unpaced: int, engines: list[Client], model: Path, tmp_path: Path, streams: int) -> None:
    load = Load(unpaced, streams, 2 * streams, 32, TOKENS)
    rows: list[tuple[str, Told, Told]] = []
    """Client, what it came to, and ours of the same API."""
    for api in ("generate", "completions"):
        base, lag_ms = ours(load, api)
        rows.append((f"ours, {api}, loop lag p99 {lag_ms:.1f} ms", base, base))
        for one in engines:
            if one.make.api == api:
                one.run(replace(load, streams=1, requests=1))  # what is imported at the first run is none of the load's
                rows.append((f"{one.make.engine}'s client", theirs(one, load), base))
    for name, run in (("aiperf", aiperf), ("guidellm", guidellm)):
        if not (venv_of(name) / "bin" / name).exists():
            print(f"\nwithout {name}: python tests/real_engine/install.py {name}", end="")
            continue
        try:
            rows.append((name, run(load, tmp_path, model), base))
        except (subprocess.SubprocessError, OSError, ValueError, AssertionError) as error:
            print(f"\nwithout {name}: {error!r}"[:400], end="")
    _, send_ms = ours(load, "completions", rate=200.0)
    for name, (rate, spent_s), (our_rate, our_s) in rows:
        each_us = 1e6 * spent_s / (load.requests * TOKENS)
        print(
            f"\n{streams:5} streams, {name}: {rate:,.0f} tok/s, {each_us:.1f} µs of a core a token"
            f" (ours {our_rate / rate:.1f} × the tok/s for {our_s / spent_s:.2f} × the processor time)",
            end="",
        )
    print(f"\n{streams:5} streams, ours at 200 requests/s: send lag p99 {send_ms:.2f} ms")

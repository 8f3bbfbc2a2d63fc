"""The engines' own benchmark clients, imported once and run as often as wanted: their import takes longer than a run."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.real_engine.conftest import ROOT, SHIMS, SHIMS_VLLM, python_of

DRIVER = """import json, os, sys
said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)                      # what they print is not for us
{imports}
print("ready", file=said, flush=True)
for line in sys.stdin:
    sys.argv = json.loads(line)
    before = os.times()
    entry()
    after = os.times()
    print(after.user - before.user + after.system - before.system, file=said, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What both are to ask."""

    port: int
    streams: int
    requests: int
    input_tokens: int
    output_tokens: int
    warmup: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Make:
    """One engine's client."""

    engine: str
    imports: str
    search_path: Path
    argv: tuple[str, ...]
    suffix: str
    api: str
    """What our load program calls the API that it asks."""


SGLANG = Make(
    "sglang",
    "from sglang.benchmark.serving import cli_main as entry",
    SHIMS,
    (
        "--backend", "sglang", "--dataset-name", "random-ids", "--random-range-ratio", "1", "--disable-tqdm",
        "--random-input-len", "{input}", "--random-output-len", "{output}", "--num-prompts", "{requests}",
        "--max-concurrency", "{streams}", "--warmup-requests", "{warmup}", "--output-file", "{file}",
    ),
    ".jsonl",
    "generate",
)  # fmt: skip
VLLM = Make(
    "vllm",
    "from vllm.entrypoints.cli.main import main as entry",
    SHIMS_VLLM,
    (
        "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions", "--dataset-name", "random",
        "--ignore-eos", "--disable-tqdm", "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--random-input-len", "{input}", "--random-output-len", "{output}", "--num-prompts", "{requests}",
        "--max-concurrency", "{streams}", "--num-warmups", "{warmup}", "--save-result", "--result-filename", "{file}",
    ),
    ".json",
    "completions",
)  # fmt: skip


@dataclass
class Client:
    """A client that waits for work."""

    make: Make
    folder: Path
    model: Path
    process: subprocess.Popen[str]
    runs: int = field(default=0)
    processor_s: float = 0.0
    """Of the last run: prompts made, load, result written."""

    def run(self, load: Load, *more: str) -> Path:
        """Make a load, with further arguments, and return the file of its result."""
        self.runs += 1
        file = self.folder / f"{self.make.engine}-{self.runs}{self.make.suffix}"
        told = {
            "input": load.input_tokens, "output": load.output_tokens, "requests": load.requests,
            "streams": load.streams, "warmup": load.warmup, "file": file,
        }  # fmt: skip
        words = ["client", *(word.format(**told) for word in self.make.argv)]
        words += ["--host", "127.0.0.1", "--port", str(load.port), "--model", "tiny", "--tokenizer", str(self.model)]
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([*words, "--seed", str(load.seed), *more]) + "\n")
        self.process.stdin.flush()
        self.processor_s = float(self.said())
        return file

    def said(self) -> str:
        """Return its next word."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, f"{self.make.engine}'s client ended: {self.complaints()}"
        return line

    def complaints(self) -> str:
        """Return the end of what it printed."""
        return (self.folder / f"{self.make.engine}.err").read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def client(make: Make, folder: Path, model: Path) -> Iterator[Client]:
    """Start a client's process, and end it."""
    env = {**os.environ, "PYTHONPATH": str(make.search_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env |= {"SGLANG_USE_CPU_ENGINE": "1", "VLLM_NO_USAGE_STATS": "1", "HOME": str(folder)}
    with (folder / f"{make.engine}.err").open("wb") as complaints:
        process = subprocess.Popen(
            [str(python_of(make.engine)), "-c", DRIVER.format(imports=make.imports)], cwd=folder, env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True,
        )  # fmt: skip
    with process:
        try:
            found = Client(make, folder, model, process)
            assert found.said() == "ready"
            yield found
        finally:
            process.kill()


@contextlib.contextmanager
def paced_server(*pace: float) -> Iterator[int]:
    """Yield the port of a server that paces its streams, a process of its own; see `tests/bench/paced.py`."""
    words = [sys.executable, str(ROOT / "tests/bench/paced.py"), *map(str, pace)]
    engine = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT)
    assert engine.stdout is not None
    try:
        yield int(engine.stdout.readline())
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()

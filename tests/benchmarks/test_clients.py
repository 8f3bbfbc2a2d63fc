"""Ceiling of the load generator beside the engines' own clients, aiperf and guidellm: the same server for all.

Each client is asked for the same streams and tokens, in rounds of AB BA; what is printed is its tok/s over its own
window, the processor time of its processes a token, and the 95 % interval of ours over its. Two servers are asked: one
that sends an answer as fast as it can, many events in a piece, which shows the ceilings; and one that sends each token
when it is due, as an engine does, below every ceiling, which shows what a token costs on its own.

The server and the client share this machine's cores; the load average stands beside the figures. Processor time of ours
and of aiperf and guidellm holds their starts; that of the engines' clients, which start long before, holds their prompts
and results. Clients whose venv is not below `.venvs/` are left out and named; `install.py` has pins of all.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from console.bench.results import import_results
from console.experiments.schedule import order
from console.experiments.statistics import interval
from tests.real_engine.clients import SGLANG, VLLM, Client, Load, client, paced_server
from tests.real_engine.install import venv_of
from tests.real_engine.model import write_model

ROOT = Path(__file__).parent.parent.parent
TOKENS = 128
ROUNDS = int(os.environ.get("TOKWATT_ROUNDS", "3"))
LEAST_REQUESTS = 1024
"""Fewer would be a second: the start of a program would be much of its processor time."""

PACED_TOK_S = 2000.0
"""Of all streams together: a fifth of what the slowest client can."""

PACED_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Told:
    """What a client came to."""

    tok_s: float
    processor_s: float
    lag_p99_ms: float | None = None


@dataclass(slots=True)
class Side:
    """A client, and what it came to in each round."""

    name: str
    api: str
    """Which of ours it is compared with."""
    run: Callable[[Load], Told]
    told: list[Told] = field(default_factory=list)
    without: str = ""
    """Why it is left out."""


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


def ours(load: Load, api: str, rate: float = 0.0) -> Told:
    """Return what our load comes to, with the lag of its loop, or of its sends where there is a rate."""
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
    made = load.requests * load.output_tokens
    return Told(made / told["duration_s"], children_s() - before, 1000 * lag["p99_s"])


def theirs(one: Client, load: Load) -> Told:
    """Return what an engine's own client comes to."""
    [result] = import_results(one.run(load).read_bytes()).results
    assert result.completed == load.requests and result.output_throughput_tok_s
    return Told(result.output_throughput_tok_s, one.processor_s)


def program(words: list[str], result: Path, folder: Path) -> Told:
    """Return what a client of its own venv comes to, its children with it."""
    before = children_s()
    env = {**os.environ, "HOME": str(folder)}
    subprocess.run(words, cwd=folder, env=env, timeout=300, check=True, capture_output=True)
    [found] = import_results(result.read_bytes()).results
    assert found.output_throughput_tok_s
    return Told(found.output_throughput_tok_s, children_s() - before)


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


def sides(engines: list[Client], folder: Path, model: Path) -> list[Side]:
    """Return ours of both APIs and every other client that is installed."""
    found = [Side(f"ours, {api}", api, partial(ours, api=api)) for api in ("generate", "completions")]
    found += [Side(f"{one.make.engine}'s client", one.make.api, partial(theirs, one)) for one in engines]
    for name, run in (("aiperf", aiperf), ("guidellm", guidellm)):
        if (venv_of(name) / "bin" / name).exists():
            found.append(Side(name, "completions", partial(run, folder=folder, model=model)))
        else:
            print(f"\nwithout {name}: python tests/real_engine/install.py {name}", end="")
    return found


def rounds(all_sides: list[Side], load: Load) -> None:
    """Run every side once a round, every other round backwards."""
    for block in range(ROUNDS):
        for name in order(block, [side.name for side in all_sides]):
            [side] = [one for one in all_sides if one.name == name]
            if side.without:
                continue
            try:
                side.told.append(side.run(load))
            except (subprocess.SubprocessError, OSError, ValueError, AssertionError) as error:
                side.without = repr(error)[:300]


def tell(all_sides: list[Side], load: Load) -> None:
    """Print a line for each side, with the interval of ours over it."""
    made = load.requests * load.output_tokens
    for side in all_sides:
        if side.without:
            print(f"\n  without {side.name}: {side.without}", end="")
            continue
        [base] = [one for one in all_sides if one.name == f"ours, {side.api}"]
        rate, spent_s = median(one.tok_s for one in side.told), median(one.processor_s for one in side.told)
        print(f"\n  {side.name:18} {rate:9,.0f} tok/s  {1e6 * spent_s / made:7.1f} µs of a core a token", end="")
        if side is base:
            print(f"  loop lag p99 {max(one.lag_p99_ms or 0.0 for one in side.told):.1f} ms", end="")
            continue
        pairs = list(zip(side.told, base.told, strict=True))
        for what, low, high in (
            ("tok/s", [a.tok_s for a, _ in pairs], [b.tok_s for _, b in pairs]),
            ("processor time", [a.processor_s for a, _ in pairs], [b.processor_s for _, b in pairs]),
        ):
            if (found := interval(low, high)) is not None:
                print(f"  {what} ours {found.ratio:.2f} × [{found.low:.2f}, {found.high:.2f}]", end="")


def warmed(engines: list[Client], port: int) -> None:
    """Have the engines' clients import what they import at their first run: it is none of the load's."""
    for one in engines:
        one.run(Load(port, 1, 1, 32, 4))


@pytest.mark.parametrize("streams", [64, 256, 1024])
def test_ceilings(engines: list[Client], model: Path, tmp_path: Path, streams: int) -> None:
    with paced_server(0, 0) as port:
        load = Load(port, streams, max(LEAST_REQUESTS, 2 * streams), 32, TOKENS)
        warmed(engines, port)
        found = sides(engines, tmp_path, model)
        rounds(found, load)
        sent = ours(load, "completions", rate=200.0)
    print(f"\n{streams} streams as fast as they come, {ROUNDS} rounds, load average {os.getloadavg()[0]:.1f}:", end="")
    tell(found, load)
    print(f"\n  ours at 200 requests/s: send lag p99 {sent.lag_p99_ms:.2f} ms")


@pytest.mark.parametrize("streams", [64, 256, 1024])
def test_what_a_token_costs_that_comes_alone(engines: list[Client], model: Path, tmp_path: Path, streams: int) -> None:
    with paced_server(0.2, streams / PACED_TOK_S) as port:
        load = Load(port, streams, streams, 32, PACED_TOKENS)
        warmed(engines, port)
        found = [side for side in sides(engines, tmp_path, model) if side.name not in ("aiperf", "guidellm")]
        rounds(found, load)
    print(f"\n{streams} streams, {PACED_TOK_S:,.0f} tok/s in all, load average {os.getloadavg()[0]:.1f}:", end="")
    tell(found, load)

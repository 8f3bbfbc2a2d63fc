"""Our load beside the engines' own clients: the same numbers where no client is the limit.

What must be equal is what all three define alike: output tok/s and requests/s over the window from the first request
to the last token, and the means of TTFT, ITL, TPOT and E2EL. They are alike here because the server sends one token an
event and tells its counts. Where it does not, the definitions part, and a difference is none of a load generator's:

- Output tokens are the server's count in all three. SGLang's client also tells `*_retokenized`, what its tokenizer
  makes of the text; vLLM's does that only where no usage came.
- An event of several tokens is one gap in our ITL and vLLM's; SGLang's client divides it by the tokens (`generate`).
  TPOT is free of that. llama.cpp sends no event for half of a UTF-8 character.
- The event of a chat that brings a role and no text is the first token to us and to vLLM's; SGLang's waits for text.
- TTFT begins when the request is sent; theirs begins before the connection is made, SGLang's with a new one for every
  request. E2EL ends with the last token; SGLang's with the `[DONE]` behind it.
- Medians of short gaps are left out: a pause of the machine moves single gaps, their sum it cannot.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from console.bench.judging import measurement
from console.bench.loading import LoadPlan
from console.bench.naming import engine_names
from console.bench.power import PowerWindow
from console.bench.protocol import Flushed
from console.bench.results import Result, import_results
from console.domain.profile import LimitsSection
from tests.real_engine.clients import SGLANG, VLLM, Client, Load, client
from tests.real_engine.conftest import ROOT

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(400)]

TTFT_S, ITL_S, SPREAD = 3.0, 0.02, 0.5
"""The pace: 400 tokens a second of 8 streams, a fiftieth of what the slowest client can.

2 % are 60 ms of a first token and 50 ms of all gaps of a stream. Half a dozen connections made at once on a busy
machine of two cores cost SGLang's client 10 to 40 ms, which it counts as the server's.
"""

LIKE = 0.02

LATE_MS, TRIES = 50.0, 3
"""A server that was later than this did not keep its pace: both are measured again, whatever they came to."""


@pytest.fixture
def paced() -> Iterator[int]:
    """The port of a server that paces its streams, a process of its own."""
    words = [sys.executable, str(ROOT / "tests/bench/paced.py"), *map(str, (TTFT_S, ITL_S, SPREAD))]
    engine = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT)
    assert engine.stdout is not None
    try:
        yield int(engine.stdout.readline())
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()


def ours(load: Load, api: str) -> Result:
    """Return what our load program measures, through our export and import."""
    plan = LoadPlan(
        load.port, load.streams, load.requests, load.warmup, load.input_tokens, load.output_tokens, load.seed, api,
        model="tiny", token_range=(256, 1024),
    )  # fmt: skip
    words = [sys.executable, "-m", "console.bench.load.run", "--plan", json.dumps(asdict(plan))]
    done = subprocess.run(words, capture_output=True, cwd=ROOT, timeout=120, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    one = measurement(
        "run", plan, 0, told,
        limits=LimitsSection(), power=PowerWindow(), flushed=Flushed(True, ""), idle="", retracted=None,
    )  # fmt: skip
    [result] = import_results(json.dumps(engine_names(one)).encode()).results
    return result


def figures(result: Result) -> dict[str, float]:
    """Return what must be alike."""
    means = {f"mean {name}": result.latencies[name]["mean_ms"] for name in ("ttft_ms", "itl_ms", "tpot_ms", "e2el_ms")}
    found = {"tok/s": result.output_throughput_tok_s, "requests/s": result.request_throughput_req_s, **means}
    assert all(found.values()), found
    return {name: value for name, value in found.items() if value}


def late_ms(port: int) -> float:
    """Return how late the server itself was at most: that is in both sides' numbers, not in the clients."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/paced") as reply:
        return 1000 * float(json.load(reply)["late_s"])


@pytest.fixture(scope="module", params=[SGLANG, VLLM], ids=["sglang", "vllm"])
def other(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An engine's own client, ready to run."""
    with client(request.param, tmp_path_factory.mktemp("client"), model) as found:
        yield found


def test_below_every_ceiling_the_numbers_are_the_same(paced: int, other: Client) -> None:
    load = Load(paced, streams=8, requests=16, input_tokens=32, output_tokens=128, warmup=1)
    for _ in range(TRIES):
        [their] = import_results(other.run(load).read_bytes()).results
        mine = ours(load, other.make.api)
        if (late := late_ms(paced)) < LATE_MS:
            break
    for result in (their, mine):
        assert (result.completed, result.failed or 0, result.fit) == (load.requests, 0, True)
        assert result.output_tokens == load.requests * load.output_tokens
    found, wanted = figures(mine), figures(their)
    print(*(f"{name}: ours {found[name]:,.2f}, theirs {wanted[name]:,.2f}" for name in found), sep="\n")
    assert found == pytest.approx(wanted, rel=LIKE), f"the server was {late:.0f} ms late"
    assert found["mean ttft_ms"] == pytest.approx(1000 * TTFT_S, rel=LIKE)
    assert found["mean itl_ms"] == pytest.approx(1000 * ITL_S, rel=LIKE)

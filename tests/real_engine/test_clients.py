"""Our load beside the engines' own clients: the same numbers where no client is the limit, a told ratio where all are.

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

import asyncio
import json
import math
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

import pytest

from console.bench.judging import measurement
from console.bench.loading import LoadPlan
from console.bench.naming import engine_names
from console.bench.power import PowerWindow
from console.bench.protocol import Flushed
from console.bench.results import Result, import_results
from console.domain.measurement import Measurement
from console.domain.profile import BenchSection, LimitsSection
from console.experiments.schedule import order
from console.experiments.statistics import interval
from console.operations import measure, server
from console.operations.desk import Desk
from tests.real_engine.clients import SGLANG, VLLM, Client, Load, client, paced_server
from tests.real_engine.conftest import READY_S, ROOT, Bay

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(900)]

TTFT_S, ITL_S, SPREAD = 3.0, 0.02, 0.5
"""The pace: 400 tokens a second of 8 streams, a fiftieth of what the slowest client can.

2 % are 60 ms of a first token and 50 ms of all gaps of a stream. Half a dozen connections made at once on a busy
machine of two cores cost SGLang's client 10 to 40 ms, which it counts as the server's.
"""

LIKE = 0.02

BESIDE = BenchSection(concurrency=(16,), input_tokens=64, output_tokens=64, requests_per_stream=2)
PAIRS = 5
SANE = 3.0
"""A ratio beyond this, or below its inverse, is no matter of shared cores: something else would be counted."""

TOLD = """
ours beside sglang.bench_serving on one SGLang: {streams} streams of {output} tokens, flushed before each, {pairs} pairs
output tok/s, ours over theirs {rate.ratio:.3f}, 95 % interval {rate.low:.3f} to {rate.high:.3f}
mean E2EL, ours over theirs    {e2el.ratio:.3f}, 95 % interval {e2el.low:.3f} to {e2el.high:.3f}
Server and clients share {cores} cores, so what a client takes of them the server lacks: ours took {mine_s:.2f} s in its
windows of {wall_s:.1f} s, theirs {their_s:.2f} s with its prompts and its result. Their windows also hold a connection for
each request and a GET /server_info behind the last token."""

LATE_MS, KEPT, TRIES = 50.0, 3, 7
"""So many pairs decide, by the median of their ratios: one pause of a busy machine is in one side of one pair. A pair in
which the server was later than this is measured again, whatever it came to."""


@pytest.fixture
def paced() -> Iterator[int]:
    """The port of a server that paces its streams, a process of its own."""
    with paced_server(TTFT_S, ITL_S, SPREAD) as port:
        yield port


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
    return exported(one)


def exported(one: Measurement) -> Result:
    """Return a measurement of ours as a file of theirs would be read."""
    [result] = import_results(json.dumps(engine_names(one)).encode()).results
    return result


def figures(result: Result) -> dict[str, float]:
    """Return what must be alike."""
    means = {f"mean {name}": result.latencies[name]["mean_ms"] for name in ("ttft_ms", "itl_ms", "tpot_ms", "e2el_ms")}
    found = {"tok/s": result.output_throughput_tok_s, "requests/s": result.request_throughput_req_s, **means}
    assert all(found.values()), found
    return {name: value for name, value in found.items() if value}


def paced_by(port: int) -> dict[str, float]:
    """Return how late the server was at most, and what it served, since it was asked last: none of it is a client's."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/paced") as reply:
        told = json.load(reply)
    return {"late": 1000 * told["late_s"], "mean ttft_ms": 1000 * told["ttft_s"], "mean itl_ms": 1000 * told["itl_s"]}


def checked(result: Result, load: Load) -> dict[str, float]:
    """Return the figures of a result that holds every request and token."""
    assert (result.completed, result.failed or 0, result.fit) == (load.requests, 0, True)
    assert result.output_tokens == load.requests * load.output_tokens
    return figures(result)


@pytest.fixture(scope="module", params=[SGLANG, VLLM], ids=["sglang", "vllm"])
def other(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An engine's own client, ready to run."""
    with client(request.param, tmp_path_factory.mktemp("client"), model) as found:
        yield found


def test_below_every_ceiling_the_numbers_are_the_same(paced: int, other: Client) -> None:
    load = Load(paced, streams=8, requests=16, input_tokens=32, output_tokens=128, warmup=0)
    pairs: list[tuple[dict[str, float], dict[str, float], dict[str, float]]] = []
    late: list[float] = []
    for block in range(TRIES):
        mine: dict[str, float] = {}
        their: dict[str, float] = {}
        served: dict[str, float] = {}
        for side in order(block, ("ours", "theirs")):
            paced_by(paced)
            if side == "ours":
                mine, served = checked(ours(load, other.make.api), load), paced_by(paced)
                late.append(served["late"])
            else:
                [result] = import_results(other.run(replace(load, warmup=1)).read_bytes()).results
                their = checked(result, load)
                late.append(paced_by(paced)["late"])
        if max(late[-2:]) < LATE_MS:
            pairs.append((mine, their, served))
        if len(pairs) == KEPT:
            break
    assert len(pairs) == KEPT, f"the server did not keep its pace: late by {late} ms"
    ratios = {name: median(mine[name] / their[name] for mine, their, _ in pairs) for name in pairs[0][0]}
    print(*(f"{name}: ours over theirs {ratio:.4f}" for name, ratio in ratios.items()), sep="\n")
    assert ratios == pytest.approx(dict.fromkeys(ratios, 1.0), rel=LIKE), f"{pairs}, late by {late} ms"
    for name in ("mean ttft_ms", "mean itl_ms"):
        assert median(mine[name] / served[name] for mine, _, served in pairs) == pytest.approx(1.0, rel=LIKE), name


async def swept(desk: Desk, repeat: int) -> Measurement:
    """Return one measurement of ours by the protocol."""
    async with aclosing(measure.sweep(desk, repeats=1, first_repeat=repeat)) as steps:  # type: ignore[type-var]
        [one] = [progress.done async for progress in steps][-1]
    return one


@pytest.mark.sshd
@pytest.mark.parametrize("other", [SGLANG], indirect=True, ids=["sglang"])
async def test_on_one_real_server_the_ratio_of_both_has_an_interval(other: Client, bay: Bay) -> None:
    """How large it is, is this machine's; that every request and token of both is there is ours."""
    desk = await bay.desk(bay.profile())
    assert desk.profile is not None
    desk.profile = replace(desk.profile, bench=BESIDE)
    run = await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)
    streams = BESIDE.concurrency[0]
    load = Load(run.port, streams, 2 * streams, BESIDE.input_tokens, BESIDE.output_tokens, warmup=streams)
    mine: list[Measurement] = []
    their: list[Result] = []
    their_s = 0.0
    for block in range(PAIRS):
        for side in order(block, ("ours", "theirs")):
            if side == "ours":
                mine.append(await swept(desk, block))
            else:
                file = await asyncio.to_thread(other.run, replace(load, seed=block), "--flush-cache")
                their += import_results(file.read_bytes()).results
                their_s += other.processor_s
    await server.stop(desk, run, grace_s=120)
    for result in (*map(exported, mine), *their):
        assert (result.completed, result.failed or 0, result.fit) == (load.requests, 0, True)
        assert result.output_tokens == load.requests * load.output_tokens
    assert not [why for one in mine for why in one.tainted if "cache" in why]
    told = [(figures(one), figures(exported(own))) for one, own in zip(their, mine, strict=True)]
    rate, e2el = (
        interval([base[name] for base, _ in told], [arm[name] for _, arm in told]) for name in ("tok/s", "mean e2el_ms")
    )
    mine_s = sum(float(str(one.protocol["client_processor_share"])) * one.duration_s for one in mine)
    print(
        TOLD.format(
            streams=streams, output=load.output_tokens, pairs=PAIRS, rate=rate, e2el=e2el, cores=os.cpu_count(),
            mine_s=mine_s, their_s=their_s, wall_s=sum(one.duration_s for one in mine),
        )
    )  # fmt: skip
    for ratio in (rate, e2el):
        assert ratio is not None and ratio.pairs == PAIRS and ratio.low < ratio.ratio < ratio.high < math.inf
        assert 1 / SANE < ratio.ratio < SANE

"""The load program, sent and run, against a pretend engine: counts are exact, faults have names."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.bench.load.http import Events
from console.bench.load.requests import Plan
from console.bench.loading import LoadError, LoadPlan, LoadProgress, load
from console.bench.metrics import requests_of
from console.remote.http import http_client
from console.remote.link import HostLink
from tests.bench.engine import Engine

ROOT = Path(__file__).parent.parent.parent
PLAN = LoadPlan(port=0, concurrency=8, requests=32, warmup=8, input_tokens=16, output_tokens=10, seed=7)


async def run(link: HostLink, plan: LoadPlan) -> tuple[Mapping[str, Any], list[LoadProgress]]:
    progress: list[LoadProgress] = []
    async with asyncio.timeout(60), aclosing(load(link, plan)) as parts:
        async for part in parts:
            if not isinstance(part, LoadProgress):
                return part, progress
            progress.append(part)
    raise AssertionError("no result")


@pytest.mark.parametrize("api", ["generate", "completions", "chat"])
async def test_counts_are_exact(link: HostLink, engine: Engine, api: str) -> None:
    result, progress = await run(link, replace(PLAN, port=engine.port, api=api))
    assert (result["requests"], result["completed"], result["failed"]) == (32, 32, 0)
    assert len(engine.asked) == 40 and engine.peak == 8 and result["peak_concurrency"] == 8
    requests = requests_of(result)
    assert {request.output_tokens for request in requests} == {10} and {r.input_tokens for r in requests} == {16}
    assert result["itl"]["count"] == 32 * 9 and result["told"] and result["wrong_length"] == 0
    assert {step.phase for step in progress} == {"warmup", "measure"}


async def test_ttft_and_gaps_add_up_to_the_whole(link: HostLink, engine: Engine) -> None:
    result, _ = await run(link, replace(PLAN, port=engine.port))
    for request in requests_of(result):
        assert request.mean_itl_s is not None
        assert request.ttft_s + 9 * request.mean_itl_s == pytest.approx(request.e2el_s, abs=2e-5)
        assert request.ttft_s > 0 and request.e2el_s >= 9 * 0.002


async def test_prompts_are_seeded_different_and_of_the_asked_length(link: HostLink, engine: Engine) -> None:
    for _ in range(2):
        await run(link, replace(PLAN, port=engine.port))
    first, second = engine.asked[:40], engine.asked[40:]
    ids = sorted(one["input_ids"] for one in first)
    assert ids == sorted(one["input_ids"] for one in second)
    assert len({tuple(one) for one in ids}) == 40 and {len(one) for one in ids} == {16}
    sampling = first[0]["sampling_params"]
    assert sampling["ignore_eos"] is True and sampling["max_new_tokens"] == 10 and first[0]["stream"] is True


async def test_completions_ask_for_usage_under_the_served_name(link: HostLink, engine: Engine) -> None:
    await run(link, replace(PLAN, port=engine.port, api="completions"))
    assert engine.asked[0]["model"] == "pretend"
    assert engine.asked[0]["stream_options"] == {"include_usage": True} and engine.asked[0]["ignore_eos"] is True


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("refuse", "HTTP 503: The queue is full."),
        ("cut", "the server hung up"),
        ("error", "server: CUDA error: out of luck"),
    ],
)
async def test_a_failed_request_has_its_reason_and_the_others_count(
    link: HostLink, engine: Engine, fault: str, reason: str
) -> None:
    engine.fault, engine.faulty = fault, 3
    result, _ = await run(link, replace(PLAN, port=engine.port, warmup=0))
    assert (result["completed"], result["failed"]) == (29, 3)
    ((told, count),) = result["errors"].items()
    assert told.startswith(reason) and count == 3


async def test_answers_of_another_length_are_told(link: HostLink, engine: Engine) -> None:
    engine.fault, engine.faulty = "short", 4
    result, _ = await run(link, replace(PLAN, port=engine.port, warmup=0))
    assert result["wrong_length"] == 4 and sum(r.output_tokens for r in requests_of(result)) == 28 * 10 + 4 * 5


async def test_without_usage_events_are_counted_and_that_is_told(link: HostLink, engine: Engine) -> None:
    engine.fault, engine.faulty = "silent", 99
    result, _ = await run(link, replace(PLAN, port=engine.port, warmup=0))
    assert result["told"] is False and sum(r.output_tokens for r in requests_of(result)) == 320


async def test_a_server_that_is_not_there(link: HostLink) -> None:
    with pytest.raises(LoadError) as caught:
        await run(link, replace(PLAN, port=9))
    assert "onnect" in caught.value.detail


async def test_a_server_at_the_ipv6_loopback_alone_is_found_by_load_and_questions(link: HostLink) -> None:
    engine = Engine()
    try:
        server = await engine.start(host="::1")
    except OSError:
        pytest.skip("no IPv6 here")
    async with server, http_client(link, engine.port) as client:
        assert (await client.get("/get_load")).status_code == 200
        result, _ = await run(link, replace(PLAN, port=engine.port, api="completions"))
    assert (result["completed"], result["failed"]) == (32, 0) and engine.asked[0]["model"] == "pretend"


def test_too_few_open_files_are_told_before_a_server_is_asked() -> None:
    plan = '{"port":9,"concurrency":1024,"requests":4,"input_tokens":8,"output_tokens":8}'
    words = [
        "sh",
        "-c",
        'ulimit -n 256; exec "$0" "$@"',
        sys.executable,
        "-m",
        "console.bench.load.run",
        "--plan",
        plan,
    ]
    said = json.loads(subprocess.run(words, capture_output=True, cwd=ROOT, timeout=30, check=True).stdout)
    assert said["kind"] == "fault"
    assert said["reason"].startswith("1024 connections need 1056 open files, and the host allows this login 256")


async def test_a_request_without_end_is_given_up(link: HostLink, engine: Engine) -> None:
    engine.fault, engine.faulty = "hang", 1
    result, _ = await run(link, replace(PLAN, port=engine.port, warmup=0, timeout_s=0.5))
    assert (result["completed"], result["errors"]) == (31, {"no end within 0.5 s": 1})


async def test_lengths_are_spread_by_the_seed_and_told_right(link: HostLink, engine: Engine) -> None:
    plan = replace(
        PLAN, port=engine.port, warmup=0, input_tokens=100, output_tokens=40, input_spread=0.5, output_spread=0.5
    )
    result, _ = await run(link, plan)
    asked = sorted((len(one["input_ids"]), one["sampling_params"]["max_new_tokens"]) for one in engine.asked)
    assert len({length for length, _ in asked}) > 10 and len({length for _, length in asked}) > 5
    assert min(asked)[0] >= 50 and max(asked)[0] <= 100 and all(20 <= length <= 40 for _, length in asked)
    assert (
        sorted((r.input_tokens, r.output_tokens) for r in requests_of(result)) == asked and not result["wrong_length"]
    )
    engine.asked.clear()
    await run(link, plan)
    again = sorted((len(one["input_ids"]), one["sampling_params"]["max_new_tokens"]) for one in engine.asked)
    assert again == asked


async def test_an_open_loop_sends_when_requests_are_due(link: HostLink, engine: Engine) -> None:
    engine.pace_s = 0.02
    plan = replace(PLAN, port=engine.port, warmup=0, requests=20, concurrency=64, rate=40.0, arrival="constant")
    result, _ = await run(link, plan)
    assert (result["completed"], len(engine.arrived)) == (20, 20)
    sent = sorted(request.sent_s for request in requests_of(result))
    assert all(at >= place / 40.0 - 1e-6 for place, at in enumerate(sent))  # never early
    assert result["send_lag"]["count"] == 20 and result["peak_concurrency"] > 1


async def test_an_open_loop_without_room_tells_how_late_it_was(link: HostLink, engine: Engine) -> None:
    engine.pace_s = 0.02
    plan = replace(PLAN, port=engine.port, warmup=0, requests=8, concurrency=1, rate=1000.0, arrival="burst", burst=8)
    result, _ = await run(link, plan)
    assert result["peak_concurrency"] == 1 and result["completed"] == 8
    assert result["send_lag"]["max_s"] >= 7 * 10 * 0.02  # the last waited for seven answers of ten tokens


async def test_the_course_holds_every_token(link: HostLink, engine: Engine) -> None:
    result, _ = await run(link, replace(PLAN, port=engine.port, warmup=0))
    assert sum(result["course"]["tokens"]) == pytest.approx(320, abs=1)
    assert max(result["course"]["running"]) <= 8


async def test_what_is_in_flight_is_aborted_by_its_own_ids(link: HostLink, engine: Engine) -> None:
    engine.pace_s = 0.05
    plan = replace(PLAN, port=engine.port, output_tokens=2000, warmup=0)
    async with asyncio.timeout(30), aclosing(load(link, plan)) as parts:
        async for _ in parts:
            if engine.open == 8:
                break
    async with asyncio.timeout(10):
        while len(engine.aborted) < 8:
            await asyncio.sleep(0.02)
    assert sorted(engine.aborted) == sorted(one["rid"] for one in engine.asked) and len(engine.asked) == 8


async def test_closing_the_iterator_drops_what_is_in_flight(link: HostLink, engine: Engine) -> None:
    engine.pace_s = 0.05
    plan = replace(PLAN, port=engine.port, output_tokens=2000, warmup=0)
    async with asyncio.timeout(30), aclosing(load(link, plan)) as parts:
        async for _ in parts:
            if engine.open == 8:
                break
    async with asyncio.timeout(10):
        while engine.open:
            await asyncio.sleep(0.02)
    assert engine.dropped == 8


CONSOLE = """
import asyncio, sys
from console.bench.loading import LoadPlan, load
from console.remote.link import HostLink
from console.remote.local import LocalTransport

async def main():
    link = HostLink(LocalTransport())
    await link.connect()
    async for part in load(link, LoadPlan(int(sys.argv[1]), 4, 8, 0, 8, 100000)):
        print("going", flush=True)

asyncio.run(main())
"""


async def test_kill_of_the_console_ends_the_load(engine: Engine) -> None:
    engine.pace_s = 0.05
    console = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONSOLE, str(engine.port), stdout=subprocess.PIPE, cwd=ROOT
    )
    assert console.stdout is not None
    async with asyncio.timeout(30):
        while engine.open < 4:
            assert await console.stdout.readline() == b"going\n"
    os.kill(console.pid, signal.SIGKILL)
    await console.wait()
    async with asyncio.timeout(15):
        while engine.open:
            await asyncio.sleep(0.02)
    assert engine.dropped == 4


@given(st.lists(st.integers(1, 60), max_size=30), st.booleans())
def test_events_are_found_however_the_bytes_are_cut(cuts: list[int], crlf: bool) -> None:
    body = b'data: {"a": 1}\n\n: a comment\n\nevent: x\ndata: {"b": 2}\n\ndata: {"c": 3}\n\ndata: [DONE]\n\n'
    if crlf:
        body = body.replace(b"\n", b"\r\n")
    counted: list[int] = []
    events = Events(lambda count, now: counted.append(count))
    rest = body
    for number, cut in enumerate(cuts):
        events.take(rest[:cut], float(number))
        rest = rest[cut:]
    events.take(rest, 99.0)
    assert (events.last, events.before_last, events.done) == (b'{"c": 3}', b'{"b": 2}', True)
    assert len(events.stamps) == 3 == sum(counted) and events.stamps == sorted(events.stamps)


def test_a_plan_makes_the_same_prompt_for_the_same_seed_only() -> None:
    said = {"port": 1, "concurrency": 1, "requests": 1, "input_tokens": 50, "output_tokens": 1, "seed": 3}
    assert Plan(said).prompt(5) == Plan(said).prompt(5)
    assert Plan(said).prompt(5) != Plan({**said, "seed": 4}).prompt(5) != Plan(said).prompt(6)


@pytest.mark.parametrize("arrival", ["poisson", "constant", "burst"])
def test_arrivals_keep_their_rate_and_their_seed(arrival: str) -> None:
    said = {"port": 1, "concurrency": 1, "requests": 1, "input_tokens": 5, "output_tokens": 1, "seed": 3, "rate": 50,
            "arrival": arrival, "burst": 10}  # fmt: skip
    times = Plan(said).arrivals(4000)
    assert times == Plan(said).arrivals(4000) and times == sorted(times) and times[0] == 0
    assert 4000 / times[-1] == pytest.approx(50, rel=0.06)
    gaps = {round(later - earlier, 9) for earlier, later in itertools.pairwise(times)}
    assert {"constant": gaps == {0.02}, "burst": gaps == {0.0, 0.2}, "poisson": len(gaps) > 3000}[arrival]


def test_runs_by_hand(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/bench/engine.py"), "0"], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        plan = f'{{"port":{port},"concurrency":2,"requests":4,"input_tokens":8,"output_tokens":8}}'
        command = [sys.executable, "-m", "console.bench.load.run", "--plan", plan]
        out = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=30, check=True)
        assert b'"completed":4' in out.stdout.splitlines()[-1]
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
